#include "runtime/meters.h"

#include <gtest/gtest.h>

namespace stweaver {
namespace {

constexpr auto kAll = static_cast<std::size_t>(SizeClass::kAll);
constexpr auto kSmall = static_cast<std::size_t>(SizeClass::kSmall);
constexpr auto kLarge = static_cast<std::size_t>(SizeClass::kLarge);

TEST(Meters, CountABlockByItsPool) {
  Meters meters;
  meters.count(1000, 1024, true, true);
  meters.count(kSmallSize + 1, 2 * kMiB, false, true);
  EXPECT_EQ(meters.served[kAll].blocks.current, 2);
  EXPECT_EQ(meters.served[kSmall].bytes.current, 1024);
  EXPECT_EQ(meters.served[kLarge].requested.current, kSmallSize + 1);
  EXPECT_EQ(meters.arena[kAll].blocks.current, 1);
  EXPECT_EQ(meters.arena[kLarge].blocks.current, 0);
}

TEST(Meters, RememberTheMostOfArenaAndFallbackTogether) {
  Meters meters;
  meters.count(1000, 1024, true, true);
  meters.count(1000, 1024, true, false);
  meters.count(2000, 2048, false, true);
  EXPECT_EQ(meters.served[kAll].requested.peak, 2000);
  EXPECT_EQ(meters.arena[kAll].requested.peak, 1000);
  EXPECT_EQ(meters.served[kAll].bytes.allocated, 3072);
  EXPECT_EQ(meters.served[kAll].bytes.freed, 1024);
}

TEST(Meters, ForgetPeaksAndSumsWhenTold) {
  Meters meters;
  meters.count(1000, 1024, true, true);
  meters.count(1000, 1024, true, false);
  meters.reserved_peak = 5000;
  meters.reset_peaks(4000);
  EXPECT_EQ(meters.served[kAll].bytes.peak, 0);
  EXPECT_EQ(meters.reserved_peak, 4000);
  meters.reset_accumulated();
  EXPECT_EQ(meters.served[kAll].bytes.allocated, 0);
  EXPECT_EQ(meters.served[kAll].bytes.freed, 0);
}

}  // namespace
}  // namespace stweaver
