#include "arena/extent_table.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stweaver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ExtentTable table_of(const std::vector<Interval>& ranges) {
  ExtentTable table;
  for (const Interval& range : ranges) table.insert(range);
  return table;
}

TEST(ExtentTable, KeepsExtentsInOrderHoweverTheyCome) {
  const ExtentTable table = table_of({{6, 8}, {0, 2}, {3, 5}});
  ASSERT_EQ(table.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(table[i].range.lower, 3 * static_cast<Bytes>(i)) << "number " << i;
}

TEST(ExtentTable, FindsTheFirstAboveFromWhereverTheSearchBegins) {
  std::vector<Interval> ranges;
  for (Bytes at = 0; at < 200; at += 2) ranges.push_back({at, at + 1});
  const ExtentTable table = table_of(ranges);
  for (Bytes offset = -1; offset < 201; ++offset) {
    const auto above = static_cast<std::size_t>(offset < 0 ? 0 : std::min<Bytes>(offset / 2 + 1, 100));
    for (std::size_t from = 0; from < above; ++from) ASSERT_EQ(table.first_above(offset, from), above);
    ASSERT_EQ(table.first_above(offset), above);
  }
  EXPECT_EQ(ExtentTable().first_above(0), 0U);
}

TEST(ExtentTable, KnowsWhereAnExtentBeginsUpToSomeOffset) {
  const ExtentTable table = table_of({{2, 4}, {6, 8}});
  EXPECT_EQ(table.begin_of(1, 6), 6);
  EXPECT_EQ(table.begin_of(1, 5), 0);
  EXPECT_EQ(table.begin_of(2, 9), 0) << "there is none";
}

TEST(ExtentTable, JoinsNeighboursThatEndWhereNobodyLooks) {
  const ExtentTable table = table_of({{0, 2}, {2, 4}, {4, 6}, {7, 8}, {8, 9}});
  const auto joined = [&](const Interval& range, Bytes until) {
    std::vector<Interval> seen;
    table.visit_joined(
        range, [&] { return until; },
        [&](const Interval& extents) {
          seen.push_back(extents);
          return true;
        });
    return seen;
  };
  EXPECT_THAT(joined({0, 9}, 0),
              ElementsAre(Interval{0, 2}, Interval{2, 4}, Interval{4, 6}, Interval{7, 8}, Interval{8, 9}));
  EXPECT_THAT(joined({0, 9}, 5), ElementsAre(Interval{0, 4}, Interval{4, 6}, Interval{7, 8}, Interval{8, 9}));
  EXPECT_THAT(joined({0, 9}, 9), ElementsAre(Interval{0, 6}, Interval{7, 9})) << "never across a hole";
  EXPECT_THAT(joined({3, 8}, 9), ElementsAre(Interval{2, 6}, Interval{7, 9}));
  EXPECT_THAT(joined({6, 7}, 9), IsEmpty());
}

TEST(ExtentTable, ForgetsWhatWasMadeEmpty) {
  ExtentTable table = table_of({{0, 2}, {2, 4}, {4, 6}});
  table[1].range.upper = table[1].range.lower;
  table.erase_empty();
  ASSERT_EQ(table.size(), 2U);
  EXPECT_EQ(table[1].range, (Interval{4, 6}));
  EXPECT_EQ(table.first_above(3), 1U);
}

}  // namespace
}  // namespace stweaver
