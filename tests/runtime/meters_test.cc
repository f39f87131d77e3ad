#include "runtime/meters.h"

#include <gtest/gtest.h>

namespace stweaver {
namespace {

constexpr auto kAll = static_cast<std::size_t>(SizeClass::kAll);
constexpr auto kSmall = static_cast<std::size_t>(SizeClass::kSmall);
constexpr auto kLarge = static_cast<std::size_t>(SizeClass::kLarge);

TEST(Tally, CountsABlockByItsPool) {
  Tally tally;
  tally.add(1000, 1024, true);
  tally.add(kSmallSize + 1, 2 * kMiB, false);
  const Meters meters = tally.meters();
  EXPECT_EQ(meters.served[kAll].blocks.current, 2);
  EXPECT_EQ(meters.served[kAll].bytes.current, 1024 + 2 * kMiB);
  EXPECT_EQ(meters.served[kSmall].bytes.current, 1024);
  EXPECT_EQ(meters.served[kLarge].requested.current, kSmallSize + 1);
  EXPECT_EQ(meters.arena[kAll].blocks.current, 1);
  EXPECT_EQ(meters.arena[kSmall].requested.current, 1000);
  EXPECT_EQ(meters.arena[kLarge].blocks.current, 0);
}

TEST(Tally, RemembersTheMostOfArenaAndFallbackTogether) {
  Tally tally;
  tally.add(1000, 1024, true);
  tally.remove(1000, 1024, true);
  tally.add(2000, 2048, false);
  tally.add(3 * kMiB, 3 * kMiB, true);
  tally.remove(2000, 2048, false);
  const Meters meters = tally.meters();
  EXPECT_EQ(meters.served[kAll].blocks.peak, 2);
  EXPECT_EQ(meters.served[kAll].requested.peak, 2000 + 3 * kMiB);
  EXPECT_EQ(meters.served[kSmall].bytes.peak, 2048);
  EXPECT_EQ(meters.served[kLarge].bytes.peak, 3 * kMiB);
  EXPECT_EQ(meters.served[kSmall].bytes.allocated, 3072);
  EXPECT_EQ(meters.served[kSmall].bytes.freed, 3072);
  EXPECT_EQ(meters.served[kAll].blocks.freed, 2);
  EXPECT_EQ(meters.arena[kSmall].bytes.allocated, 1024);
}

TEST(Tally, ForgetsPeaksAndSumsWhenTold) {
  Tally tally;
  tally.add(1000, 1024, true);
  tally.add(500, 512, false);
  tally.remove(1000, 1024, true);
  tally.note_reserved(5000);
  tally.note_reserved(3000);
  EXPECT_EQ(tally.meters().reserved_peak, 5000);
  tally.reset_peaks(4000);
  EXPECT_EQ(tally.meters().served[kAll].bytes.peak, 512);
  EXPECT_EQ(tally.meters().served[kSmall].blocks.peak, 1);
  EXPECT_EQ(tally.meters().served[kLarge].blocks.peak, 0);
  EXPECT_EQ(tally.meters().reserved_peak, 4000);
  tally.reset_accumulated();
  tally.remove(500, 512, false);
  const Meters meters = tally.meters();
  EXPECT_EQ(meters.served[kAll].bytes.allocated, 0);
  EXPECT_EQ(meters.served[kAll].bytes.freed, 512);
  EXPECT_EQ(meters.served[kAll].bytes.current, 0);
}

}  // namespace
}  // namespace stweaver
