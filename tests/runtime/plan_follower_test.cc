#include "runtime/plan_follower.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stweaver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Bytes kBase = 10 * kMiB;

Slot slot(Bytes size, Bytes offset, Time death, Stream stream = 0) {
  return {.size = size, .offset = offset, .stream = stream, .death = death};
}

std::shared_ptr<const PlanIndex> index_of(std::vector<Slot> slots, std::size_t prologue = 0) {
  Plan plan;
  plan.prologue = prologue;
  for (const Slot& one : slots) {
    if (one.offset != kUnplanned) plan.arena = std::max(plan.arena, one.offset + one.size);
  }
  plan.slots = std::move(slots);
  return std::make_shared<PlanIndex>(std::move(plan));
}

AllocParams params(Bytes size, Stream stream = 0, Pool pool = 0) {
  return {.size = size,
          .rounded = align_up(size, kAlignment),
          .stream = static_cast<StreamIndex>(stream),
          .handle = stream,
          .pool = pool};
}

class PlanFollowerTest : public testing::Test {
 protected:
  [[nodiscard]] PlanFollower follow(std::vector<Slot> slots, std::size_t prologue = 0) const {
    return {index_of(std::move(slots), prologue), kBase, policy};
  }
  /// A step of `count` slots side by side, no two of a size, each alive until the next is born.
  [[nodiscard]] static std::vector<Slot> row(std::size_t count) {
    std::vector<Slot> slots;
    Bytes offset = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Bytes size = static_cast<Bytes>(i + 1) * 512;
      slots.push_back(slot(size, offset, static_cast<Time>(i) + 1));
      offset += size;
    }
    return slots;
  }
  /// Follows a step of four slots up to the second, which is at `offset` and for any size up to 4096.
  [[nodiscard]] PlanFollower before_varying_slot(Bytes offset) const {
    std::vector<Slot> slots = row(4);
    slots[1] = {.size = 4096, .offset = offset, .death = 3, .varying = true};
    PlanFollower follower = follow(std::move(slots));
    follower.advise(params(512));
    return follower;
  }

  Policy policy;
};

TEST_F(PlanFollowerTest, LiesWhereItBegins) {
  const PlanFollower follower = follow({slot(512, 0, 1), slot(1024, 512, 2)});
  EXPECT_EQ(follower.range(), (Interval{kBase, kBase + 1536}));
  EXPECT_FALSE(follower.has_several_streams());
}

TEST_F(PlanFollowerTest, AdvisesThePlaceOfTheSlot) {
  PlanFollower follower = follow({slot(1024, 0, kForever), slot(2048, 4096, 5), slot(4096, 8192, 3)}, 1);
  const Advice weight = follower.advise(params(1024));
  EXPECT_EQ(weight.place, (Interval{kBase, kBase + 1024}));
  EXPECT_EQ(weight.life, kForever);
  const Advice activation = follower.advise(params(1700));
  EXPECT_EQ(activation.place, (Interval{kBase + 4096, kBase + 4096 + 2048}));
  EXPECT_EQ(activation.life, 4) << "from 1 to 5";
  EXPECT_EQ(activation.why, Unplanned::kOccupied) << "should the place be";
  EXPECT_FALSE(activation.hands_over);
  follower.begin_step();
  EXPECT_EQ(follower.advise(params(2048)).place, activation.place) << "in each step";
}

TEST_F(PlanFollowerTest, GivesPlacesInGapsAsTheyAre) {
  Plan plan;
  plan.arena = 1024;
  plan.slots = {slot(1024, 0, 2), slot(2048, kUnplanned, 3), slot(512, kUnplanned, 3)};
  plan.in_gaps = {{1, {kMiB, kMiB + 2048}}};
  PlanFollower follower(std::make_shared<PlanIndex>(std::move(plan)), kBase, policy);
  EXPECT_EQ(follower.index().planned_in_step(), 2);
  EXPECT_EQ(follower.advise(params(1024)).place, (Interval{kBase, kBase + 1024}));
  const Advice in_gap = follower.advise(params(1600));
  EXPECT_EQ(in_gap.place, (Interval{kMiB, kMiB + 2048}));
  EXPECT_EQ(in_gap.life, 2);
  EXPECT_EQ(in_gap.why, Unplanned::kOccupied) << "should the place be";
  EXPECT_EQ(follower.advise(params(512)).why, Unplanned::kDynamic);
}

TEST_F(PlanFollowerTest, TellsWhichPlacesAnotherStreamIsGoingToUse) {
  PlanFollower follower =
      follow({slot(1024, 0, 1), slot(2048, 4096, 2), slot(512, 0, 3, 7), slot(4096, 8192, 4, 7)});
  EXPECT_TRUE(follower.has_several_streams());
  EXPECT_TRUE(follower.advise(params(1024)).hands_over);
  EXPECT_FALSE(follower.advise(params(2048)).hands_over);
  EXPECT_TRUE(follower.advise(params(512, 7)).hands_over);
  EXPECT_FALSE(follower.advise(params(4096, 7)).hands_over);
}

TEST_F(PlanFollowerTest, HasNoPlaceForARequestThatIsNotInThePlan) {
  PlanFollower follower = follow(row(20));
  follower.advise(params(512));
  const Advice advice = follower.advise(params(50'000));
  EXPECT_FALSE(advice.place);
  EXPECT_EQ(advice.why, Unplanned::kUnknown);
  EXPECT_EQ(advice.life, kForever) << "it may stay for good";
  EXPECT_TRUE(follower.advise(params(1024)).place) << "the next goes on";
}

TEST_F(PlanFollowerTest, AnUnknownRequestMayBeTheNextOneOfAnotherSize) {
  std::vector<Slot> slots = row(20);
  slots[1].death = kForever;
  PlanFollower follower = follow(slots, 2);
  follower.advise(params(512));
  EXPECT_EQ(follower.advise(params(50'000)).life, kForever) << "and live as long";
}

TEST_F(PlanFollowerTest, AGuessHasNoPlaceButTellsALife) {
  std::vector<Slot> slots = row(20);
  slots[4].death = 11;
  PlanFollower follower = follow(slots);
  follower.advise(params(512));
  const Advice advice = follower.advise(params(Bytes{5} * 512));
  EXPECT_FALSE(advice.place) << "three requests were left out, or this is one too many";
  EXPECT_EQ(advice.why, Unplanned::kUnknown);
  EXPECT_EQ(advice.life, 7);
}

TEST_F(PlanFollowerTest, HasNoPlaceForMoreThanThePlan) {
  PlanFollower follower = follow(row(4));
  const Advice advice = follower.advise(params(5001));
  EXPECT_EQ(advice.why, Unplanned::kUnknown) << "the plan has 5120 bytes";
  EXPECT_EQ(follower.advise(params(5121)).why, Unplanned::kTooLarge);
}

TEST_F(PlanFollowerTest, HasNoPlaceForMoreThanASlotOfAnySize) {
  PlanFollower follower = before_varying_slot(8192);
  const Advice advice = follower.advise(params(6000));
  EXPECT_FALSE(advice.place);
  EXPECT_EQ(advice.why, Unplanned::kTooLarge);
  EXPECT_EQ(advice.life, 2);
}

TEST_F(PlanFollowerTest, AdvisesNoMoreOfASlotThanIsAskedFor) {
  PlanFollower follower = before_varying_slot(8192);
  EXPECT_EQ(follower.advise(params(3000)).place, (Interval{kBase + 8192, kBase + 8192 + 3072}));
}

TEST_F(PlanFollowerTest, HasNoPlaceWhereSizesMoveOnTheirOwn) {
  PlanFollower follower = before_varying_slot(kUnplanned);
  const Advice advice = follower.advise(params(3000));
  EXPECT_FALSE(advice.place);
  EXPECT_EQ(advice.why, Unplanned::kDynamic);
  EXPECT_EQ(advice.life, 2);
}

TEST_F(PlanFollowerTest, PrivatePoolsHaveTheirTurnButNoPlace) {
  std::vector<Slot> slots = {slot(512, 0, 1), slot(512, kUnplanned, 2), slot(512, 1024, 3)};
  PlanFollower follower = follow(slots);
  EXPECT_EQ(follower.advise(params(512)).place, (Interval{kBase, kBase + 512}));
  const Advice pooled = follower.advise(params(512, 0, 5));
  EXPECT_FALSE(pooled.place);
  EXPECT_EQ(pooled.why, Unplanned::kPool);
  EXPECT_EQ(follower.advise(params(512)).place, (Interval{kBase + 1024, kBase + 1536}));
}

TEST_F(PlanFollowerTest, IsAstrayWhereAStreamsRequestsAreNothingLikeThePlan) {
  PlanFollower follower = follow(row(20));
  follower.advise(params(512));
  for (std::size_t i = 0; i < policy.lost; ++i) {
    EXPECT_FALSE(follower.is_astray(0)) << i;
    follower.advise(params(kMiB + static_cast<Bytes>(i) * 512));
  }
  EXPECT_TRUE(follower.is_astray(0));
  EXPECT_FALSE(follower.is_astray(1)) << "which has asked for nothing";
  follower.advise(params(1024));
  EXPECT_FALSE(follower.is_astray(0));
}

// ---- what the plan is going to use ----

TEST_F(PlanFollowerTest, KnowsWhereThePlanUsesItsRangeForAWhile) {
  // Slot by slot at 0, 1, 3 and 4 KiB, of a KiB each.
  PlanFollower follower =
      follow({slot(1024, 0, 1), slot(1024, 1024, 2), slot(1024, 3072, 3), slot(1024, 4096, 4)});
  const auto used = [&](Time life) {
    std::vector<Interval> all = follower.used_within(life);
    for (Interval& range : all) range = {(range.lower - kBase) / 1024, (range.upper - kBase) / 1024};
    return all;
  };
  follower.advise(params(1024));
  EXPECT_THAT(used(0), IsEmpty());
  EXPECT_THAT(used(1), IsEmpty()) << "until the next is born";
  EXPECT_THAT(used(2), ElementsAre(Interval{1, 2}));
  EXPECT_THAT(used(4), ElementsAre(Interval{1, 2}, Interval{3, 5}));
  EXPECT_THAT(used(kForever), ElementsAre(Interval{0, 2}, Interval{3, 5}));
  for (int i = 0; i < 3; ++i) follower.advise(params(1024));
  EXPECT_THAT(used(3), ElementsAre(Interval{0, 2})) << "the step begins again";
}

TEST_F(PlanFollowerTest, KnowsAsListingAllSlotsTells) {
  std::mt19937 random(1);
  const auto any = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random);
  };
  for (int round = 0; round < 20; ++round) {
    const std::size_t count = 100 + any(200);
    std::vector<Slot> slots;
    for (std::size_t i = 0; i < count; ++i) {
      const Bytes offset = any(9) == 0 ? kUnplanned : static_cast<Bytes>(any(300)) * 512;
      slots.push_back(slot(static_cast<Bytes>(i + 1) * 512, offset, static_cast<Time>(i) + 1));
      if (offset != kUnplanned) slots.back().size = static_cast<Bytes>(1 + any(3)) * 512;
    }
    const std::shared_ptr<const PlanIndex> index = index_of(slots);
    PlanFollower follower(index, kBase, policy);
    std::vector<Interval> found;
    for (int i = 0; i < 100; ++i) {
      const std::size_t now = any(count - 1);
      const std::size_t life = any(2 * count);
      index->layout().used_between(now, static_cast<Time>(now + life), found);
      std::vector<bool> used(400, false);
      for (std::size_t next = now + 1; next < std::min(now + life, now + 1 + count); ++next) {
        const Slot& one = slots[next % count];
        if (one.offset == kUnplanned) continue;
        for (Bytes unit = 0; unit < one.size / 512; ++unit)
          used[static_cast<std::size_t>(one.offset / 512 + unit)] = true;
      }
      Bytes end = -1;
      for (const Interval& range : found) {
        EXPECT_GT(range.lower, end) << "ordered, no two touching";
        end = range.upper;
        for (Bytes unit = range.lower / 512; unit < range.upper / 512; ++unit) {
          EXPECT_TRUE(used[static_cast<std::size_t>(unit)]);
          used[static_cast<std::size_t>(unit)] = false;
        }
      }
      EXPECT_EQ(std::count(used.begin(), used.end(), true), 0);
    }
  }
}

// ---- steps that have lengths ----

void let_vary(Slot& slot, std::uint8_t power = 1) {
  slot.varying = true;
  slot.power = power;
}

/// A step of slots one upon the other, each alive to the end of the step; the first is of one size.
std::shared_ptr<const PlanIndex> stack(StepShape shape, std::size_t count, Bytes size) {
  Plan plan;
  plan.shape = shape;
  for (std::size_t i = 0; i < count; ++i) {
    plan.slots.push_back(slot(size, plan.arena, static_cast<Time>(count)));
    if (i > 0) let_vary(plan.slots.back());
    plan.arena += size;
  }
  return std::make_shared<PlanIndex>(std::move(plan));
}

TEST_F(PlanFollowerTest, RaisesTheSlotsOfALongerStepByWhatItsFirstRequestShows) {
  PlanFollower follower(stack(StepShape::kVarying, 4, 16 * kMiB), kBase, policy);
  follower.prove();
  follower.begin_step();
  EXPECT_EQ(follower.advise(params(16 * kMiB)).place, (Interval{kBase, kBase + 16 * kMiB}));
  const Advice second = follower.advise(params(20 * kMiB));
  EXPECT_EQ(second.place, (Interval{kBase + 16 * kMiB, kBase + 36 * kMiB}));
  const Advice third = follower.advise(params(20 * kMiB));
  EXPECT_EQ(third.place, (Interval{kBase + 36 * kMiB, kBase + 56 * kMiB})) << "on the end of the second";
  EXPECT_EQ(follower.range(), (Interval{kBase, kBase + 76 * kMiB}));
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  EXPECT_EQ(follower.advise(params(10 * kMiB)).place->lower, kBase + 16 * kMiB);
  EXPECT_EQ(follower.advise(params(10 * kMiB)).place->lower, kBase + 36 * kMiB) << "for good";
}

TEST_F(PlanFollowerTest, RaisesNoSlotsWhereStepsAreAlikeOrTheSizeTellsTooLittle) {
  PlanFollower alike(stack(StepShape::kFixed, 4, 16 * kMiB), kBase, policy);
  alike.begin_step();
  alike.advise(params(16 * kMiB));
  EXPECT_EQ(alike.advise(params(20 * kMiB)).why, Unplanned::kTooLarge);
  EXPECT_EQ(alike.range().length(), 64 * kMiB);
  PlanFollower small(stack(StepShape::kVarying, 4, 64 * kKiB), kBase, policy);
  small.prove();
  small.begin_step();
  small.advise(params(64 * kKiB));
  EXPECT_EQ(small.advise(params(80 * kKiB)).why, Unplanned::kTooLarge);
  EXPECT_EQ(small.range().length(), 256 * kKiB);
}

TEST_F(PlanFollowerTest, LaysALongerStepOutAtOnceAsTheNextOnes) {
  // The others lie below what slot 0 still holds, and fit exactly.
  Plan plan;
  plan.shape = StepShape::kVarying;
  plan.slots = {slot(8 * kMiB, 32 * kMiB, 4), slot(16 * kMiB, 0, 2), slot(16 * kMiB, 0, 4),
                slot(16 * kMiB, 16 * kMiB, 4)};
  for (std::size_t i = 1; i < plan.slots.size(); ++i) let_vary(plan.slots[i]);
  plan.arena = 40 * kMiB;
  PlanFollower follower(std::make_shared<PlanIndex>(std::move(plan)), kBase, policy);
  follower.prove();
  follower.begin_step();
  follower.advise(params(8 * kMiB));
  EXPECT_EQ(follower.advise(params(20 * kMiB)).place, (Interval{kBase, kBase + 20 * kMiB}));
  EXPECT_EQ(follower.range().length(), 48 * kMiB) << "whatever lies there now";
  follower.begin_step();
  EXPECT_EQ(follower.range().length(), 48 * kMiB);
  follower.advise(params(8 * kMiB));
  EXPECT_EQ(follower.advise(params(20 * kMiB)).place, (Interval{kBase, kBase + 20 * kMiB}));
}

TEST_F(PlanFollowerTest, RaisesSlotsThatGrowWithTheSquareOfTheLengthByItsSquare) {
  Plan plan = stack(StepShape::kVarying, 4, 16 * kMiB)->plan();
  let_vary(plan.slots[1], 2);
  PlanFollower follower(std::make_shared<PlanIndex>(std::move(plan)), kBase, policy);
  follower.prove();
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  EXPECT_EQ(follower.advise(params(25 * kMiB)).why, Unplanned::kTooLarge) << "a square tells no length";
  EXPECT_EQ(follower.range().length(), 64 * kMiB);
  EXPECT_TRUE(follower.advise(params(20 * kMiB)).place);
  follower.begin_step();
  EXPECT_EQ(follower.range().length(), (16 + 25 + 20 + 20) * kMiB);
  follower.advise(params(16 * kMiB));
  EXPECT_EQ(follower.advise(params(25 * kMiB)).place, (Interval{kBase + 16 * kMiB, kBase + 41 * kMiB}));
}

TEST_F(PlanFollowerTest, RaisesSlotsOfTheLengthThatIsLongerAlone) {
  Plan plan = stack(StepShape::kVarying, 5, 16 * kMiB)->plan();
  plan.slots[2].length = plan.slots[4].length = 1;
  PlanFollower follower(std::make_shared<PlanIndex>(std::move(plan)), kBase, policy);
  follower.prove();
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  EXPECT_TRUE(follower.advise(params(16 * kMiB)).place);
  EXPECT_EQ(follower.advise(params(20 * kMiB)).place, (Interval{kBase + 32 * kMiB, kBase + 52 * kMiB}));
  EXPECT_EQ(follower.advise(params(16 * kMiB)).place, (Interval{kBase + 52 * kMiB, kBase + 68 * kMiB}));
  EXPECT_EQ(follower.advise(params(20 * kMiB)).place, (Interval{kBase + 68 * kMiB, kBase + 88 * kMiB}));
}

TEST_F(PlanFollowerTest, LaysOutEachLengthForTheLongestOfThisRun) {
  Plan plan = stack(StepShape::kVarying, 3, 16 * kMiB)->plan();
  plan.slots[2].length = 1;
  PlanFollower follower(std::make_shared<PlanIndex>(std::move(plan)), kBase, policy);
  follower.prove();
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  follower.advise(params(16 * kMiB));
  follower.advise(params(8 * kMiB));
  follower.begin_step();
  EXPECT_TRUE(follower.fit_lengths());
  EXPECT_EQ(follower.range().length(), (16 + 16 + 8) * kMiB);
}

TEST_F(PlanFollowerTest, RaisesNothingWhereTheJobDoesSomethingElse) {
  PlanFollower follower(stack(StepShape::kVarying, 40, 16 * kMiB), kBase, policy);
  follower.prove();
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  for (int i = 0; i < 4; ++i) follower.advise(params(kMiB));
  follower.advise(params(20 * kMiB));
  EXPECT_EQ(follower.range().length(), 640 * kMiB) << "an evaluation, perhaps";
}

TEST_F(PlanFollowerTest, RaisesSlotsWhateverTinyRequestsThePlanDoesNotKnow) {
  PlanFollower follower(stack(StepShape::kVarying, 40, 16 * kMiB), kBase, policy);
  follower.prove();
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  for (int i = 0; i < 4; ++i) follower.advise(params(900));
  EXPECT_TRUE(follower.advise(params(20 * kMiB)).place);
}

TEST_F(PlanFollowerTest, RaisesSlotsInTilesToWholeTiles) {
  Plan plan = stack(StepShape::kVarying, 4, 16 * kMiB)->plan();
  plan.slots[2].tile = kMiB;
  PlanFollower follower(std::make_shared<PlanIndex>(std::move(plan)), kBase, policy);
  follower.prove();
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  const auto longer = 16 * kMiB + kMiB / 2;
  EXPECT_EQ(follower.advise(params(longer)).place, (Interval{kBase + 16 * kMiB, kBase + 16 * kMiB + longer}));
  EXPECT_EQ(follower.advise(params(17 * kMiB)).place->length(), 17 * kMiB);
  EXPECT_EQ(follower.range().length(), (16 + 17) * kMiB + 2 * longer);
}

/// A step whose slots have two sizes in turn, but for the first as stack() has them.
std::shared_ptr<const PlanIndex> stack_of_two_sizes(std::size_t count) {
  Plan plan = stack(StepShape::kVarying, count, 16 * kMiB)->plan();
  plan.arena = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Slot& slot = plan.slots[i];
    if (i > 0 && i % 2 == 0) slot.size = 32 * kMiB;
    slot.offset = std::exchange(plan.arena, plan.arena + slot.size);
  }
  return std::make_shared<PlanIndex>(std::move(plan));
}

TEST_F(PlanFollowerTest, RaisesTwiceInAStepAroundWhatWasPutBetween) {
  PlanFollower follower(stack_of_two_sizes(7), kBase, policy);
  follower.prove();
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  std::vector<Interval> placed;
  for (const Bytes size : {17, 36, 18, 40, 20, 40}) {
    const Advice advice = follower.advise(params(size * kMiB));
    if (!advice.place) continue;  // alone in its length
    for (const Interval& other : placed) EXPECT_FALSE(overlaps(*advice.place, other));
    placed.push_back(*advice.place);
  }
  EXPECT_EQ(placed.size(), 4U);
}

TEST_F(PlanFollowerTest, APlanThatNoStepWasAsIsRaisedWhereItKnowsTheRequests) {
  PlanFollower follower(stack(StepShape::kVarying, 5, 16 * kMiB), kBase, policy);
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  EXPECT_TRUE(follower.advise(params(20 * kMiB)).place);
  EXPECT_EQ(follower.range().length(), 96 * kMiB);
}

TEST_F(PlanFollowerTest, APlanThatNoStepWasAsIsNotRaisedByAnotherJob) {
  PlanFollower follower(stack(StepShape::kVarying, 5, 16 * kMiB), kBase, policy);
  follower.begin_step();
  for (int i = 0; i < 3; ++i) follower.advise(params(kMiB));
  follower.advise(params(16 * kMiB));
  EXPECT_EQ(follower.advise(params(20 * kMiB)).why, Unplanned::kTooLarge);
  EXPECT_EQ(follower.range().length(), 80 * kMiB);
}

TEST_F(PlanFollowerTest, IsLaidOutForTheLongestStepOfThisRun) {
  PlanFollower follower(stack(StepShape::kVarying, 4, 16 * kMiB), kBase, policy);
  EXPECT_FALSE(follower.fit_lengths()) << "no step so far";
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(follower.advise(params(8 * kMiB)).place);
  EXPECT_FALSE(follower.fit_lengths()) << "another job may have sent them";
  follower.prove();
  EXPECT_TRUE(follower.fit_lengths());
  EXPECT_EQ(follower.range().length(), (16 + 3 * 8) * kMiB);
  EXPECT_FALSE(follower.fit_lengths()) << "it is already";
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  EXPECT_EQ(follower.advise(params(8 * kMiB)).place, (Interval{kBase + 16 * kMiB, kBase + 24 * kMiB}));
  follower.begin_step();
  follower.advise(params(16 * kMiB));
  EXPECT_TRUE(follower.advise(params(12 * kMiB)).place) << "longer, and shorter than those of the plan";
  EXPECT_EQ(follower.range().length(), (16 + 3 * 12) * kMiB);
  follower.begin_step();
  EXPECT_FALSE(follower.fit_lengths()) << "raised for good";
}

TEST_F(PlanFollowerTest, StaysAsPlannedWhereAStepWasAsLong) {
  PlanFollower follower(stack(StepShape::kVarying, 4, 16 * kMiB), kBase, policy);
  follower.prove();
  follower.begin_step();
  for (int i = 0; i < 4; ++i) follower.advise(params(16 * kMiB));
  EXPECT_FALSE(follower.fit_lengths());
  EXPECT_EQ(follower.range().length(), 64 * kMiB);
}

TEST_F(PlanFollowerTest, LaterSlotsOfOneSizeRaiseNoOthers) {
  PlanFollower follower(stack_of_two_sizes(7), kBase, policy);
  follower.prove();
  follower.begin_step();
  for (const Bytes size : {16, 8, 16}) EXPECT_TRUE(follower.advise(params(size * kMiB)).place);
  EXPECT_EQ(follower.advise(params(20 * kMiB)).why, Unplanned::kTooLarge);
  EXPECT_TRUE(follower.advise(params(32 * kMiB)).place)
      << "out of proportion: the one before may be another's";
  EXPECT_EQ(follower.advise(params(20 * kMiB)).why, Unplanned::kTooLarge);
  EXPECT_EQ(follower.range().length(), 160 * kMiB);
  EXPECT_TRUE(follower.advise(params(40 * kMiB)).place) << "two that agree are another length";
}

}  // namespace
}  // namespace stweaver
