// The living blocks, by address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arena/free_space.h"
#include "trace/model.h"

namespace stweaver {

/// Where a block's bytes come from.
enum class Source : std::uint8_t {
  kPlanned,    ///< the arena, at the place the plan has for it
  kReused,     ///< the arena, where it was idle
  kElsewhere,  ///< elsewhere in the arena
  kFallback,   ///< the upstream allocator
};

inline constexpr RequestId kNotRecorded = 0xffffffffU;

inline std::uintptr_t number_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

inline constexpr std::int32_t kNoUse = -1;

struct LivingBlock {
  std::uintptr_t address = 0;
  Bytes size = 0;     ///< as asked for
  Bytes rounded = 0;  ///< taken from the arena: `size` rounded up to the alignment of the plan at that time
  StreamIndex stream = 0;
  RequestId recorded = kNotRecorded;  ///< its number in the recorder's trace
  Tick born = 0;
  Source source = Source::kPlanned;
  bool hands_over = false;  ///< the plan gives its bytes to another stream later
  /// The first use by another stream that record_stream() told of: its number in PendingFrees.
  std::int32_t use = kNoUse;
};

/// A hash table with open addressing: one cache line or two for a call, no heap but when it doubles.
class BlockTable {
 public:
  explicit BlockTable(std::size_t expected = 512);

  /// Makes room for that many blocks without growing.
  void reserve(std::size_t blocks);

  /// Puts a block in; its address must be new and not 0.
  void insert(const LivingBlock& block);

  /// The block at this very address; nullptr when there is none. Good until the next insert or erase.
  [[nodiscard]] LivingBlock* find(std::uintptr_t address);

  /// Takes out a block that find() returned.
  void erase(LivingBlock* block);

  [[nodiscard]] std::size_t size() const { return count_; }

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const LivingBlock& block : cells_) {
      if (block.address != 0) visit(block);
    }
  }

  /// visit(LivingBlock&) may change anything but the address.
  template <typename Visit>
  void change_each(Visit visit) {
    for (LivingBlock& block : cells_) {
      if (block.address != 0) visit(block);
    }
  }

 private:
  [[nodiscard]] std::size_t home(std::uintptr_t address) const;
  void rehash(std::size_t cells);

  std::vector<LivingBlock> cells_;  ///< a power of two; address 0 is an empty one
  unsigned shift_ = 0;
  std::size_t count_ = 0;
};

}  // namespace stweaver
