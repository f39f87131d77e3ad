#include "base/checksum.h"

#include <array>
#include <string_view>

#include <gtest/gtest.h>

namespace stweaver {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The vectors of RFC 3720, appendix B.4.
TEST(Checksum, IsThatOfTheStandard) {
  std::array<std::byte, 32> zeros = {};
  EXPECT_EQ(crc32c(zeros), 0x8a9136aaU);
  std::array<std::byte, 32> ascending = {};
  for (std::size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(crc32c(bytes("123456789")), 0xe3069283U);
}

TEST(Checksum, GoesOnFromAPart) {
  EXPECT_EQ(crc32c(bytes("56789"), crc32c(bytes("1234"))), 0xe3069283U);
}

}  // namespace
}  // namespace stweaver
