// Reads a ByteSource piece by piece, and knows how far it has come.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "trace/source.h"

namespace stweaver {

/// A buffered view of a ByteSource. Never holds more than its buffer, whatever lengths the input claims.
class ByteReader {
 public:
  explicit ByteReader(ByteSource source) : source_(std::move(source)), buffer_(std::size_t{1} << 16) {}

  /// How many bytes were taken so far: the offset of the next one.
  [[nodiscard]] std::uint64_t offset() const { return before_ + begin_; }

  /// Whether no byte is left.
  bool at_end() { return begin_ == end_ && !refill(); }

  /// Takes one byte; false at the end.
  bool take(std::uint8_t& byte) {
    if (at_end()) return false;
    byte = std::to_integer<std::uint8_t>(buffer_[begin_++]);
    return true;
  }

  /// Takes a little-endian number; false when the input ends inside of it.
  template <typename Number>
  bool take(Number& number) {
    static_assert(std::endian::native == std::endian::little, "the buffer is read as the number");
    if (end_ - begin_ >= sizeof(Number)) {
      std::memcpy(&number, buffer_.data() + begin_, sizeof(Number));
      begin_ += sizeof(Number);
      return true;
    }
    scratch_.clear();
    if (!append(sizeof(Number), scratch_)) return false;
    std::memcpy(&number, scratch_.data(), sizeof(Number));
    return true;
  }

  /// Appends the next `length` bytes to `out`, which grows as they arrive and not before; false when there
  /// are fewer.
  bool append(std::uint64_t length, std::string& out) {
    return pass(length, [&](const char* data, std::size_t size) { out.append(data, size); });
  }

  /// Drops the next `length` bytes; false when there are fewer.
  bool skip(std::uint64_t length) {
    return pass(length, [](const char*, std::size_t) {});
  }

 private:
  template <typename Use>
  bool pass(std::uint64_t length, const Use& use) {
    while (length > 0) {
      if (at_end()) return false;
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(length, end_ - begin_));
      use(reinterpret_cast<const char*>(buffer_.data() + begin_), size);
      begin_ += size;
      length -= size;
    }
    return true;
  }

  bool refill() {
    before_ += end_;
    begin_ = 0;
    end_ = 0;
    end_ = source_(buffer_);
    return end_ > 0;
  }

  ByteSource source_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t before_ = 0;  // bytes in the buffers before this one
  std::string scratch_;
};

}  // namespace stweaver
