// A fuzzer's input as a source of bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "trace/source.h"

namespace stweaver {

/// `bytes` as a source; they must outlive it.
inline ByteSource source_of(std::span<const std::uint8_t> bytes) {
  return [bytes](std::span<std::byte> buffer) mutable {
    const std::size_t size = std::min(buffer.size(), bytes.size());
    if (size > 0) std::memcpy(buffer.data(), bytes.data(), size);
    bytes = bytes.subspan(size);
    return size;
  };
}

/// Ends the process, for the fuzzer to report, when `holds` does not.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace stweaver
