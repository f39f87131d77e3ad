// Bytes for the readers under test.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include "trace/source.h"

namespace stweaver {

/// `bytes` as a source that hands out at most `piece` of them at a time.
inline ByteSource source_of(std::string bytes, std::size_t piece = 1 << 16) {
  auto rest = std::make_shared<std::string>(std::move(bytes));
  return [rest, piece, used = std::size_t{0}](std::span<std::byte> buffer) mutable {
    const std::size_t size = std::min({buffer.size(), piece, rest->size() - used});
    if (size > 0) std::memcpy(buffer.data(), rest->data() + used, size);
    used += size;
    return size;
  };
}

/// Flips bit number `bit` of `bytes`.
inline void flip_bit(std::string& bytes, std::size_t bit) {
  bytes[bit / 8] = static_cast<char>(static_cast<unsigned char>(bytes[bit / 8]) ^ 1U << bit % 8);
}

/// The contents of a file beside the tests of this layer.
inline std::string fixture(const std::string& name) {
  const std::filesystem::path path =
      std::filesystem::path(__FILE__).parent_path().parent_path() / "trace" / "data" / name;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no fixture " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace stweaver
