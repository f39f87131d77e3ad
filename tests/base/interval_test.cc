#include "base/interval.h"

#include <vector>

#include <gtest/gtest.h>

namespace stweaver {
namespace {

std::vector<Interval> joined(std::vector<Interval> intervals) {
  join(intervals);
  return intervals;
}

TEST(Interval, JoinsWhatOverlapsOrTouches) {
  EXPECT_EQ(joined({{7, 9}, {0, 2}, {2, 4}, {3, 5}}), (std::vector<Interval>{{0, 5}, {7, 9}}));
}

TEST(Interval, JoinsWhatLiesWithinAnother) {
  EXPECT_EQ(joined({{0, 10}, {2, 3}, {9, 10}, {4, 12}}), (std::vector<Interval>{{0, 12}}));
}

TEST(Interval, LeavesWhatLiesApart) {
  EXPECT_EQ(joined({}), std::vector<Interval>());
  EXPECT_EQ(joined({{5, 6}, {1, 4}}), (std::vector<Interval>{{1, 4}, {5, 6}}));
}

}  // namespace
}  // namespace stweaver
