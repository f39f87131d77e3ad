// The checksum of our own files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace stweaver {

namespace detail {

constexpr std::array<std::uint32_t, 256> make_crc32c_table() {
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
    table[i] = crc;
  }
  return table;
}

inline constexpr std::array<std::uint32_t, 256> kCrc32cTable = make_crc32c_table();

}  // namespace detail

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4) of `bytes`, going on from `crc`, the checksum of what came
/// before.
constexpr std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0) {
  crc = ~crc;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ detail::kCrc32cTable[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  }
  return ~crc;
}

}  // namespace stweaver
