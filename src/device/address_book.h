// Which addresses a device has given out: blocks of allocate(), ranges of reserve(), and what map() put
// behind them. It refuses whatever the device did not give out, so that a driver is never asked about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace stweaver {

/// Addresses with a size in bytes.
struct AddressRange {
  std::byte* begin = nullptr;
  Bytes size = 0;
};

inline constexpr Bytes kWord = sizeof(std::uint32_t);  ///< what devices fill memory with

constexpr std::size_t length(Bytes size) {
  return static_cast<std::size_t>(size);
}

/// Why [at, at + size) is not whole words of 4 bytes, as the end of a sentence; nothing when it is.
std::string_view refuse_words(const std::byte* at, Bytes size);

/// Safe to use from any thread. What can be refused returns why, as the end of a sentence that began with the
/// call; nothing when all is well.
class AddressBook {
 public:
  /// `page_size` in bytes; 0 refuses every range.
  explicit AddressBook(Bytes page_size) : page_size_(page_size) {}

  void add_block(const AddressRange& block);
  /// The size of the block that begins at `memory`, which is now forgotten; 0 when there is none.
  Bytes remove_block(std::byte* memory);

  /// Why a range of this size cannot be reserved.
  [[nodiscard]] std::string_view refuse_size(Bytes size) const;
  void add_range(const AddressRange& range);
  std::string_view remove_range(const AddressRange& range);

  std::string_view add_mapping(const AddressRange& mapping);
  std::string_view remove_mapping(const AddressRange& mapping);

  /// Whether every byte of [at, at + size) lies in a block or has memory mapped behind it.
  [[nodiscard]] bool has_memory(const std::byte* at, Bytes size) const;

  [[nodiscard]] std::vector<AddressRange> blocks() const;
  [[nodiscard]] std::vector<AddressRange> ranges() const;
  [[nodiscard]] std::vector<AddressRange> mappings() const;

 private:
  using Places = std::map<const std::byte*, AddressRange, std::less<>>;

  static const AddressRange* find(const Places& places, const std::byte* at);
  static bool overlaps(const Places& places, const AddressRange& range);
  static std::vector<AddressRange> list(const Places& places);
  static bool remove(Places& places, const AddressRange& range);

  Bytes page_size_;
  mutable std::mutex mutex_;
  Places blocks_;
  Places ranges_;
  Places mappings_;
};

}  // namespace stweaver
