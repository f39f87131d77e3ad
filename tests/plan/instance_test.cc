#include "plan/instance.h"

#include <gtest/gtest.h>

#include "support/checked.h"
#include "support/instances.h"

namespace stweaver {
namespace {

TEST(LowerBound, IsTheLargestLoad) {
  for_each_instance(all_shapes(), [](const Instance& instance) {
    EXPECT_EQ(lower_bound_of(instance), naive_lower_bound(instance));
  });
}

TEST(LowerBound, CountsADeathBeforeABirthOfTheSameTime) {
  Instance instance;
  instance.items = {{.size = 7, .life = {0, 5}}, {.size = 7, .life = {5, 9}}};
  EXPECT_EQ(lower_bound_of(instance), 7);
}

TEST(LowerBound, CountsWhatLanesMayNotPassOnWithinTheGap) {
  Instance instance;
  instance.lanes = 2;
  instance.items = {{.size = 7, .life = {0, 5}, .lane = 0}, {.size = 5, .life = {8, 9}, .lane = 1}};
  instance.lane_gap = 3;
  EXPECT_EQ(lower_bound_of(instance), 7);
  instance.lane_gap = 4;
  EXPECT_EQ(lower_bound_of(instance), 12);
  instance.items[1].lane = 0;
  EXPECT_EQ(lower_bound_of(instance), 7) << "one lane passes its own bytes on";
}

TEST(LowerBound, CountsEchoesAndPersistentRequests) {
  Instance instance;
  instance.items = {{.size = 7, .life = {8, 10}, .echo = {0, 2}}, {.size = 5, .life = {1, 3}}};
  EXPECT_EQ(lower_bound_of(instance), 12);
  instance.persistent = {{1, 100}, {9, 1000}};
  EXPECT_EQ(lower_bound_of(instance), 1107);
}

TEST(StackPersistent, TellsWhatStandsAboveEachItem) {
  Instance instance;
  instance.items = {{.size = 1, .life = {0, 3}}, {.size = 1, .life = {0, 4}}, {.size = 1, .life = {9, 10}}};
  instance.persistent = {{3, 10}, {5, 100}, {9, 1000}};
  stack_persistent(instance);
  EXPECT_EQ(instance.items[0].above, 0) << "gone before the first is born";
  EXPECT_EQ(instance.items[1].above, 10);
  EXPECT_EQ(instance.items[2].above, 1110);
}

TEST(PeakOf, IsTheLeastArenaThatHoldsItemsAndWhatStandsAboveThem) {
  for_each_instance(plain_shapes(), [](const Instance& instance) {
    Placement one_on_the_other;
    Bytes top = 0;
    Bytes expected = 0;
    for (const Persistent& persistent : instance.persistent) expected += persistent.size;
    for (const Item& item : instance.items) {
      one_on_the_other.push_back(top);
      top += item.size;
      Bytes above = 0;
      for (const Persistent& request : instance.persistent)
        above += request.birth < item.life.upper ? request.size : 0;
      expected = std::max(expected, top + above);
    }
    EXPECT_EQ(peak_of(instance, one_on_the_other), expected);
    expect_sound(instance, one_on_the_other);
  });
}

TEST(IsPlain, IsFalseForLanesAndEchoes) {
  Instance instance;
  instance.items = {{.size = 1, .life = {4, 5}}};
  EXPECT_TRUE(is_plain(instance));
  instance.items[0].echo = {0, 1};
  EXPECT_FALSE(is_plain(instance));
  instance.items[0].echo = {};
  instance.lanes = 2;
  EXPECT_FALSE(is_plain(instance));
}

}  // namespace
}  // namespace stweaver
