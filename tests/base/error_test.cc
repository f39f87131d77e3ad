#include "base/error.h"

#include <locale>
#include <string>

#include <gtest/gtest.h>

namespace stweaver {
namespace {

/// Of a program that writes numbers its own way.
class Grouping : public std::numpunct<char> {
 protected:
  [[nodiscard]] char do_thousands_sep() const override { return '.'; }
  [[nodiscard]] char do_decimal_point() const override { return ','; }
  [[nodiscard]] std::string do_grouping() const override { return "\3"; }
};

TEST(Text, LooksTheSameWhateverLocaleTheProgramHas) {
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Grouping));
  const std::string bytes = text(1234567, ' ', 0.5), size = in_gib(kGiB * 1024 * 3 / 2);
  std::locale::global(before);
  EXPECT_EQ(bytes, "1234567 0.5");
  EXPECT_EQ(size, "1536.00 GiB");
}

TEST(InUnits, IsInTheLargestUnitThatItIsOneOf) {
  EXPECT_EQ(in_units(1023), "1023 bytes");
  EXPECT_EQ(in_units(kKiB), "1.00 KiB");
  EXPECT_EQ(in_units(5 * kMiB / 2), "2.50 MiB");
  EXPECT_EQ(in_units(1536 * kMiB), "1.50 GiB");
}

}  // namespace
}  // namespace stweaver
