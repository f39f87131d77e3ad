#include "report/columns.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include <zlib.h>

#include "base/base.h"

namespace stweaver {
namespace {

constexpr unsigned kByte = 8;

std::vector<std::uint64_t> differences_of(const std::vector<std::uint64_t>& numbers) {
  std::vector<std::uint64_t> differences;
  differences.reserve(numbers.size());
  std::uint64_t last = 0;
  for (const std::uint64_t number : numbers) {
    differences.push_back(number - last);
    last = number;
  }
  return differences;
}

}  // namespace

std::string base64(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr unsigned kBits = 6;
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(bytes.size() - i, 3);
    unsigned word = 0;
    for (std::size_t k = 0; k < 3; ++k) word = word << kByte | (k < count ? bytes[i + k] : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= count ? kDigits[word >> (3 - k) * kBits & ((1U << kBits) - 1)] : '=';
  }
  return text;
}

void Columns::add(std::string_view name, const std::vector<std::uint64_t>& numbers, bool ascending) {
  const std::vector<std::uint64_t>& written = ascending ? differences_of(numbers) : numbers;
  std::uint64_t largest = 0;
  for (const std::uint64_t number : written) largest = std::max(largest, number);
  const unsigned planes = (static_cast<unsigned>(std::bit_width(largest)) + kByte - 1) / kByte;
  for (unsigned plane = 0; plane < planes; ++plane) {
    for (const std::uint64_t number : written)
      bytes_.push_back(static_cast<unsigned char>(number >> plane * kByte));
  }
  description_.push_back(
      {{"name", name}, {"count", numbers.size()}, {"planes", planes}, {"ascending", ascending}});
}

std::string Columns::packed() const {
  uLongf size = compressBound(bytes_.size());
  std::vector<unsigned char> compressed(size);
  if (compress2(compressed.data(), &size, bytes_.data(), bytes_.size(), Z_BEST_COMPRESSION) != Z_OK)
    fail("the report's data cannot be compressed: not enough memory");
  compressed.resize(size);
  return base64(compressed);
}

}  // namespace stweaver
