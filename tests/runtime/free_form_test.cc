#include "runtime/free_form.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "device/device.h"

namespace stweaver {
namespace {

constexpr Bytes kPage = 2 * kMiB;
constexpr Interval kNothing = {};

class FreeFormTest : public testing::Test {
 protected:
  FreeFormTest() { lane = order.lane_of(0), other = order.lane_of(7); }

  /// As an allocator uses it: idle memory first, then more.
  std::optional<Bytes> take(Bytes room, LaneId who, const Interval& keep = kNothing) {
    std::optional<Bytes> place = free_form.find(room, who, keep);
    if (!place && !free_form.is_closed(++now)) {
      if (const std::optional<Window> window = free_form.find_window(room, who, keep)) {
        free_form.make_room(*window, keep);
        place = free_form.extend(*window, keep);
      }
      if (!place) free_form.pause(now);
    }
    if (place) arena.free_space.take(*place, room);
    return place;
  }
  Bytes take(Bytes room) { return take(room, lane).value_or(-1); }
  void give(Bytes offset, Bytes room, LaneId who) { arena.free_space.give(offset, room, {who, ++now}); }
  void give(Bytes offset, Bytes room) { give(offset, room, lane); }

  HostDevice host{16 * kGiB};
  FailingDevice device{host};
  Arena arena{device};
  StreamOrder order{device};
  FreeForm free_form{arena, order};
  LaneId lane = 0;
  LaneId other = 0;
  Tick now = 0;
};

TEST_F(FreeFormTest, MapsNoMoreThanIsAskedFor) {
  EXPECT_EQ(take(3 * kMiB), 0);
  EXPECT_EQ(arena.mapped(), 2 * kPage);
  EXPECT_EQ(take(2 * kMiB), 3 * kMiB) << "the rest of a page and more behind it";
  EXPECT_EQ(arena.mapped(), 3 * kPage);
}

TEST_F(FreeFormTest, TakesTheLowestGapThatIsLargeEnough) {
  const Bytes first = take(8 * kMiB);
  take(4 * kMiB);
  const Bytes second = take(5 * kMiB);
  take(4 * kMiB);
  give(first, 8 * kMiB);
  give(second, 5 * kMiB);
  EXPECT_EQ(take(5 * kMiB), first);
  EXPECT_EQ(take(5 * kMiB), second);
}

TEST_F(FreeFormTest, KeepsSmallRequestsApart) {
  const Bytes large = take(kMiB + 512);
  const Bytes small = take(kMiB);
  take(kMiB + 512);
  EXPECT_EQ(take(512), small + kMiB);
  EXPECT_GE(small - large, kGiB) << "no large one shares its page";
}

TEST_F(FreeFormTest, TakesNothingThatAnotherLaneUsedLast) {
  const Bytes block = take(8 * kMiB);
  give(block, 8 * kMiB);
  EXPECT_EQ(free_form.find(8 * kMiB, other, kNothing), std::nullopt);
  EXPECT_EQ(free_form.find(8 * kMiB, lane, kNothing), block);
}

TEST_F(FreeFormTest, LeavesTheRangeOfAPlanAlone) {
  const Interval plan = {4 * kMiB, 20 * kMiB};
  ASSERT_TRUE(arena.map(plan));
  EXPECT_EQ(take(5 * kMiB, lane, plan), plan.upper);
  EXPECT_EQ(take(100 * kMiB, lane, plan), plan.upper + 5 * kMiB);
  give(plan.upper, 5 * kMiB);
  EXPECT_EQ(take(4 * kMiB, lane, plan), plan.upper);
  EXPECT_TRUE(arena.free_space.is_idle(plan.lower, plan.length()));
}

TEST_F(FreeFormTest, LeavesTheHolesOfAPlanAlone) {
  const Interval plan = {0, 20 * kMiB};
  EXPECT_EQ(take(5 * kMiB, lane, plan), plan.upper) << "nothing is mapped yet";
}

TEST_F(FreeFormTest, BeforeItHoldsMoreThanEverItCollectsWhatIsIdleElsewhere) {
  const Bytes first = take(64 * kMiB);
  take(4 * kMiB);
  const Bytes second = take(64 * kMiB);
  take(4 * kMiB);
  const Bytes most = arena.mapped();
  give(first, 64 * kMiB);
  give(second, 64 * kMiB);
  const Bytes large = take(120 * kMiB);
  EXPECT_GT(large, second) << "no gap was large enough";
  EXPECT_LE(arena.mapped(), most);
  EXPECT_EQ(device.calls(DeviceCall::kSynchronize), 1);
}

TEST_F(FreeFormTest, GrowsAGapThatIsALittleTooSmallIntoTheAddressesBesideIt) {
  const Bytes block = take(64 * kMiB);
  const Bytes most = arena.mapped();
  give(block, 64 * kMiB);
  EXPECT_EQ(take(68 * kMiB), block);
  EXPECT_EQ(arena.mapped(), most + 4 * kMiB);
  EXPECT_EQ(device.calls(DeviceCall::kUnmap), 0);
}

TEST_F(FreeFormTest, CountsWholePagesAgainstTheMostEver) {
  take(64 * kMiB);
  const Bytes idle = take(8 * kMiB);
  take(2 * kMiB);
  give(idle, 8 * kMiB);
  const Bytes most = arena.mapped();
  take(kMiB);  // a page among addresses of its own: what is idle pays for it
  EXPECT_LE(arena.mapped(), most);
}

TEST_F(FreeFormTest, BelowTheMostEverMapsWholeExtentsSoThatFewCallsAreNeeded) {
  std::vector<Bytes> blocks;
  for (int i = 0; i < 512; ++i) blocks.push_back(take(24 * kMiB));
  for (std::size_t i = 0; i < 64; ++i) give(blocks[i], 24 * kMiB);
  arena.unmap_idle(kNothing);
  const Bytes before = arena.mapped();
  const Bytes extent = arena.small_extent(before);
  ASSERT_GT(extent, kPage);
  take(kMiB);
  EXPECT_EQ(arena.mapped(), before + extent);
}

TEST_F(FreeFormTest, ABlockThatStaysPinsAPageAtEachOfItsEndsInASmallJob) {
  const Bytes block = take(100 * kMiB);
  const Bytes stays = take(3 * kMiB);
  const Bytes behind = take(100 * kMiB);
  give(block, 100 * kMiB);
  give(behind, 100 * kMiB);
  arena.unmap_idle(kNothing);
  EXPECT_LE(arena.mapped(), 2 * kPage);
  EXPECT_FALSE(arena.free_space.is_idle(stays, 3 * kMiB));
}

TEST(FreeForm, MapsALargeJobInAFewThousandCalls) {
  HostDevice host(64 * kGiB);
  FailingDevice device(host);
  Arena arena(device);
  StreamOrder order(device);
  FreeForm free_form(arena, order);
  const LaneId lane = order.lane_of(0);
  for (Bytes at = 0; at < 60 * kGiB; at += 30 * kMiB) {
    const std::optional<Window> window = free_form.find_window(30 * kMiB, lane, kNothing);
    ASSERT_TRUE(window);
    ASSERT_EQ(free_form.extend(*window, kNothing), at);
    arena.free_space.take(at, 30 * kMiB);
  }
  EXPECT_LT(device.calls(DeviceCall::kMap), 10'000);
}

TEST_F(FreeFormTest, CountsAsIdleWhatLiesOutsideOfThePlan) {
  const Interval plan = {0, 20 * kMiB};
  ASSERT_TRUE(arena.map(plan));
  const Bytes block = take(4 * kMiB, lane, plan).value_or(-1);
  EXPECT_EQ(free_form.idle(plan), 0);
  give(block, 4 * kMiB);
  EXPECT_EQ(free_form.idle(plan), 4 * kMiB);
  EXPECT_EQ(free_form.idle(kNothing), 24 * kMiB);
}

TEST_F(FreeFormTest, GivesBackWhatIsIdleBeforeItRunsOutOfMemory) {
  device.limit(32 * kMiB);
  const Bytes first = take(12 * kMiB);
  take(4 * kMiB);
  give(first, 12 * kMiB);
  EXPECT_NE(take(26 * kMiB), -1) << "28 MiB are not in use";
  EXPECT_EQ(device.held(), arena.mapped());
}

TEST_F(FreeFormTest, DoesNotAskADeviceWithoutMemoryAgainAndAgain) {
  device.fail_every(DeviceCall::kMap);
  EXPECT_EQ(take(4 * kMiB), -1);
  const std::int64_t calls = device.calls(DeviceCall::kMap);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(take(4 * kMiB), -1);
  EXPECT_EQ(device.calls(DeviceCall::kMap), calls);
  device.heal();
  free_form.retry();
  EXPECT_EQ(take(4 * kMiB), 0);
}

TEST_F(FreeFormTest, AsksADeviceWithoutMemoryAgainAfterAWhile) {
  device.fail_every(DeviceCall::kMap);
  EXPECT_EQ(take(4 * kMiB, lane), std::nullopt);
  device.heal();
  int tries = 1;
  while (!take(4 * kMiB, lane) && tries < 10'000) ++tries;
  EXPECT_GT(tries, 100);
  EXPECT_LT(tries, 10'000);
}

TEST_F(FreeFormTest, RefusesMoreThanThereAreAddresses) {
  EXPECT_EQ(take(100 * kGiB), -1);
  EXPECT_EQ(arena.mapped(), 0);
}

}  // namespace
}  // namespace stweaver
