#include "arena/extent_table.h"

#include <cstddef>
#include <utility>
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

TEST(ExtentTable, VisitsThoseThatOverlapARangeFromWhereverItBeganToLook) {
  const ExtentTable table = table_of({{0, 2}, {2, 4}, {4, 6}, {7, 8}, {8, 9}});
  std::size_t from = 0;
  const auto seen = [&](const Interval& range, std::size_t& first) {
    std::vector<std::size_t> numbers;
    table.visit(
        range, [&](std::size_t number) { return numbers.push_back(number), true; }, first);
    return numbers;
  };
  for (const auto& [range, expected] :
       std::vector<std::pair<Interval, std::vector<std::size_t>>>{{{0, 1}, {0}},
                                                                  {{1, 3}, {0, 1}},
                                                                  {{3, 8}, {1, 2, 3}},
                                                                  {{6, 7}, {}},
                                                                  {{7, 9}, {3, 4}},
                                                                  {{9, 10}, {}}}) {
    std::size_t anew = 0;
    EXPECT_EQ(seen(range, from), expected);
    EXPECT_EQ(seen(range, anew), expected);
  }
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
