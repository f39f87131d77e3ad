#include "runtime/layout.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace stweaver {
namespace {

constexpr std::size_t kArena = 200;

std::int64_t pick(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

Plan some_plan(std::mt19937& random, std::size_t prologue, std::size_t step) {
  Plan plan;
  plan.prologue = prologue;
  for (std::size_t i = 0; i < prologue + step; ++i) {
    const Bytes size = pick(random, 1, 5);
    const bool is_planned = pick(random, 0, 4) > 0;
    plan.slots.push_back(
        {.size = size, .offset = is_planned ? pick(random, 0, Bytes{kArena} - size) : kUnplanned});
  }
  return plan;
}

using Taken = std::vector<bool>;

void take(Taken& taken, const Interval& range) {
  for (Bytes at = range.lower; at < range.upper; ++at) taken[static_cast<std::size_t>(at)] = true;
}

/// Byte by byte, slot after slot; the step again and again.
Taken by_looking_at_each(const Plan& plan, std::size_t slot, Time death) {
  Taken taken(kArena);
  const std::size_t step = plan.slots.size() - plan.prologue;
  for (std::size_t born = slot + 1; static_cast<Time>(born) < death; ++born) {
    const bool is_later = born >= plan.slots.size();
    const Slot& next = plan.slots[is_later ? plan.prologue + (born - plan.prologue) % step : born];
    if (next.offset != kUnplanned) take(taken, {next.offset, next.offset + next.size});
  }
  return taken;
}

TEST(Layout, UsesThePlacesOfTheSlotsInBetween) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const auto prologue = static_cast<std::size_t>(pick(random, 0, 70));
    const auto step = static_cast<std::size_t>(pick(random, 1, 200));
    const Plan plan = some_plan(random, prologue, step);
    const Layout layout(plan);
    for (int request = 0; request < 40; ++request) {
      const auto slot = static_cast<std::size_t>(pick(random, 0, static_cast<Time>(prologue + step) - 1));
      const Time death = static_cast<Time>(slot) + pick(random, 0, 2 * static_cast<Time>(step));
      std::vector<Interval> ranges = {{3, 4}};
      layout.used_between(slot, death, ranges);
      Taken taken(kArena);
      for (const Interval& range : ranges) take(taken, range);
      EXPECT_EQ(taken, by_looking_at_each(plan, slot, death)) << "slot " << slot << " until " << death;
      for (std::size_t i = 1; i < ranges.size(); ++i) EXPECT_LT(ranges[i - 1].upper, ranges[i].lower);
    }
  }
}

TEST(Layout, UsesTheWholeStepWhileSomethingLivesForEver) {
  std::mt19937 random(2);
  const Plan plan = some_plan(random, 5, 100);
  std::vector<Interval> ranges;
  Layout(plan).used_between(104, kForever, ranges);
  Taken taken(kArena);
  for (const Interval& range : ranges) take(taken, range);
  EXPECT_EQ(taken, by_looking_at_each(plan, 104, 205));
}

TEST(Layout, OfAShorterStepKeepsWhatDoesNotGrowWithIt) {
  Plan plan;
  plan.slots = {{.size = 1024, .offset = 0, .varying = true, .power = 1},
                {.size = 1024, .offset = 1024, .varying = true, .power = 2},
                {.size = 1024, .offset = 2048, .varying = true}};
  const Layout shorter(plan, {0.5});
  EXPECT_EQ(shorter.size_of(0), 512);
  EXPECT_EQ(shorter.size_of(1), 512) << "a quarter, in whole units of alignment";
  EXPECT_EQ(shorter.size_of(2), 1024) << "it may have come to its largest in a shorter step, too";
  const Layout longer(plan, {2.0});
  EXPECT_EQ(longer.size_of(0), 2048);
  EXPECT_EQ(longer.size_of(1), 4096);
  EXPECT_EQ(longer.size_of(2), 2048) << "nobody knows";
}

TEST(Layout, OfAStepThatIsLongerByOneOfItsLengthsKeepsWhatFollowsTheOther) {
  Plan plan;
  plan.slots = {{.size = 1024, .offset = 0, .death = 3, .varying = true, .power = 1},
                {.size = 1024, .offset = 1024, .death = 3, .varying = true, .length = 1, .power = 1},
                {.size = 1024, .offset = 2048, .death = 3, .varying = true, .power = 1}};
  const Layout layout(plan, {1.0, 1.5});
  EXPECT_EQ(layout.place_of(0), (Interval{0, 1024}));
  EXPECT_EQ(layout.place_of(1), (Interval{1024, 2560}));
  EXPECT_EQ(layout.place_of(2), (Interval{2560, 3584}));
}

TEST(Layout, OfVeryManyStreamsIsMadeAtOnceAndHandsAllOver) {
  Plan plan;
  constexpr std::uint32_t kSlots = 100'000;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    plan.slots.push_back({.size = 1, .offset = i, .stream = i, .death = Time{kSlots}});
    ++plan.arena;
  }
  const Layout layout(plan);
  EXPECT_TRUE(layout.hands_over(0));
  EXPECT_TRUE(layout.hands_over(kSlots - 1));
}

}  // namespace
}  // namespace stweaver
