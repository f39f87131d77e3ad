// Mixing numbers into a hash. For telling things apart, not for security.
#pragma once

#include <cstdint>

namespace stweaver {

/// `hash` with `value` mixed in (multiplication by 2^64 / golden ratio, then a shift to bring high bits
/// down).
constexpr std::uint64_t mix_hash(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29U);
}

}  // namespace stweaver
