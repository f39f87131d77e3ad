#include "plan/restack.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/checked.h"
#include "support/job.h"

namespace stweaver {
namespace {

using testing::IsEmpty;

/// The plan of a step whose sizes follow its length, micro-batches and a second stream included.
Plan plan_of_lengths(Stream side_stream = 0, bool step_only = true) {
  Training training({.layers = 8, .micro_batches = 2, .side_stream = side_stream});
  for (const Bytes scale : {8, 12, 5, 16, 9, 7}) training.step(scale);
  return checked_plan(training.job.trace(), {.step_only = step_only});
}

std::vector<Bytes> sizes_of(const Plan& plan, double share) {
  std::vector<Bytes> sizes;
  for (const Slot& slot : plan.slots) {
    const auto larger = static_cast<Bytes>(share * static_cast<double>(slot.size));
    sizes.push_back(slot.varying ? align_up(larger, plan.alignment) : slot.size);
  }
  return sizes;
}

Plan with(Plan plan, const std::vector<Bytes>& sizes, const std::vector<Bytes>& offsets) {
  plan.arena = 0;
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    plan.slots[i].size = sizes[i];
    plan.slots[i].offset = offsets[i];
    plan.arena = std::max(plan.arena, offsets[i] + sizes[i]);
  }
  return plan;
}

TEST(Restack, OfThePlansOwnSizesLiesNoHigher) {
  for (const Stream side_stream : {Stream{0}, Stream{7}}) {
    const Plan plan = plan_of_lengths(side_stream);
    const std::vector<Bytes> sizes = sizes_of(plan, 1);
    const Plan again = with(plan, sizes, restacked(plan, sizes));
    EXPECT_THAT(check_plan(again), IsEmpty());
    EXPECT_LE(again.arena, plan.arena);
  }
}

TEST(Restack, IsSoundForLongerSteps) {
  for (const Stream side_stream : {Stream{0}, Stream{7}}) {
    const Plan plan = plan_of_lengths(side_stream);
    for (const double share : {1.003, 1.1, 1.7, 2.5}) {
      const std::vector<Bytes> sizes = sizes_of(plan, share);
      const Plan longer = with(plan, sizes, restacked(plan, sizes));
      EXPECT_THAT(check_plan(longer), IsEmpty()) << share;
      const auto most = static_cast<Bytes>(1.1 * share * static_cast<double>(plan.arena));
      EXPECT_LE(longer.arena, most) << share;
    }
  }
}

TEST(Restack, PutsTheStepAboveWhatLivesForEver) {
  const Plan plan = plan_of_lengths(0, false);
  Bytes persistent = 0;
  for (std::size_t i = 0; i < plan.prologue; ++i) {
    const Slot& slot = plan.slots[i];
    if (slot.death == kForever) persistent = std::max(persistent, slot.offset + slot.size);
  }
  ASSERT_GT(persistent, 0);
  const std::vector<Bytes> offsets = restacked(plan, sizes_of(plan, 1.5));
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    if (i < plan.prologue) {
      EXPECT_EQ(offsets[i], plan.slots[i].offset) << i;
    } else {
      EXPECT_TRUE(offsets[i] == kUnplanned || offsets[i] >= persistent) << i;
    }
  }
}

/// Slots that live when slot `next` is born: those before it, and those of the step before.
bool lives_at(const Plan& plan, std::size_t slot, std::size_t next) {
  const auto step = static_cast<Time>(plan.slots.size() - plan.prologue);
  const Time death = plan.slots[slot].death - (slot < next ? 0 : step);
  return death > static_cast<Time>(next);
}

/// No slot from `next` on meets, before the step ends, another one of them or what lived before.
void expect_apart(const Plan& plan, const std::vector<Interval>& before, const std::vector<Interval>& after,
                  std::size_t next) {
  const auto step = static_cast<Time>(plan.slots.size());
  for (std::size_t i = next; i < plan.slots.size(); ++i) {
    for (std::size_t j = 0; j < plan.slots.size(); ++j) {
      const Time death = j < next ? plan.slots[j].death : plan.slots[j].death - step;
      if (lives_at(plan, j, next) && death > static_cast<Time>(i)) {
        EXPECT_FALSE(overlaps(before[j], after[i])) << i << " and " << j << ", which lives";
      }
      const bool is_alive = j >= next && j < i && plan.slots[j].death > static_cast<Time>(i);
      if (is_alive) {
        EXPECT_FALSE(overlaps(after[j], after[i])) << i << " and " << j;
      }
    }
  }
}

TEST(Restack, InAStepLeavesWhatLivesInItsPlace) {
  const Plan plan = plan_of_lengths();
  ASSERT_EQ(plan.prologue, 0U);
  std::vector<Interval> before;
  for (const Slot& slot : plan.slots) before.push_back({slot.offset, slot.offset + slot.size});
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const std::size_t next = random() % plan.slots.size();
    const std::vector<Bytes> sizes = sizes_of(plan, 1.0 + 0.05 * (round % 7 + 1));
    const std::vector<Bytes> offsets = restacked(plan, sizes, before, static_cast<std::uint32_t>(next));
    std::vector<Interval> after;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      if (i < next) {
        EXPECT_EQ(offsets[i], plan.slots[i].offset);
      }
      after.push_back({offsets[i], offsets[i] + sizes[i]});
    }
    expect_apart(plan, before, after, next);
  }
}

}  // namespace
}  // namespace stweaver
