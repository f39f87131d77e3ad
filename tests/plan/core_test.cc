#include "plan/core.h"

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/class_sweep.h"
#include "plan/exact.h"
#include "support/checked.h"
#include "support/instances.h"

namespace stweaver {
namespace {

constexpr std::int64_t kSteps = 3'000'000;

CoreOptions at_the_bound(const Instance& instance, Bytes slack) {
  return {.capacity = lower_bound_of(instance), .slack = slack, .steps = kSteps};
}

TEST(Core, PlacesAPipelineAtItsBound) {
  for (const std::size_t micro_batches : {8U, 12U, 16U}) {
    const Pipeline pipeline(4, micro_batches);
    const Instance& instance = pipeline.instance();
    const std::optional<Placement> placement = core_first(instance, at_the_bound(instance, 4), Budget());
    ASSERT_TRUE(placement) << micro_batches;
    expect_sound(instance, *placement);
    EXPECT_EQ(peak_of(instance, *placement), lower_bound_of(instance)) << micro_batches;
  }
}

TEST(Core, PlacesEveryInstanceSoundlyOrNotAtAll) {
  std::size_t placed = 0;
  for_each_instance(plain_shapes(), [&](const Instance& instance) {
    const Bytes bound = lower_bound_of(instance);
    for (const Bytes slack : {Bytes{0}, bound / 8, bound}) {
      const CoreOptions options{.capacity = bound + bound / 4, .slack = slack, .steps = kSteps / 30};
      const std::optional<Placement> placement = core_first(instance, options, Budget());
      EXPECT_EQ(core_first(instance, options, Budget()), placement);
      if (!placement) continue;
      expect_sound(instance, *placement);
      ++placed;
    }
  });
  EXPECT_GT(placed, 0U);
}

TEST(Core, GivesUpWithoutStepsOrTime) {
  const Pipeline pipeline(4, 12);
  const Instance& instance = pipeline.instance();
  EXPECT_FALSE(core_first(instance, {.capacity = lower_bound_of(instance), .slack = 4}, Budget()));
  EXPECT_FALSE(
      core_first(instance, at_the_bound(instance, 4), {.deadline = Clock::now() - std::chrono::seconds(1)}));
}

TEST(Core, GivesUpWhereNothingFits) {
  const Pipeline pipeline(4, 12);
  const Instance& instance = pipeline.instance();
  const CoreOptions options{.capacity = lower_bound_of(instance) - 1, .slack = 4, .steps = kSteps};
  EXPECT_FALSE(core_first(instance, options, Budget()));
}

TEST(Core, RefusesCapacitiesWhoseSumsCouldOverflow) {
  Instance instance;
  for (Time i = 0; i < 3; ++i) instance.items.push_back({.size = kMostMemory / 2 + 1, .life = {i, i + 2}});
  EXPECT_FALSE(core_first(instance, at_the_bound(instance, 1), Budget()));
}

TEST(ClassSweep, LeavesWhatIsFixedWhereItIs) {
  for_each_instance(plain_shapes(), [](const Instance& instance) {
    const Classes classes = duration_classes(instance, 4, 1);
    const std::optional<Placement> all = class_sweep(instance, classes, {}, Budget());
    ASSERT_TRUE(all);
    Placement fixed = *all;
    for (std::size_t i = 0; i < fixed.size(); i += 2) fixed[i] = kNowhere;
    const std::optional<Placement> placement =
        class_sweep_around(instance, fixed, gap_classes(instance, 1), Budget());
    expect_sound(instance, placement);
    for (std::size_t i = 1; i < fixed.size(); i += 2) EXPECT_EQ((*placement)[i], fixed[i]);
  });
}

}  // namespace
}  // namespace stweaver
