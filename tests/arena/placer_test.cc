#include "arena/placer.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "device/device.h"
#include "support/ends.h"
#include "support/page.h"

namespace stweaver {
namespace {

/// So that a test can run out of them.
ArenaPolicy with_few_addresses() {
  ArenaPolicy policy;
  policy.addresses = 4;
  return policy;
}

class PlacerTest : public testing::Test {
 protected:
  std::optional<Bytes> extend(Bytes size, StreamIndex who) {
    const std::optional<Interval> window = placer.find_window(size, who);
    return window && placer.extend(*window) ? std::optional(window->lower) : std::nullopt;
  }
  /// As an allocator uses it: idle memory first, then more.
  std::optional<Bytes> take(Bytes size, StreamIndex who) {
    std::optional<Bytes> place = placer.find(size, who);
    if (!place) place = extend(size, who);
    if (place) memory.take(*place, size);
    return place;
  }
  Bytes take(Bytes size) { return take(size, stream).value_or(-1); }
  void give(Bytes offset, Bytes size) { memory.give(offset, size, {stream, ++now}); }
  /// Makes gaps of these sizes, which blocks of `between` bytes keep apart; returns where they are.
  std::vector<Bytes> make_gaps(const std::vector<Bytes>& sizes, Bytes between) {
    std::vector<Bytes> gaps;
    for (const Bytes size : sizes) {
      gaps.push_back(take(size));
      take(between);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) give(gaps[i], sizes[i]);
    return gaps;
  }
  /// Far above all else in the region of large requests.
  Bytes idle_extent_of(Bytes size) {
    const Bytes at = memory.region(Region::kLarge).lower + 4 * kGiB;
    EXPECT_TRUE(memory.back({at, at + size}, {}, kPage, size));
    return at;
  }
  [[nodiscard]] bool is_in(Region region, Bytes offset) { return memory.region(region).contains(offset); }

  HostDevice host{16 * kGiB};
  FailingDevice device{host};
  ArenaPolicy policy = with_few_addresses();
  StreamOrder order{device};
  Memory memory{device, order, policy};
  Placer placer{memory, order, policy};
  StreamIndex stream = order.index_of(0);
  StreamIndex other = order.index_of(7);
  Tick now = 0;
};

TEST_F(PlacerTest, EachClassOfSizesHasARegionOfItsOwn) {
  for (const Bytes size : {Bytes{512}, policy.small}) EXPECT_TRUE(is_in(Region::kSmall, take(size)));
  for (const Bytes size : {policy.small + 512, policy.large - 512})
    EXPECT_TRUE(is_in(Region::kMedium, take(size)));
  for (const Bytes size : {policy.large, 5 * policy.large + 512})
    EXPECT_TRUE(is_in(Region::kLarge, take(size)));
}

TEST_F(PlacerTest, SmallRequestsTakeTheLowestGapThatIsLargeEnough) {
  constexpr Bytes kUnit = 512;
  const std::vector<Bytes> gaps = make_gaps({2 * kUnit, 8 * kUnit, 5 * kUnit}, 4 * kUnit);
  EXPECT_EQ(take(5 * kUnit), gaps[1]);
  EXPECT_EQ(take(5 * kUnit), gaps[2]) << "what is left of the one before is too small";
}

TEST_F(PlacerTest, MediumRequestsTakeTheSmallestGapThatIsLargeEnough) {
  // Four blocks of 8 MiB with the blocks between, so that no gap is left behind them.
  const std::vector<Bytes> gaps = make_gaps({10 * kMiB, 3 * kMiB, 7 * kMiB}, 4 * kMiB);
  EXPECT_EQ(take(6 * kMiB), gaps[2]);
  EXPECT_EQ(take(6 * kMiB), gaps[0]) << "what is left of the one before is too small";
}

TEST_F(PlacerTest, LargeRequestsTakeTheGapInWhichTheyStrandLeast) {
  const std::vector<Bytes> gaps = make_gaps({100 * kMiB, 52 * kMiB, 50 * kMiB}, 40 * kMiB);
  EXPECT_EQ(take(50 * kMiB), gaps[2]);
  EXPECT_EQ(take(50 * kMiB), gaps[1]) << "strands a page";
  EXPECT_EQ(placer.find(50 * kMiB, stream), std::nullopt) << "would strand more than that";
  const Bytes mapped = memory.mapped();
  const Bytes elsewhere = take(50 * kMiB);
  EXPECT_GE(elsewhere, gaps[2]) << "so that the idle extent stays whole";
  EXPECT_LE(memory.mapped(), mapped + policy.least_slack + 50 * kMiB);
}

TEST_F(PlacerTest, LargeRequestsTakeTheEndOfAGapWhereThatStrandsLess) {
  const Bytes first = take(40 * kMiB);
  const Bytes second = take(60 * kMiB);
  give(first, 40 * kMiB);
  give(second, 60 * kMiB);
  ASSERT_EQ(memory.free_space.gaps(), 1U);
  EXPECT_EQ(take(60 * kMiB), second);
  EXPECT_EQ(take(40 * kMiB), first);
}

TEST_F(PlacerTest, LargeRequestsShareNoLargeExtent) {
  const Bytes block = take(100 * kMiB);
  give(block, 100 * kMiB);
  memory.take(block, 512);
  EXPECT_EQ(placer.find(40 * kMiB, stream), std::nullopt) << "it would pin the rest once the other is gone";
}

TEST_F(PlacerTest, LargeRequestsTakeTheSmallestGapWhileMemoryNeedNotMove) {
  const std::vector<Bytes> gaps = make_gaps({64 * kMiB, 48 * kMiB}, policy.large);
  EXPECT_EQ(placer.find(policy.large, stream), std::nullopt) << "each gap would strand tens of MiB";
  memory.hold(memory.mapped() + policy.large);
  EXPECT_EQ(placer.find(policy.large, stream), gaps[1]);
  EXPECT_EQ(placer.find(policy.large + kPage, stream), std::nullopt) << "more than may be held is short";
}

TEST_F(PlacerTest, APlaceMayBeTakenThatKeepsNoMoreFromMovingThanCallsAreWorth) {
  const Bytes extent = idle_extent_of(policy.block);
  EXPECT_TRUE(placer.may_take({extent, extent + policy.block})) << "all of it";
  EXPECT_TRUE(placer.may_take({extent, extent + policy.block - policy.pinned_per_call}));
  EXPECT_FALSE(placer.may_take({extent, extent + policy.small})) << "the rest could not move";
  memory.take(extent, 512);
  EXPECT_TRUE(placer.may_take({extent + 512, extent + policy.small})) << "nor can it now";
  memory.give(extent, 512, {stream, ++now});
  memory.hold(memory.mapped() + policy.small);
  EXPECT_TRUE(placer.may_take({extent, extent + policy.small})) << "nothing has to move";
}

TEST_F(PlacerTest, LargeRequestsFillWhatIsLeftOfPinnedExtents) {
  policy.block = 64 * kMiB;
  const Bytes block = take(100 * kMiB);
  give(block, 100 * kMiB);
  memory.take(block, 60 * kMiB);
  EXPECT_EQ(placer.find(40 * kMiB, stream), block + 60 * kMiB);
  EXPECT_EQ(placer.find(40 * kMiB - 3 * policy.pinned_per_call, stream), block + 60 * kMiB);
  EXPECT_EQ(placer.find(38 * kMiB, stream), std::nullopt) << "driver calls cost less than what lies idle";
}

TEST_F(PlacerTest, LargeRequestsMapNoMoreThanTheyNeed) {
  const Bytes first = take(33 * kMiB);
  EXPECT_EQ(memory.mapped(), 34 * kMiB);
  EXPECT_EQ(take(33 * kMiB), first + 33 * kMiB) << "the rest of the page and more behind it";
  EXPECT_EQ(memory.mapped(), 66 * kMiB);
}

TEST_F(PlacerTest, SmallerRequestsMapWholeBlocks) {
  for (int i = 0; i < 7; ++i) take(kMiB);
  EXPECT_EQ(memory.mapped(), policy.block);
  EXPECT_EQ(device.calls(DeviceCall::kMap), 1);
}

TEST_F(PlacerTest, TakesNothingThatNeedsAWaitForAnotherStream) {
  policy.block = kPage;  // so that nothing new is idle
  for (const Bytes size : {8 * kMiB, 64 * kMiB}) {
    const Bytes block = take(size);
    give(block, size);
    EXPECT_EQ(placer.find(size, other), std::nullopt);
    EXPECT_NE(placer.find_window(size, other)->lower, block);
    EXPECT_EQ(placer.find(size, stream), block);
    ASSERT_TRUE(order.order(other, {stream, now}, now));
    EXPECT_EQ(placer.find(size, other), block);
  }
}

TEST_F(PlacerTest, FindsNothingWhereTheDeviceHasNoMemory) {
  device.fail_every(DeviceCall::kMap);
  for (const Bytes size : {kMiB, 8 * kMiB, 64 * kMiB}) EXPECT_EQ(extend(size, stream), std::nullopt);
  EXPECT_EQ(memory.mapped(), 0);
}

TEST_F(PlacerTest, FindsNothingWithoutAddresses) {
  device.fail_every(DeviceCall::kReserve);
  EXPECT_EQ(placer.find(512, stream), std::nullopt);
  EXPECT_EQ(extend(512, stream), std::nullopt);
  EXPECT_EQ(placer.find_window(64 * kMiB, stream), std::nullopt);
}

TEST_F(PlacerTest, FindsNoWindowForMoreThanARegionHas) {
  EXPECT_EQ(placer.find_window(25 * kGiB, stream), std::nullopt);
  EXPECT_EQ(memory.mapped(), 0);
}

// ---- windows ----

/// Pages of the medium region: 16 of them, in the addresses of a device of 32 pages.
class WindowTest : public testing::Test {
 protected:
  /// Memory behind pages [first, last) in extents of a page, idle or in use.
  void map(Bytes first, Bytes last, bool idle, LastUse used = {}) {
    for (Bytes page = first; page < last; ++page) {
      const Bytes begin = base + page * kPage;
      ASSERT_TRUE(memory.back({begin, begin + kPage}, {}, kPage, kPage));
      memory.take(begin, kPage);
      if (idle) memory.give(begin, kPage, used);
    }
  }

  /// Where the window for so many pages begins, in pages.
  Bytes find(Bytes pages) {
    const std::optional<Interval> window = placer.find_window(pages * kPage, stream);
    if (!window) return -1;
    missing = memory.missing(*window) / kPage;
    return (window->lower - base) / kPage;
  }

  WindowTest() { policy.least_slack = kGiB; }

  HostDevice device{32 * kPage};
  ArenaPolicy policy = with_few_addresses();
  StreamOrder order{device};
  Memory memory{device, order, policy};
  Placer placer{memory, order, policy};
  StreamIndex stream = order.index_of(0);
  Bytes base = memory.region(Region::kMedium).lower;
  Bytes missing = 0;
};

TEST_F(WindowTest, LiesLowestWhereNothingIsMapped) {
  ASSERT_EQ(memory.region(Region::kMedium).length(), 16 * kPage);
  EXPECT_EQ(find(5), 0);
  EXPECT_EQ(missing, 5);
}

TEST_F(WindowTest, LacksAsLittleAsItCan) {
  map(0, 2, true);
  map(2, 5, false);
  map(5, 7, true);
  map(7, 8, false);
  map(11, 14, true);
  EXPECT_EQ(find(5), 11) << "the largest gap, and addresses above";
  EXPECT_EQ(missing, 2);
}

TEST_F(WindowTest, GrowsDownwardsWhereABlockLiesAbove) {
  map(0, 4, false);
  map(8, 11, true);
  map(11, 13, false);
  EXPECT_EQ(find(5), 6);
  EXPECT_EQ(missing, 2);
}

TEST_F(WindowTest, JoinsGapsAcrossAddressesWithoutMemory) {
  map(0, 3, true);
  map(4, 7, true);
  EXPECT_EQ(find(7), 0);
  EXPECT_EQ(missing, 1);
}

TEST_F(WindowTest, TakesTheLowestOfEquals) {
  map(0, 1, false);
  map(3, 4, false);
  map(6, 7, false);
  EXPECT_EQ(find(2), 1);
}

TEST_F(WindowTest, LeavesOutMemoryThatNeedsAWait) {
  map(0, 10, true, {order.index_of(9), 5});
  EXPECT_EQ(find(4), 10);
  EXPECT_EQ(missing, 4);
}

TEST_F(WindowTest, UsesMemoryThatNeedsNone) {
  const StreamIndex other = order.index_of(9);
  map(0, 6, true, {other, 5});
  ASSERT_TRUE(order.order(stream, {other, 5}, 6));
  EXPECT_EQ(find(6), 0);
  EXPECT_EQ(missing, 0);
}

TEST_F(WindowTest, GoesToTheLargeRegionWhenItsOwnIsFull) {
  policy.large = 64 * kMiB;
  map(7, 8, false);
  const std::optional<Interval> fits = placer.find_window(8 * kPage, stream);
  ASSERT_TRUE(fits);
  EXPECT_EQ(fits->lower, base + 8 * kPage);
  const std::optional<Interval> elsewhere = placer.find_window(9 * kPage, stream);
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(elsewhere->lower, memory.region(Region::kLarge).lower);
  ASSERT_TRUE(placer.extend(*elsewhere));
  EXPECT_EQ(memory.missing(*elsewhere), 0);
}

TEST_F(WindowTest, IsNowhereWhereNoAddressesAreLeft) {
  map(7, 8, false);
  const Bytes large = memory.region(Region::kLarge).lower - base;
  for (Bytes page = 8; page < 48; page += 8) map(large / kPage + page, large / kPage + page + 1, false);
  EXPECT_EQ(find(9), -1);
  EXPECT_NE(find(8), -1);
}

TEST_F(WindowTest, LacksNoMoreThanAnyOtherWindow) {
  std::mt19937 random(1);
  const auto any = [&](Bytes most) { return std::uniform_int_distribution<Bytes>(0, most)(random); };
  for (int round = 0; round < 300; ++round) {
    HostDevice fresh(32 * kPage);
    StreamOrder fresh_order(fresh);
    Memory held(fresh, fresh_order, policy);
    Placer fresh_placer(held, fresh_order, policy);
    const StreamIndex taker = fresh_order.index_of(0);
    const StreamIndex giver = fresh_order.index_of(1);
    const Interval region = held.region(Region::kMedium);
    std::vector<int> pages;  // 0: without memory, 1: idle, 2: not to be used
    for (Bytes at = region.lower; at < region.upper; at += kPage) {
      const Bytes what = any(5);
      pages.push_back(what < 3 ? 0 : what < 5 ? 1 : 2);
      if (pages.back() == 0) continue;
      ASSERT_TRUE(held.back({at, at + kPage}, {}, kPage, kPage));
      held.take(at, kPage);
      if (pages.back() == 1) held.give(at, kPage, {taker, 1});
      if (pages.back() == 2 && any(1) == 0) held.give(at, kPage, {giver, 1});
    }
    const Bytes size = 1 + any(6);
    Bytes least = std::numeric_limits<Bytes>::max();
    for (std::size_t first = 0; first + static_cast<std::size_t>(size) <= pages.size(); ++first) {
      const auto begin = pages.begin() + static_cast<std::ptrdiff_t>(first);
      if (std::count(begin, begin + size, 2) == 0)
        least = std::min(least, std::count(begin, begin + size, 0));
    }
    const std::optional<Interval> window = fresh_placer.find_window(size * kPage, taker);
    ASSERT_TRUE(window) << "the large region is free";
    ASSERT_EQ(region.contains(window->lower), least < std::numeric_limits<Bytes>::max());
    if (!region.contains(window->lower)) continue;
    ASSERT_EQ(held.missing(*window), least * kPage);
    for (Bytes at = window->lower; at < window->upper; at += kPage)
      ASSERT_NE(pages[static_cast<std::size_t>((at - region.lower) / kPage)], 2);
  }
}

// ---- windows of large requests ----

/// The first pages of the region of large requests, filled at random with extents of a few pages, idle or
/// partly in use.
class HalfPages {
 public:
  HalfPages(Memory& memory, std::mt19937& random) {
    const Bytes begin = memory.region(Region::kLarge).lower;
    region_ = {begin, begin + 64 * kPage};
    const auto any = [&](Bytes most) { return std::uniform_int_distribution<Bytes>(0, most)(random); };
    halves_.resize(static_cast<std::size_t>(region_.length() / kHalf));
    for (Bytes at = region_.lower; at + 16 * kPage <= region_.upper;) {
      const Interval extent = {at, at + (1 + any(2)) * kPage};
      const Bytes what = any(2);  // nothing, idle, or partly in use
      if (what > 0) map(memory, extent, what == 1 ? 0 : 1 + any(extent.length() / kHalf - 1), any(1) == 0);
      at = extent.upper;
    }
  }

  /// By policy.h's words, with none of the placer's code. Nothing where the window may not be.
  [[nodiscard]] std::optional<Bytes> cost(const Interval& window, const ArenaPolicy& policy) const {
    Bytes pinned = 0;
    Bytes stranded = 0;
    Bytes lacking = 0;
    Bytes calls = 0;
    std::set<std::size_t> extents;
    bool lacked = false;
    for (Bytes at = window.lower; at < window.upper; at += kHalf) {
      const Half& half = half_at(at);
      if (half.is_used) return std::nullopt;
      const bool lacks = half.extent == kNone;
      if (lacks) lacking += kHalf;
      if (lacks && !lacked) ++calls;
      lacked = lacks;
      if (lacks) continue;
      const Extent& extent = extents_[half.extent];
      if (extent.used == 0) pinned += kHalf;
      if (!extents.insert(half.extent).second) continue;
      const Bytes inside =
          std::min(extent.range.upper, window.upper) - std::max(extent.range.lower, window.lower);
      stranded += extent.range.length() - extent.used - inside;
    }
    if (stranded > kPage) return std::nullopt;
    pinned += lacking + stranded;
    for (const auto& [edge, half] :
         {std::pair(window.lower, window.lower), std::pair(window.upper, window.upper - kHalf)}) {
      if (edge % kPage == 0 || half_at(half).extent != kNone) continue;
      pinned += kHalf;
      ++calls;
    }
    return pinned + calls * policy.pinned_per_call + lacking * policy.pinned_per_call / policy.large;
  }

  /// Of all windows that begin or end where a block or an extent does.
  [[nodiscard]] std::optional<Bytes> least_cost(Bytes size, const ArenaPolicy& policy) const {
    std::optional<Bytes> least;
    for (Bytes at = region_.lower; at + size <= region_.upper; at += kHalf) {
      if (!is_edge(at) && !is_edge(at + size)) continue;
      const std::optional<Bytes> cost = this->cost({at, at + size}, policy);
      if (cost && (!least || *cost < *least)) least = cost;
    }
    return least;
  }

 private:
  static constexpr Bytes kHalf = kPage / 2;
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  struct Half {
    std::size_t extent = kNone;
    bool is_used = false;
    bool operator==(const Half&) const = default;
  };
  struct Extent {
    Interval range;
    Bytes used = 0;
  };

  void map(Memory& memory, const Interval& extent, Bytes used, bool at_end) {
    ASSERT_TRUE(memory.back(extent, {}, kPage, extent.length()));
    const Bytes begin = at_end ? extent.upper - used * kHalf : extent.lower;
    if (used > 0) memory.take(begin, used * kHalf);
    for (Bytes at = extent.lower; at < extent.upper; at += kHalf)
      halves_[index_of(at)] = {extents_.size(), begin <= at && at < begin + used * kHalf};
    extents_.push_back({extent, used * kHalf});
  }
  [[nodiscard]] bool is_edge(Bytes at) const {
    return at == region_.lower || at == region_.upper || half_at(at) != half_at(at - kHalf);
  }
  [[nodiscard]] std::size_t index_of(Bytes at) const {
    return static_cast<std::size_t>((at - region_.lower) / kHalf);
  }
  [[nodiscard]] const Half& half_at(Bytes at) const { return halves_[index_of(at)]; }

  Interval region_;
  std::vector<Half> halves_;
  std::vector<Extent> extents_;
};

TEST_F(PlacerTest, WindowsOfLargeRequestsTearNoIdleExtent) {
  const Bytes first = take(40 * kMiB);
  const Bytes second = take(64 * kMiB);
  take(40 * kMiB);
  give(first, 40 * kMiB);
  give(second, 64 * kMiB);
  const std::optional<Interval> window = placer.find_window(80 * kMiB, stream);
  ASSERT_TRUE(window);
  EXPECT_EQ(ends_of(memory, *window).stranded, 0);
  EXPECT_GT(window->lower, second);
}

TEST_F(PlacerTest, WindowsOfLargeRequestsGrowAWholeExtent) {
  take(40 * kMiB);
  const Bytes idle = take(64 * kMiB);
  give(idle, 64 * kMiB);
  EXPECT_EQ(take(68 * kMiB), idle);
  EXPECT_EQ(memory.mapped(), 108 * kMiB);
  EXPECT_EQ(device.calls(DeviceCall::kUnmap), 0);
}

TEST_F(PlacerTest, AWindowMayBeAWholeExtentAmongOthers) {
  const Bytes first = take(40 * kMiB);
  const Bytes second = take(50 * kMiB);
  const Bytes third = take(40 * kMiB);
  for (const auto& [offset, size] : {std::pair(first, 40), std::pair(second, 50), std::pair(third, 40)})
    give(offset, size * kMiB);
  EXPECT_EQ(take(50 * kMiB), second);
  EXPECT_EQ(memory.mapped(), 130 * kMiB);
}

TEST_F(PlacerTest, WindowsOfLargeRequestsFillPages) {
  const Bytes block = take(33 * kMiB);
  const Bytes idle = idle_extent_of(32 * kMiB);
  EXPECT_EQ(placer.find_window(33 * kMiB, stream)->lower, block + 33 * kMiB)
      << "16 pages are enough there; behind the idle extent at " << idle << " there would have to be 17";
}

TEST_F(PlacerTest, WindowsOfLargeRequestsStayWhereMuchMemoryIs) {
  take(33 * kMiB);
  const Bytes idle = idle_extent_of(256 * kMiB);
  const Interval window = *placer.find_window(257 * kMiB, stream);
  EXPECT_TRUE(overlaps(window, {idle, idle + 256 * kMiB}));
  EXPECT_EQ(memory.missing(window), kMiB) << "to move 256 MiB takes more driver calls than a page is worth";
}

TEST_F(PlacerTest, WindowsOfLargeRequestsCostNoMoreThanAnyOther) {
  policy.large = 4 * kPage;
  policy.least_slack = kGiB;
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    HostDevice fresh(kGiB);
    StreamOrder fresh_order(fresh);
    Memory held(fresh, fresh_order, policy);
    Placer fresh_placer(held, fresh_order, policy);
    const StreamIndex taker = fresh_order.index_of(0);
    const HalfPages layout(held, random);
    const Bytes size = (8 + static_cast<Bytes>(random() % 9)) * kPage / 2;
    const std::optional<Interval> window = fresh_placer.find_window(size, taker);
    ASSERT_TRUE(window);
    ASSERT_EQ(layout.cost(*window, policy), layout.least_cost(size, policy)) << "round " << round;
  }
}

TEST_F(PlacerTest, TheEndOfAGapThatStrandsLessIsFoundWhateverItsExtentsAre) {
  policy.block = 2 * kPage;
  std::mt19937 random(1);
  int fitted = 0;
  for (int round = 0; round < 3000; ++round) {
    HostDevice fresh(kGiB);
    StreamOrder fresh_order(fresh);
    Memory held(fresh, fresh_order, policy);
    const HalfPages layout(held, random);
    const Bytes size = (1 + static_cast<Bytes>(random() % 12)) * kPage / 2;
    const Bytes most = static_cast<Bytes>(random() % 6) * kPage / 2;
    std::size_t from = 0;
    (void)held.free_space.visit(0, held.addresses(), [&](const Gap& gap) {
      if (gap.end - gap.offset < size) return true;
      std::optional<Bytes> expected;
      Bytes least = most;
      for (const Bytes at : {gap.offset, gap.end - size}) {
        const Bytes stranded = ends_of(held, {at, at + size}).stranded;
        if (stranded >= least) continue;
        least = stranded;
        expected = at;
      }
      Bytes found = most;
      EXPECT_EQ(held.fit_at_ends({gap.offset, gap.end}, size, found, from), expected) << "round " << round;
      EXPECT_EQ(found, least);
      if (expected) ++fitted;
      return true;
    });
  }
  EXPECT_GT(fitted, 1000);
}

TEST_F(PlacerTest, MapsALargeJobInAFewThousandCalls) {
  for (Bytes held = 0; held < 7 * kGiB; held += 24 * kMiB) ASSERT_NE(take(24 * kMiB), -1);
  EXPECT_LT(device.calls(DeviceCall::kMap), 1000);
}

}  // namespace
}  // namespace stweaver
