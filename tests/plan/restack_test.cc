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

}  // namespace
}  // namespace stweaver
