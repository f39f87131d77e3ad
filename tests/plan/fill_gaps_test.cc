#include "plan/fill_gaps.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/checker.h"
#include "support/instances.h"

namespace stweaver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Interval kInNoGap = {};

Instance instance_of(std::vector<Item> items) {
  Instance instance;
  instance.items = std::move(items);
  for (const Item& item : instance.items) instance.lanes = std::max(instance.lanes, item.lane + 1);
  return instance;
}

std::vector<Interval> filled(const Instance& instance, std::vector<Interval> gaps) {
  return fill_gaps(instance, std::vector<bool>(instance.items.size(), true), std::move(gaps));
}

TEST(FillGaps, WithoutGapsOrItemsDoesNothing) {
  EXPECT_THAT(filled(instance_of({{.size = 8, .life = {0, 1}}}), {}), ElementsAre(kInNoGap));
  EXPECT_THAT(filled({}, {{0, 8}}), IsEmpty());
}

TEST(FillGaps, PutsTheLargestOfTheFullestTimeIntoTheSmallestGapThatHoldsIt) {
  const Instance instance =
      instance_of({{.size = 20, .life = {0, 4}}, {.size = 9, .life = {1, 3}}, {.size = 5, .life = {1, 3}}});
  EXPECT_THAT(filled(instance, {{100, 112}, {200, 210}}),
              ElementsAre(kInNoGap, Interval{200, 209}, Interval{100, 105}));
}

TEST(FillGaps, LeavesInTheArenaWhatDoesNotMakeItHigher) {
  const Instance instance = instance_of({{.size = 20, .life = {0, 2}}, {.size = 8, .life = {2, 4}}});
  EXPECT_THAT(filled(instance, {{100, 108}}), ElementsAre(kInNoGap, kInNoGap));
}

TEST(FillGaps, LowersOneTimeAfterTheOther) {
  const Instance instance = instance_of({{.size = 20, .life = {0, 9}},
                                         {.size = 8, .life = {0, 2}},
                                         {.size = 7, .life = {4, 6}},
                                         {.size = 1, .life = {7, 8}}});
  EXPECT_THAT(filled(instance, {{100, 108}}),
              ElementsAre(kInNoGap, Interval{100, 108}, Interval{100, 107}, Interval{100, 101}))
      << "which never meet";
}

TEST(FillGaps, KeepsApartWhatMeetsInTheNextStep) {
  Instance instance = instance_of({{.size = 8, .life = {6, 9}, .echo = {0, 2}}, {.size = 8, .life = {1, 4}}});
  instance.cycle = {0, 9};
  EXPECT_THAT(filled(instance, {{100, 108}}), ElementsAre(Interval{100, 108}, kInNoGap));
}

TEST(FillGaps, ServesOneLaneInEachGap) {
  const Instance instance = instance_of(
      {{.size = 8, .life = {0, 2}}, {.size = 8, .life = {4, 6}, .lane = 1}, {.size = 8, .life = {7, 8}}});
  EXPECT_THAT(filled(instance, {{100, 108}}), ElementsAre(Interval{100, 108}, kInNoGap, kInNoGap))
      << "the second keeps the arena as high as it is: the third would gain nothing";
  EXPECT_THAT(filled(instance, {{100, 108}, {200, 208}}),
              ElementsAre(Interval{100, 108}, Interval{200, 208}, Interval{100, 108}));
}

TEST(FillGaps, MovesNothingThatMayNot) {
  const Instance instance = instance_of({{.size = 9, .life = {0, 2}}, {.size = 5, .life = {0, 2}}});
  EXPECT_THAT(fill_gaps(instance, {false, true}, {{100, 109}}), ElementsAre(kInNoGap, Interval{100, 105}));
}

// ---- Random instances

/// One lane or three, some items that every step leaves to the next.
Instance random_instance(Random& random) {
  Instance instance = random_items(random, pick(random, 1, 60), 40, 100, 30);
  instance.lanes = pick(random, 0, 1) == 0 ? 1 : 3;
  for (Item& item : instance.items) {
    item.lane = static_cast<int>(pick(random, 0, instance.lanes - 1));
    if (item.life.lower > 40 && pick(random, 0, 3) == 0) item.echo = {0, pick(random, 1, 20)};
  }
  return instance;
}

std::vector<Interval> random_gaps(Random& random) {
  std::vector<Interval> gaps;
  Bytes at = pick(random, 0, 100);
  for (std::int64_t i = pick(random, 0, 12); i > 0; --i) {
    gaps.push_back({at, at + pick(random, 1, 50)});
    at = gaps.back().upper + pick(random, 1, 9);
  }
  return gaps;
}

std::vector<std::string> overlaps_in(const Instance& instance, const std::vector<Interval>& places) {
  std::vector<Lifespan> lives;
  std::vector<Bytes> sizes;
  std::vector<Bytes> offsets;
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (const Lifespan& life : {instance.items[i].life, instance.items[i].echo}) {
      if (life.empty() || places[i].empty()) continue;
      lives.push_back(life);
      sizes.push_back(places[i].length());
      offsets.push_back(places[i].lower);
    }
  }
  return check_placement(lives, sizes, offsets);
}

Time fullest_time(const Instance& instance) {
  const std::vector<LoadSince> loads = loads_of(instance);
  return std::ranges::max_element(loads, {}, &LoadSince::load)->time;
}

class RandomGaps : public testing::TestWithParam<unsigned> {
 protected:
  Random random_{GetParam()};
  Instance instance_ = random_instance(random_);
  std::vector<Interval> gaps_ = random_gaps(random_);
  std::vector<Interval> places_ = filled(instance_, gaps_);

  [[nodiscard]] Instance rest() const {
    Instance rest = instance_;
    rest.items.clear();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].empty()) rest.items.push_back(instance_.items[i]);
    }
    return rest;
  }
};

TEST_P(RandomGaps, HoldWhatTheyWereGivenAndNoByteTwice) {
  EXPECT_THAT(overlaps_in(instance_, places_), IsEmpty());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].empty()) continue;
    EXPECT_EQ(places_[i].length(), instance_.items[i].size);
    const auto holds = [&](const Interval& gap) {
      return gap.lower <= places_[i].lower && places_[i].upper <= gap.upper;
    };
    const auto gap = std::ranges::find_if(gaps_, holds);
    ASSERT_NE(gap, gaps_.end());
    for (std::size_t j = 0; j < i; ++j) {
      const bool is_beside = overlaps(places_[j], *gap);
      EXPECT_TRUE(!is_beside || instance_.items[i].lane == instance_.items[j].lane);
    }
  }
}

TEST_P(RandomGaps, HaveNoRoomLeftForWhatLivesAtTheFullestTime) {
  const Instance left = rest();
  if (left.items.empty()) return;
  const Time fullest = fullest_time(left);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Item& item = instance_.items[i];
    if (!places_[i].empty() || !(item.life.contains(fullest) || item.echo.contains(fullest))) continue;
    for (const Interval& gap : gaps_) {
      const bool is_taken = std::ranges::any_of(places_, [&](const Interval& place) {
        const auto& other = instance_.items[static_cast<std::size_t>(&place - places_.data())];
        return overlaps(place, gap) && other.lane != item.lane;
      });
      for (Bytes at = gap.lower; !is_taken && at + item.size <= gap.upper; ++at) {
        std::vector<Interval> places = places_;
        places[i] = {at, at + item.size};
        EXPECT_FALSE(overlaps_in(instance_, places).empty()) << "item " << i << " at " << at;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGaps, testing::Range(0U, 60U));

}  // namespace
}  // namespace stweaver
