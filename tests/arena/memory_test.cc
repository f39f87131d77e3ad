#include "arena/memory.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/clocked_device.h"
#include "support/ends.h"
#include "support/page.h"

namespace stweaver {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Interval kEverywhere = {0, 4 * kGiB};
constexpr Bytes kMostExtent = ArenaPolicy().most_extent;

/// No memory beyond the most ever in use.
ArenaPolicy without_slack() {
  ArenaPolicy policy;
  policy.addresses = 4;
  policy.least_slack = 0;
  policy.slack_share = Bytes{1} << 60U;
  return policy;
}

class MemoryTest : public testing::Test {
 protected:
  /// Whole requests are extents of their own.
  bool back(const Interval& range) { return memory.back(range, kEverywhere, kPage, policy.most_extent); }
  /// A block lives in that range from now on.
  void use(const Interval& range) {
    ASSERT_TRUE(back(range));
    memory.take(range.lower, range.length());
  }
  void give(const Interval& range) {
    order.advance(++now);
    memory.give(range.lower, range.length(), {index, now});
  }
  /// Idle memory that was in use, all at one time.
  void leave(std::initializer_list<Interval> ranges) {
    for (const Interval& range : ranges) use(range);
    for (const Interval& range : ranges) give(range);
  }

  /// Of the region of large requests, whose extents are as large as the requests.
  Interval large_pages(Bytes lower, Bytes upper) {
    const Bytes begin = memory.region(Region::kLarge).lower;
    return {begin + lower * kPage, begin + upper * kPage};
  }

  [[nodiscard]] std::vector<Interval> extents() const {
    std::vector<Interval> all;
    memory.visit_extents(kEverywhere, [&](const Interval& extent) {
      all.push_back(extent);
      return true;
    });
    return all;
  }
  [[nodiscard]] Bytes held() const { return device.held(); }
  [[nodiscard]] std::byte* at(Bytes offset) const {
    return reinterpret_cast<std::byte*>(memory.address_of(offset));  // NOLINT(performance-no-int-to-ptr)
  }

  HostDevice host{kGiB};
  FailingDevice device{host};
  ArenaPolicy policy = without_slack();
  StreamOrder order{device};
  Memory memory{device, order, policy};
  StreamIndex index = order.index_of(0);
  Tick now = 0;
};

TEST_F(MemoryTest, MapsNothingForARequestThatTheDeviceCannotHave) {
  use({0, kPage});
  leave({{4 * kPage, 8 * kPage}});
  const MappingStatistics before = memory.statistics();
  EXPECT_FALSE(memory.back({kGiB, 3 * kGiB}, kEverywhere, kPage, kPage));
  EXPECT_EQ(memory.statistics().maps, before.maps);
  EXPECT_EQ(memory.statistics().unmaps, before.unmaps) << "what is idle would not do, either";
  EXPECT_TRUE(memory.back({kGiB, 2 * kGiB - kPage}, kEverywhere, kPage, kPage)) << "with what is idle";
}

TEST_F(MemoryTest, HoldsNothingAtFirst) {
  EXPECT_EQ(memory.mapped(), 0);
  EXPECT_EQ(memory.in_use(), 0);
  EXPECT_FALSE(memory.contains(0));
  EXPECT_FALSE(memory.contains(~std::uintptr_t{0}));
  EXPECT_THAT(memory.extents(), IsEmpty());
  EXPECT_EQ(held(), 0);
  EXPECT_EQ(device.calls(DeviceCall::kReserve), 0) << "not even addresses";
}

TEST_F(MemoryTest, MapsWholePagesAndAllOfItIsIdle) {
  ASSERT_TRUE(back({kPage / 2, 3 * kPage + 1}));
  EXPECT_EQ(memory.mapped(), 4 * kPage);
  EXPECT_EQ(held(), 4 * kPage);
  EXPECT_TRUE(memory.free_space.is_idle(0, 4 * kPage));
  *at(0) = std::byte{1};
  *at(4 * kPage - 1) = std::byte{2};
  EXPECT_EQ(*at(0), std::byte{1});
}

TEST_F(MemoryTest, MapsNothingForAnEmptyRange) {
  EXPECT_TRUE(back({}));
  EXPECT_TRUE(back(pages(1, 1)));
  EXPECT_EQ(memory.mapped(), 0);
}

TEST_F(MemoryTest, MapsOnlyWhatIsMissing) {
  use(pages(2, 4));
  use(pages(6, 8));
  *at(3 * kPage) = std::byte{9};
  ASSERT_TRUE(back(pages(0, 10)));
  EXPECT_THAT(extents(), ElementsAre(pages(0, 2), pages(2, 4), pages(4, 6), pages(6, 8), pages(8, 10)));
  EXPECT_EQ(memory.in_use(), 4 * kPage);
  EXPECT_EQ(*at(3 * kPage), std::byte{9}) << "stayed where it was";
  ASSERT_TRUE(back(pages(0, 10)));
  EXPECT_EQ(held(), 10 * kPage);
}

// ---- the sizes of extents ----

TEST_F(MemoryTest, MapsWholeBlocksInsideTheirRangeWhileThereIsSlack) {
  policy.least_slack = 64 * kPage;
  ASSERT_TRUE(memory.back({11 * kPage, 11 * kPage + 512}, pages(0, 100), 8 * kPage, 8 * kPage));
  EXPECT_THAT(extents(), ElementsAre(pages(8, 16)));
  ASSERT_TRUE(memory.back(pages(15, 18), pages(0, 100), 8 * kPage, 8 * kPage));
  EXPECT_THAT(extents(), ElementsAre(pages(8, 16), pages(16, 24)));
  ASSERT_TRUE(memory.back(pages(35, 36), {34 * kPage, 37 * kPage - 512}, 8 * kPage, 8 * kPage));
  EXPECT_THAT(extents(), ElementsAre(pages(8, 16), pages(16, 24), pages(34, 37))) << "none beyond";
}

TEST_F(MemoryTest, MapsNoMoreThanIsLackingInPlaceOfBlocksOfAPage) {
  policy.least_slack = 64 * kPage;
  ASSERT_TRUE(memory.back({11 * kPage, 13 * kPage + 512}, kEverywhere, kPage, 2 * kPage));
  EXPECT_THAT(extents(), ElementsAre(pages(11, 13), pages(13, 14)));
  ASSERT_TRUE(memory.back(pages(20, 25), kEverywhere, kPage, 2 * kPage));
  EXPECT_THAT(extents(),
              ElementsAre(pages(11, 13), pages(13, 14), pages(20, 22), pages(22, 24), pages(24, 25)));
}

TEST_F(MemoryTest, APlaceThatHasMemoryPinsWhatItLeavesIdleOfIdleExtents) {
  use(pages(0, 4));
  use(pages(4, 6));
  use(pages(6, 10));
  EXPECT_TRUE(memory.is_vacant(pages(10, 20)));
  EXPECT_FALSE(memory.is_vacant(pages(9, 20)));
  give(pages(0, 4));
  give(pages(6, 10));
  EXPECT_TRUE(memory.is_vacant(pages(6, 20)));
  EXPECT_EQ(memory.pinned_by(pages(0, 4)), 0);
  EXPECT_EQ(memory.pinned_by(pages(1, 3)), 2 * kPage);
  EXPECT_EQ(memory.pinned_by(pages(7, 8)), 3 * kPage);
  give(pages(4, 6));
  EXPECT_EQ(memory.pinned_by(pages(3, 7)), 6 * kPage) << "of both ends";
  memory.take(0, 512);
  EXPECT_EQ(memory.pinned_by(pages(3, 7)), 3 * kPage) << "a block keeps the first from moving anyway";
}

TEST_F(MemoryTest, MapsSmallerBlocksWhereTheBudgetAllowsNoLargerOnes) {
  policy.least_slack = 6 * kPage;
  ASSERT_TRUE(memory.back(pages(17, 18), kEverywhere, 32 * kPage, 32 * kPage));
  EXPECT_THAT(extents(), ElementsAre(pages(16, 20))) << "8 would be one more than 1 in use and 6 of slack";
}

TEST_F(MemoryTest, MapsTheExactPagesBeyondTheBudget) {
  use(pages(0, 1));
  ASSERT_TRUE(memory.back(pages(17, 18), kEverywhere, 32 * kPage, 32 * kPage));
  EXPECT_THAT(extents(), ElementsAre(pages(0, 1), pages(17, 18)));
}

TEST_F(MemoryTest, APageThatALargeRequestDoesNotFillIsAnExtentOfItsOwn) {
  use({0, 3 * kPage + 512});
  EXPECT_THAT(extents(), ElementsAre(pages(0, 3), pages(3, 4)));
  use(pages(10, 13));
  EXPECT_THAT(extents(), ElementsAre(pages(0, 3), pages(3, 4), pages(10, 13))) << "it fills its last page";
  ASSERT_TRUE(back({20 * kPage, 20 * kPage + 512}));
  EXPECT_EQ(extents().back(), pages(20, 21));
  ASSERT_TRUE(back({31 * kPage - 512, 34 * kPage}));
  EXPECT_THAT(extents(), Contains(pages(30, 31))) << "a neighbour may end there, and would pin the rest";
  EXPECT_EQ(extents().back(), pages(31, 34));
}

TEST_F(MemoryTest, RequestsFromBlocksShareTheirLastPage) {
  policy.least_slack = 64 * kPage;
  ASSERT_TRUE(memory.back({0, 3 * kPage + 512}, kEverywhere, 8 * kPage, 8 * kPage));
  EXPECT_THAT(extents(), ElementsAre(pages(0, 8)));
}

TEST_F(MemoryTest, ExtentsAreNoLargerThanThePolicySays) {
  policy.most_extent = 4 * kPage;
  ASSERT_TRUE(back(pages(0, 10)));
  EXPECT_THAT(extents(), ElementsAre(pages(0, 4), pages(4, 8), pages(8, 10)));
  policy.least_slack = 64 * kPage;
  ASSERT_TRUE(memory.back(pages(32, 52), kEverywhere, 8 * kPage, 8 * kPage));
  const std::vector<Interval> all = extents();
  EXPECT_THAT(std::vector<Interval>(all.begin() + 3, all.end()),
              ElementsAre(pages(32, 40), pages(40, 48), pages(48, 52), pages(52, 56)))
      << "those for blocks no larger than a block, and none across the end of a large request";
}

// ---- the budget ----

TEST_F(MemoryTest, MovesToWhereItIsNeeded) {
  leave({pages(0, 10)});
  use(pages(20, 30));
  EXPECT_THAT(extents(), ElementsAre(pages(20, 30)));
  EXPECT_EQ(held(), 10 * kPage);
}

TEST_F(MemoryTest, MovesNoMoreThanIsNeeded) {
  for (Bytes page = 0; page < 10; ++page) use(pages(page, page + 1));
  for (Bytes page = 0; page < 10; ++page) give(pages(page, page + 1));
  use(pages(20, 23));
  EXPECT_EQ(held(), 10 * kPage);
  EXPECT_EQ(memory.missing(pages(0, 10)), 3 * kPage);
}

TEST_F(MemoryTest, ReclaimsTheSlackAtOneTime) {
  for (Bytes page = 0; page < 10; ++page) use(pages(page, page + 1));
  for (Bytes page = 0; page < 10; ++page) give(pages(page, page + 1));
  policy.slack_share = 2;
  ASSERT_TRUE(back(pages(20, 26)));
  EXPECT_EQ(held(), 11 * kPage) << "one page too many, but a look at all extents costs more than five";
}

TEST_F(MemoryTest, GrowsByWhatCannotBeReclaimed) {
  use(pages(0, 4));
  leave({pages(4, 8), pages(8, 12)});
  use(pages(8, 9));  // pins three pages beside it
  use(pages(20, 30));
  EXPECT_EQ(memory.in_use(), 15 * kPage);
  EXPECT_EQ(held(), 18 * kPage);
  EXPECT_EQ(memory.missing(pages(4, 8)), 4 * kPage);
}

TEST_F(MemoryTest, GrowsByTheSlackBeforeItReclaims) {
  policy.least_slack = 4 * kPage;
  leave({pages(0, 10)});
  ASSERT_TRUE(back(pages(20, 24)));
  EXPECT_EQ(held(), 14 * kPage);
  EXPECT_EQ(device.calls(DeviceCall::kUnmap), 0);
  ASSERT_TRUE(back(pages(30, 31)));
  EXPECT_LE(held(), 14 * kPage);
  EXPECT_GT(device.calls(DeviceCall::kUnmap), 0);
}

TEST_F(MemoryTest, TheSlackIsAShareOfTheMostInUse) {
  policy.slack_share = 5;
  leave({pages(0, 10)});
  EXPECT_EQ(memory.budget(), 12 * kPage);
}

TEST_F(MemoryTest, MakesNoRoomThatTheBudgetHasAlready) {
  policy.slack_share = 5;
  leave({pages(0, 10)});
  EXPECT_TRUE(memory.make_room(pages(20, 22)));
  EXPECT_EQ(held(), 10 * kPage);
}

TEST_F(MemoryTest, MovesNothingWhileMoreMayBeHeld) {
  memory.hold(12 * kPage);
  leave({pages(0, 4), pages(4, 8)});
  use(pages(20, 24));
  EXPECT_THAT(extents(), ElementsAre(pages(0, 4), pages(4, 8), pages(20, 24)));
  EXPECT_FALSE(memory.may_hold(1));
  use(pages(30, 31));
  EXPECT_LE(held(), 12 * kPage) << "beyond, memory moves";
  memory.hold(0);
  use(pages(40, 41));
  EXPECT_LE(held(), 9 * kPage) << "the most ever in use, and the page";
}

TEST_F(MemoryTest, HasNoRoomWhereTooLittleIsIdle) {
  policy.least_slack = kPage;
  leave({pages(0, 10)});
  memory.take(0, 10 * kPage);
  EXPECT_TRUE(memory.make_room(pages(20, 21))) << "more is in use then than ever before";
  memory.give(0, 4 * kPage, {0, 1});
  EXPECT_FALSE(memory.make_room(pages(20, 23))) << "four pages are idle, but pinned";
  EXPECT_EQ(held(), 10 * kPage);
}

TEST_F(MemoryTest, MakesRoomInWholeExtents) {
  leave({pages(0, 4)});
  ASSERT_TRUE(back(pages(10, 13)));
  EXPECT_THAT(extents(), ElementsAre(pages(10, 13)));
}

TEST_F(MemoryTest, TakesNothingFromTheRangeThatItMakesRoomFor) {
  leave({pages(0, 4), pages(4, 8)});
  ASSERT_TRUE(back(pages(2, 6)));
  EXPECT_EQ(device.calls(DeviceCall::kUnmap), 0);
  leave({pages(0, 8)});
  ASSERT_TRUE(back(pages(2, 10)));
  EXPECT_EQ(memory.missing(pages(2, 10)), 0);
}

// ---- reclaiming ----

TEST_F(MemoryTest, ReclaimsIdleExtentsAndKeepsTheOthers) {
  leave({pages(0, 4), pages(4, 8), pages(8, 12)});
  memory.take(5 * kPage + 512, 512);
  EXPECT_EQ(memory.reclaim_all({8 * kPage, 8 * kPage + 1}), 4 * kPage);
  EXPECT_THAT(extents(), ElementsAre(pages(4, 8), pages(8, 12)));
  EXPECT_EQ(held(), 8 * kPage);
  EXPECT_EQ(memory.in_use(), 512);
  EXPECT_FALSE(memory.free_space.is_idle(0, 512));
  give({5 * kPage + 512, 5 * kPage + 1024});
  EXPECT_EQ(memory.reclaim_all(), 8 * kPage);
  EXPECT_EQ(held(), 0);
  EXPECT_EQ(memory.free_space.idle(), 0);
}

TEST_F(MemoryTest, ReclaimsTheLargestExtentsOfLargeRequestsFirstAndNoMoreThanIsEnough) {
  leave({pages(0, 4), large_pages(0, 1), large_pages(1, 4), large_pages(4, 6)});
  order.settle(++now);
  EXPECT_EQ(memory.reclaim(0), 0);
  EXPECT_EQ(memory.reclaim(kPage), 3 * kPage);
  EXPECT_THAT(extents(), ElementsAre(pages(0, 4), large_pages(0, 1), large_pages(4, 6)));
  EXPECT_EQ(memory.reclaim(2 * kPage + 1), 3 * kPage);
  EXPECT_EQ(memory.reclaim(1), 4 * kPage);
}

TEST_F(MemoryTest, ReclaimsTheHighestExtentsFirstWhereRequestsShareThem) {
  leave({pages(0, 4), pages(4, 5), pages(5, 7)});
  EXPECT_EQ(memory.reclaim(1), 2 * kPage);
  EXPECT_EQ(memory.reclaim(1), kPage);
  EXPECT_THAT(extents(), ElementsAre(pages(0, 4)));
}

TEST_F(MemoryTest, SparesARangeUntilNothingElseIsIdle) {
  leave({pages(0, 8), pages(8, 10), pages(10, 12)});
  memory.spare(pages(0, 1));
  EXPECT_EQ(memory.reclaim(4 * kPage), 4 * kPage);
  EXPECT_THAT(extents(), ElementsAre(pages(0, 8)));
  EXPECT_EQ(memory.reclaim(1), 8 * kPage);
}

TEST_F(MemoryTest, ReclaimsTheHighestOfASparedRangeFirst) {
  leave({pages(0, 1), pages(1, 2), pages(2, 3), pages(3, 4)});
  memory.spare(pages(0, 4));
  EXPECT_EQ(memory.reclaim(2 * kPage), 2 * kPage);
  EXPECT_THAT(extents(), ElementsAre(pages(0, 1), pages(1, 2)));
}

TEST_F(MemoryTest, MovesNothingOfARangeThatIsAllUsedAsFarAsTwiceTheSlackReaches) {
  policy.least_slack = 4 * kPage;
  for (Bytes page = 0; page < 10; ++page) use(pages(page, page + 1));
  for (Bytes page = 0; page < 10; ++page) give(pages(page, page + 1));
  ASSERT_EQ(memory.budget(), 14 * kPage);
  memory.spare(pages(0, 40), true);
  EXPECT_EQ(memory.budget(), 18 * kPage);
  memory.spare(pages(0, 16), true);
  EXPECT_EQ(memory.budget(), 16 * kPage);
  use(pages(6, 16));
  EXPECT_EQ(held(), 16 * kPage) << "nor is anything moved to where the range lacks it";
  give(pages(6, 16));
  memory.spare(pages(0, 16));
  EXPECT_EQ(memory.budget(), 14 * kPage);
}

TEST_F(MemoryTest, MovesNothingOfARangeThatIsAllUsedAsFarAsWasHeldBefore) {
  policy.least_slack = 4 * kPage;
  const auto take_in_turn = [&](Bytes page) {
    use(pages(page, page + 1));
    give(pages(page, page + 1));
  };
  memory.hold(20 * kPage);
  for (Bytes page = 0; page < 20; ++page) take_in_turn(page);
  memory.hold(0);
  memory.reclaim_all();
  for (const bool all : {false, true}) {
    memory.spare(pages(0, 30), all);
    for (Bytes page = 0; page < 30; ++page) take_in_turn(page);
    EXPECT_EQ(memory.budget(), all ? 9 * kPage : 5 * kPage);
    EXPECT_LE(held(), all ? 20 * kPage : 5 * kPage);
    EXPECT_GT(held(), all ? 9 * kPage : 0);
  }
}

TEST_F(MemoryTest, KeepsWhatWorkMayStillUse) {
  leave({pages(0, 1), pages(1, 2), pages(2, 3), pages(3, 4)});
  ASSERT_EQ(held(), 4 * kPage);
  device.fail_every(DeviceCall::kRecord);
  EXPECT_EQ(memory.reclaim_all(), 0) << "there is nothing to wait for";
  device.heal();
  device.fail_every(DeviceCall::kAwait);
  EXPECT_EQ(memory.reclaim_all(), 0);
  EXPECT_EQ(held(), 4 * kPage);
  device.heal();
  EXPECT_EQ(memory.reclaim_all(), 4 * kPage);
}

TEST_F(MemoryTest, WaitsOnceForWhatOneEventIsBehind) {
  leave({pages(0, 1), pages(1, 2), pages(2, 3), pages(3, 4)});
  EXPECT_EQ(memory.reclaim_all(), 4 * kPage);
  EXPECT_EQ(device.calls(DeviceCall::kAwait), 1);
  EXPECT_EQ(memory.statistics().idle_waits, 1);
}

TEST_F(MemoryTest, NeedsNoWaitForMemoryThatNobodyUsed) {
  ASSERT_TRUE(back(pages(0, 4)));
  device.fail_every(DeviceCall::kAwait);
  EXPECT_EQ(memory.reclaim_all(), 4 * kPage);
  EXPECT_EQ(device.calls(DeviceCall::kAwait), 0);
}

TEST(Memory, TakesWhatNoWorkUsesAnyMoreBeforeItWaits) {
  ClockedDevice clocked;
  FailingDevice device(clocked);
  StreamOrder order(device, 1);
  const ArenaPolicy policy = without_slack();
  Memory memory(device, order, policy);
  Tick now = 0;
  const std::vector<std::pair<Interval, Stream>> blocks = {{pages(0, 8), 1}, {pages(8, 10), 2}};
  for (const auto& [range, stream] : blocks) {
    ASSERT_TRUE(memory.back(range, kEverywhere, kPage, kMostExtent));
    memory.take(range.lower, range.length());
  }
  for (const auto& [range, stream] : blocks) {
    const StreamIndex index = order.index_of(stream);
    clocked.work(stream);
    order.advance(++now);
    memory.give(range.lower, range.length(), {index, now});
    order.note_free(index, range.length(), now);
  }
  clocked.finish(2);
  EXPECT_EQ(memory.reclaim(1), 2 * kPage) << "the smaller one";
  EXPECT_EQ(device.calls(DeviceCall::kAwait), 0);
  EXPECT_EQ(memory.missing(pages(0, 8)), 0);
  EXPECT_EQ(memory.reclaim(1), 8 * kPage);
  EXPECT_EQ(device.calls(DeviceCall::kAwait), 1);
  EXPECT_EQ(memory.statistics().idle_waits, 1);
}

TEST(Memory, WaitsForTheLastWorkOnAPageThoughOlderMemoryCameBackLater) {
  ClockedDevice device;
  StreamOrder order(device, 1);
  const ArenaPolicy policy = without_slack();
  Memory memory(device, order, policy);
  const Bytes begin = memory.region(Region::kLarge).lower;
  const Interval page = {begin, begin + kPage};
  ASSERT_TRUE(memory.back(page, kEverywhere, kPage, kMostExtent));
  const StreamIndex index = order.index_of(1);
  memory.take(begin, kPage / 2);
  memory.take(begin + kPage / 2, kPage / 2);
  // The first half is freed, but another stream is not done with it.
  device.work(1);
  order.advance(1);
  order.note_free(index, kPage / 2, 1);
  device.finish(1);
  const Work last = device.work(1);
  order.advance(2);
  memory.give(begin + kPage / 2, kPage / 2, {index, 2});
  order.note_free(index, kPage / 2, 2);
  memory.give(begin, kPage / 2, {index, 1});
  EXPECT_EQ(memory.reclaim_all(), kPage);
  EXPECT_TRUE(device.is_behind(2, last)) << "taken away from work that was not over";
}

TEST(Memory, NeedsNoAnswerOfTheDeviceForARegionOnceAddressesWereRefused) {
  ClockedDevice clocked;
  FailingDevice device(clocked);
  StreamOrder order(device);
  const ArenaPolicy policy = without_slack();
  Memory memory(device, order, policy);
  device.fail_every(DeviceCall::kReserve);
  EXPECT_EQ(memory.addresses(), 0);
  const std::int64_t calls = device.calls(DeviceCall::kReserve);
  EXPECT_TRUE(memory.region(Region::kLarge).empty());
  EXPECT_EQ(device.calls(DeviceCall::kReserve), calls);
  device.heal();
  EXPECT_GT(memory.addresses(), 0);
  EXPECT_FALSE(memory.region(Region::kLarge).empty());
}

TEST(Memory, WaitsForTheWorkThatEndsFirstAndForNoOther) {
  ClockedDevice clocked;
  StreamOrder order(clocked, 1);
  const ArenaPolicy policy = without_slack();
  Memory memory(clocked, order, policy);
  Tick now = 0;
  std::vector<Work> works;
  const StreamIndex stream = order.index_of(1);
  const Bytes at = memory.region(Region::kLarge).lower;
  const std::vector<Interval> blocks = {{at, at + 2 * kPage}, {at + 2 * kPage, at + 10 * kPage}};
  for (const Interval& range : blocks) {
    ASSERT_TRUE(memory.back(range, kEverywhere, kPage, kMostExtent));
    memory.take(range.lower, range.length());
  }
  for (const Interval& range : blocks) {
    works.push_back(clocked.work(1));
    order.advance(++now);
    memory.give(range.lower, range.length(), {stream, now});
    order.note_free(stream, range.length(), now);
  }
  EXPECT_EQ(memory.reclaim(1), 2 * kPage) << "freed first, though the smaller one";
  EXPECT_TRUE(clocked.is_behind(99, works.front()));
  EXPECT_FALSE(clocked.is_behind(99, works.back())) << "the device has not come to rest";
}

TEST_F(MemoryTest, KeepsWhatTheDeviceDoesNotTakeBack) {
  leave({pages(0, 4), pages(4, 8)});
  device.fail_nth(DeviceCall::kUnmap, 1);
  EXPECT_EQ(memory.reclaim_all(), 4 * kPage);
  EXPECT_EQ(memory.mapped(), 4 * kPage);
  EXPECT_EQ(memory.free_space.idle(), 4 * kPage);
  EXPECT_EQ(held(), 4 * kPage);
  EXPECT_EQ(extents().size(), 1U);
}

// ---- a device that refuses ----

TEST_F(MemoryTest, TakesAllThatIsIdleBeforeItGivesUp) {
  policy.least_slack = kGiB;
  device.limit(10 * kPage);
  use(pages(0, 4));
  leave({pages(4, 8)});
  ASSERT_TRUE(back(pages(20, 26)));
  EXPECT_THAT(extents(), ElementsAre(pages(0, 4), pages(20, 26)));
}

TEST_F(MemoryTest, HoldsNoMoreThanTheDeviceTurnsOutToHave) {
  memory.hold(kGiB);
  device.limit(10 * kPage);
  leave({pages(0, 4), pages(4, 8)});
  EXPECT_TRUE(memory.may_hold(4 * kPage));
  use(pages(20, 24));
  EXPECT_EQ(memory.budget(), 8 * kPage);
}

TEST_F(MemoryTest, OnlyLeavesIdleMemoryWhenTheDeviceHasNotEnough) {
  policy.most_extent = 4 * kPage;
  device.limit(14 * kPage);
  use(pages(4, 8));
  EXPECT_FALSE(back(pages(0, 20)));
  EXPECT_EQ(memory.in_use(), 4 * kPage);
  EXPECT_EQ(memory.missing(pages(4, 8)), 0);
  EXPECT_EQ(memory.mapped(), held());
  EXPECT_TRUE(back(pages(4, 18))) << "all there is";
  EXPECT_EQ(held(), 14 * kPage);
}

TEST_F(MemoryTest, DoesWithoutTheBlocksThatTheDeviceHasNoMemoryFor) {
  policy.least_slack = kGiB;
  device.limit(3 * kPage);
  EXPECT_TRUE(memory.back(pages(3, 5), kEverywhere, 8 * kPage, 8 * kPage));
  EXPECT_THAT(extents(), ElementsAre(pages(3, 5)));
}

TEST_F(MemoryTest, TriesAgainWhicheverCallFails) {
  policy.most_extent = 4 * kPage;
  for (int call = 1; call <= 4; ++call) {
    device.fail_nth(DeviceCall::kMap, call);
    EXPECT_TRUE(back(pages(0, 16)));
    EXPECT_EQ(memory.free_space.idle(), 16 * kPage);
    EXPECT_EQ(held(), 16 * kPage);
    EXPECT_EQ(memory.reclaim_all(), 16 * kPage);
  }
  device.fail_every(DeviceCall::kMap);
  EXPECT_FALSE(back(pages(0, 16)));
  EXPECT_EQ(memory.mapped(), 0);
  EXPECT_EQ(held(), 0);
}

TEST_F(MemoryTest, DoesWithoutAddressesUntilThereAreSome) {
  device.fail_nth(DeviceCall::kReserve, 1);
  EXPECT_FALSE(back(pages(0, 1)));
  EXPECT_EQ(memory.mapped(), 0);
  device.fail_nth(DeviceCall::kReserve, 1);
  EXPECT_EQ(memory.addresses(), 0);
  EXPECT_TRUE(memory.region(Region::kLarge).empty());
  EXPECT_TRUE(back(pages(0, 1)));
  EXPECT_EQ(memory.addresses(), 4 * kGiB);
}

TEST_F(MemoryTest, TakesFewerAddressesWhereAProcessMayNotHaveAsMany) {
  policy.addresses = 64;
  device.fail_nth(DeviceCall::kReserve, 1);
  EXPECT_EQ(memory.addresses(), 32 * kGiB);
}

TEST_F(MemoryTest, AsksForNoFewerAddressesThanFourTimesItsMemory) {
  policy.addresses = 64;
  device.fail_every(DeviceCall::kReserve);
  EXPECT_EQ(memory.addresses(), 0);
  EXPECT_EQ(device.calls(DeviceCall::kReserve), 5);
}

// ---- addresses ----

TEST_F(MemoryTest, RefusesRangesBeyondItsAddresses) {
  EXPECT_FALSE(back({100 * kGiB, 100 * kGiB + kPage}));
  EXPECT_FALSE(back({4 * kGiB - kPage, 4 * kGiB + 512}));
  EXPECT_EQ(memory.mapped(), 0);
  EXPECT_TRUE(back({4 * kGiB - kPage, 4 * kGiB})) << "far more addresses than memory";
}

TEST_F(MemoryTest, KnowsItsAddresses) {
  ASSERT_EQ(memory.addresses(), 4 * kGiB);
  EXPECT_TRUE(memory.contains(memory.address_of(0)));
  EXPECT_TRUE(memory.contains(memory.address_of(4 * kGiB - 1)));
  EXPECT_FALSE(memory.contains(memory.address_of(4 * kGiB)));
  EXPECT_FALSE(memory.contains(memory.address_of(0) - 1));
  EXPECT_EQ(memory.offset_of(memory.address_of(12345)), 12345);
  use(pages(1, 3));
  EXPECT_THAT(memory.extents(), ElementsAre(std::pair(memory.address_of(kPage), 2 * kPage)));
}

TEST(Memory, RegionsCoverTheAddressesSideBySide) {
  for (const Bytes total : {kGiB, 37 * kPage, 17 * kGiB + 12345}) {
    HostDevice device(total);
    StreamOrder order(device);
    const ArenaPolicy policy;
    Memory memory(device, order, policy);
    ASSERT_GE(memory.addresses(), 4 * total);
    std::vector<Interval> regions;
    for (const Region which : {Region::kPlanned, Region::kLarge, Region::kMedium, Region::kSmall})
      regions.push_back(memory.region(which));
    Bytes end = 0;
    for (const Interval& region : regions) {
      EXPECT_EQ(region.lower, end);
      EXPECT_FALSE(region.empty());
      EXPECT_EQ(region.upper % kPage, 0);
      end = region.upper;
    }
    EXPECT_EQ(end, memory.addresses());
  }
}

TEST_F(MemoryTest, KnowsHowMuchOfARangeHasNoMemory) {
  EXPECT_EQ(memory.missing(pages(0, 5)), 5 * kPage);
  use(pages(1, 3));
  use(pages(6, 8));
  EXPECT_EQ(memory.missing(pages(0, 9)), 5 * kPage);
  EXPECT_EQ(memory.missing(pages(2, 7)), 3 * kPage);
  EXPECT_EQ(memory.missing({kPage + 512, 3 * kPage}), 0);
  EXPECT_EQ(memory.missing({}), 0);
}

TEST_F(MemoryTest, VisitsExtentsThatOverlapInOrderUntilItIsTold) {
  for (const Bytes page : {6, 0, 3}) use(pages(page, page + 2));
  std::vector<Interval> seen;
  const auto look = [&](const Interval& range, std::size_t most) {
    seen.clear();
    memory.visit_extents(range, [&](const Interval& extent) {
      seen.push_back(extent);
      return seen.size() < most;
    });
    return seen;
  };
  EXPECT_THAT(look(pages(0, 8), 9), ElementsAre(pages(0, 2), pages(3, 5), pages(6, 8)));
  EXPECT_THAT(look(pages(0, 8), 2), ElementsAre(pages(0, 2), pages(3, 5)));
  EXPECT_THAT(look({2 * kPage - 1, 3 * kPage + 1}, 9), ElementsAre(pages(0, 2), pages(3, 5)));
  EXPECT_THAT(look(pages(2, 3), 9), IsEmpty());
}

TEST_F(MemoryTest, TellsOfAddressesInNoBlockWithMemoryOrWithout) {
  for (const Region which : {Region::kLarge, Region::kMedium}) {
    const Interval all = memory.region(which);
    const auto at = [&](Bytes lower, Bytes upper) {
      return Interval{all.lower + lower * kPage, all.lower + upper * kPage};
    };
    const auto vacant = [&](Bytes pages) {
      std::vector<Interval> seen;
      memory.each_vacant(pages * kPage, which, [&](const Interval& stretch) { seen.push_back(stretch); });
      return seen;
    };
    EXPECT_THAT(vacant(1), ElementsAre(all));
    for (const Interval& block : {at(0, 2), at(2, 4), at(5, 6), at(8, 9)}) use(block);
    memory.give(at(2, 4).lower, 2 * kPage, {});
    EXPECT_THAT(vacant(1), ElementsAre(at(2, 5), at(6, 8), Interval{at(9, 9).lower, all.upper}));
    EXPECT_THAT(vacant(3), ElementsAre(at(2, 5), Interval{at(9, 9).lower, all.upper}));
    memory.give(at(5, 6).lower, kPage, {});
    memory.reclaim_all();
    EXPECT_THAT(vacant(1), ElementsAre(at(2, 8), Interval{at(9, 9).lower, all.upper}));
  }
}

TEST_F(MemoryTest, KnowsWhatABlockStrands) {
  const auto at = [&](Bytes page) { return large_pages(page, page + 1).lower; };
  leave({large_pages(0, 4), large_pages(4, 6), large_pages(6, 10)});
  EXPECT_EQ(ends_of(memory, large_pages(0, 4)).stranded, 0);
  EXPECT_EQ(ends_of(memory, large_pages(0, 1)).stranded, 3 * kPage);
  EXPECT_EQ(ends_of(memory, large_pages(1, 2)).stranded, 3 * kPage);
  EXPECT_EQ(ends_of(memory, large_pages(3, 7)).stranded, 6 * kPage)
      << "three at each end, none in the middle";
  EXPECT_EQ(ends_of(memory, large_pages(4, 6)).stranded, 0);
  EXPECT_EQ(ends_of(memory, {at(4), at(6) - 512}).stranded, 512);
  EXPECT_EQ(ends_of(memory, large_pages(8, 20)).stranded, 2 * kPage) << "its end is where no memory is";
  EXPECT_EQ(ends_of(memory, large_pages(20, 21)).stranded, 0);
  memory.take(at(0), 512);
  policy.block = 3 * kPage;
  EXPECT_EQ(ends_of(memory, large_pages(1, 2)).stranded, 3 * kPage - 512) << "the other block's is not";
  policy.block = 2 * kPage;
  EXPECT_EQ(ends_of(memory, large_pages(1, 2)).stranded, 3 * kPage) << "the other block may be gone first";
}

TEST_F(MemoryTest, SaysWhatIsLackingOfThePagesAtTheEndsOfAPlace) {
  leave({pages(0, 4)});
  EXPECT_EQ(ends_of(memory, {512, 4 * kPage - 512}).lacking, 0);
  EXPECT_EQ(ends_of(memory, {3 * kPage + 512, 6 * kPage - 512}).lacking, 512) << "it begins where memory is";
  EXPECT_EQ(ends_of(memory, {5 * kPage + 512, 6 * kPage - 1024}).lacking, 1536);
  EXPECT_EQ(ends_of(memory, {5 * kPage + 512, 5 * kPage + 1024}).lacking, kPage - 512) << "a page of its own";
  EXPECT_EQ(ends_of(memory, {512, 4 * kPage - 512}).unfilled, 0);
  EXPECT_EQ(ends_of(memory, {3 * kPage + 512, 6 * kPage - 512}).unfilled, 1);
  EXPECT_EQ(ends_of(memory, {5 * kPage, 7 * kPage}).unfilled, 0) << "it fills both";
  EXPECT_EQ(ends_of(memory, {5 * kPage + 512, 7 * kPage - 512}).unfilled, 2);
}

TEST_F(MemoryTest, TakesARangeOnlyIfItIsIdleAndAllowed) {
  leave({pages(0, 4)});
  const auto nothing = [](const LastUse&) { return false; };
  EXPECT_FALSE(memory.take_if(0, kPage, nothing));
  EXPECT_EQ(memory.in_use(), 0);
  EXPECT_TRUE(memory.take_if(0, kPage, AnyStream{}));
  EXPECT_FALSE(memory.take_if(0, 2 * kPage, AnyStream{})) << "the first page is not idle";
  EXPECT_FALSE(memory.take_if(3 * kPage, 2 * kPage, AnyStream{})) << "no memory is behind the second";
  EXPECT_EQ(memory.in_use(), kPage);
}

TEST_F(MemoryTest, CountsWhatTheDeviceDid) {
  use(pages(8, 12));
  leave({pages(0, 4), pages(4, 8)});
  memory.reclaim_all();
  EXPECT_EQ(memory.statistics().maps, 3);
  EXPECT_EQ(memory.statistics().unmaps, 2);
  EXPECT_EQ(memory.statistics().idle_waits, 1);
  EXPECT_GT(memory.statistics().nanoseconds, 0);
}

TEST(Memory, GivesAllBackAtItsEnd) {
  HostDevice host(kGiB);
  FailingDevice device(host);
  StreamOrder order(device);
  const ArenaPolicy policy;
  {
    Memory memory(device, order, policy);
    ASSERT_TRUE(memory.back(pages(0, 5), kEverywhere, kPage, kMostExtent));
    ASSERT_TRUE(memory.back({kGiB, kGiB + kPage}, kEverywhere, kPage, kMostExtent));
    memory.take(0, kPage);
  }
  EXPECT_EQ(device.held(), 0);
  EXPECT_EQ(device.calls(DeviceCall::kRelease), 1);
}

}  // namespace
}  // namespace stweaver
