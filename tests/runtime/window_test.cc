#include "runtime/window.h"

#include <optional>

#include <gtest/gtest.h>

#include "device/device.h"

namespace stweaver {
namespace {

constexpr Bytes kPage = 2 * kMiB;
constexpr Interval kRegion = {0, 100 * kPage};

class WindowTest : public testing::Test {
 protected:
  /// Memory behind pages [first, last), idle or lived in.
  void map(Bytes first, Bytes last, bool idle) {
    ASSERT_TRUE(arena.map({first * kPage, last * kPage}));
    if (!idle) arena.free_space.take(first * kPage, (last - first) * kPage);
  }

  /// Where the window for so many pages begins, in pages.
  Bytes find(Bytes pages, const Interval& region = kRegion) {
    window = find_window(arena, pages * kPage, region, [](const LastUse&) { return true; });
    return window ? window->range.lower / kPage : -1;
  }
  [[nodiscard]] Bytes missing() const { return window->missing / kPage; }

  HostDevice device{kGiB};
  Arena arena{device};
  std::optional<Window> window;
};

TEST_F(WindowTest, LiesLowestWhereNothingIsMapped) {
  ASSERT_GT(arena.addresses(), 0);
  EXPECT_EQ(find(5), 0);
  EXPECT_EQ(missing(), 5);
}

TEST_F(WindowTest, HoldsAsMuchIdleMemoryAsItCan) {
  map(0, 2, true);
  map(2, 10, false);
  map(10, 14, true);
  map(14, 20, false);
  map(30, 36, true);
  EXPECT_EQ(find(8), 30) << "the largest gap, and addresses above";
  EXPECT_EQ(missing(), 2);
}

TEST_F(WindowTest, GrowsDownwardsWhereSomebodyLivesAbove) {
  map(0, 4, false);
  map(10, 14, true);
  map(14, 20, false);
  EXPECT_EQ(find(6), 8);
  EXPECT_EQ(missing(), 2);
}

TEST_F(WindowTest, JoinsGapsAcrossAddressesWithoutMemory) {
  map(0, 3, true);
  map(4, 7, true);
  EXPECT_EQ(find(7), 0);
  EXPECT_EQ(missing(), 1);
}

TEST_F(WindowTest, TakesTheLowestOfEquals) {
  map(0, 1, false);
  map(3, 4, false);
  map(6, 7, false);
  EXPECT_EQ(find(2), 1);
}

TEST_F(WindowTest, LeavesOutMemoryThatMayNotBeUsed) {
  map(0, 10, true);
  const auto none = [](const LastUse&) { return false; };
  const std::optional<Window> found = find_window(arena, 4 * kPage, kRegion, none);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->range.lower, 10 * kPage);
}

TEST_F(WindowTest, CountsWholePagesAsMissing) {
  map(0, 4, false);
  const auto all = [](const LastUse&) { return true; };
  const std::optional<Window> found = find_window(arena, 512, kRegion, all);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->missing, kPage);
}

TEST_F(WindowTest, StaysInItsRegion) {
  map(0, 20, true);
  EXPECT_EQ(find(4, {6 * kPage, 10 * kPage}), 6);
  EXPECT_EQ(missing(), 0);
  EXPECT_EQ(find(5, {6 * kPage, 10 * kPage}), -1);
}

TEST_F(WindowTest, IsNowhereWhereAllIsLivedIn) {
  map(0, 20, false);
  EXPECT_EQ(find(1, {0, 20 * kPage}), -1);
}

}  // namespace
}  // namespace stweaver
