#include "plan/core.h"

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/checked.h"
#include "plan/class_sweep.h"
#include "plan/exact.h"
#include "plan/instances.h"

namespace stweaver {
namespace {

/// Micro-batches on the first rank of a 1F1B pipeline: each keeps what its layers made until its backward,
/// whose first gradients fit only where the last layer's outputs have just been freed.
class Pipeline {
 public:
  Pipeline(std::size_t depth, std::size_t micro_batches) {
    std::vector<std::vector<std::size_t>> kept(micro_batches);
    for (std::size_t unit = 0; unit < micro_batches + depth - 1; ++unit) {
      if (unit < micro_batches) kept[unit] = forward();
      if (unit >= depth - 1) backward(kept[unit - (depth - 1)]);
    }
  }

  [[nodiscard]] const Instance& instance() const { return instance_; }

 private:
  std::size_t make(Bytes size, Time length) {
    instance_.items.push_back({.size = size, .life = {now_, now_ + length}});
    return instance_.items.size() - 1;
  }

  std::vector<std::size_t> forward() {
    std::vector<std::size_t> kept;
    const auto keep = [&](Bytes size) {
      kept.push_back(make(size, 1));
      ++now_;
    };
    keep(2);
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const Bytes size : {2, 6, 2, 2, 1, 2, 8, 8, 2, 1}) keep(size);
    }
    keep(2);
    return kept;
  }

  void backward(const std::vector<std::size_t>& kept) {
    std::size_t left = kept.size();
    const auto free_one = [&] { instance_.items[kept[--left]].life.upper = now_; };
    make(2, 6);
    ++now_;
    free_one();  // 2: what the layer sent
    make(2, 2);
    ++now_;
    free_one();  // 1 and 2: the last operation's
    free_one();
    make(8, 2);
    make(4, 1);
    ++now_;
    make(8, 2);
    ++now_;
    while (left > 0) {
      free_one();
      make(2, 1);
      ++now_;
    }
  }

  static constexpr int kLayers = 4;

  Instance instance_;
  Time now_ = 0;
};

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
  for (Time i = 0; i < 3; ++i) instance.items.push_back({.size = kExactCapacity / 2 + 1, .life = {i, i + 2}});
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
