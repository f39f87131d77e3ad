#include "plan/ring.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "plan/checked.h"
#include "plan/instances.h"
#include "plan/squeaky_wheel.h"

namespace stweaver {
namespace {

NextFrame rings_at_the_bound(const Instance& instance) {
  return rings_of(instance, gap_classes(instance, 1), lower_bound_of(instance));
}

/// The best of some sweeps around a ring.
Bytes peak_around(const Instance& instance, const Placement& ring) {
  const Bytes bound = lower_bound_of(instance);
  SqueakyWheel wheel(instance, std::make_shared<const BirthOrder>(birth_order(instance, false)),
                     duration_classes(instance, 8, 1), {}, bound, ring);
  Bytes peak = std::numeric_limits<Bytes>::max();
  for (int round = 0; round < 6 && peak > bound; ++round) {
    const std::optional<Placement> placement = wheel.step(Budget());
    if (!placement) break;
    expect_sound(instance, *placement);
    peak = std::min(peak, peak_of(instance, *placement));
  }
  return peak;
}

TEST(Ring, TakesAPipelineToItsBoundHoweverManyMicroBatchesFollow) {
  for (const std::size_t depth : {3U, 4U, 7U}) {
    for (const std::size_t micro_batches : {2 * depth, 5 * depth + 1, 12 * depth}) {
      const Pipeline pipeline(depth, micro_batches);
      const Instance& instance = pipeline.instance();
      const NextFrame next = rings_at_the_bound(instance);
      Bytes peak = std::numeric_limits<Bytes>::max();
      for (int rings = 0; rings < 40 && peak > lower_bound_of(instance); ++rings) {
        const std::optional<Placement> ring = next();
        ASSERT_TRUE(ring) << depth << " " << micro_batches;
        peak = std::min(peak, peak_around(instance, *ring));
      }
      EXPECT_EQ(peak, lower_bound_of(instance)) << depth << " " << micro_batches;
    }
  }
}

TEST(Ring, HoldsAllThatLivesLongWhereTheCutLosesNothing) {
  const Pipeline pipeline(4, 40);
  const Instance& instance = pipeline.instance();
  const Classes classes = gap_classes(instance, 1);
  const std::optional<Placement> ring = rings_at_the_bound(instance)();
  ASSERT_TRUE(ring);
  for (std::size_t i = 0; i < classes.size(); ++i) EXPECT_EQ((*ring)[i] != kNowhere, classes[i] == 0) << i;
}

TEST(Ring, HoldsNothingInTwoPlacesAtATime) {
  std::size_t rings = 0;
  for_each_instance(plain_shapes(), [&](const Instance& instance) {
    const Bytes bound = lower_bound_of(instance);
    for (const std::size_t cuts : {0U, 1U, 3U}) {
      for (const Bytes capacity : {bound, bound + bound / 3, 2 * bound}) {
        const Classes classes = gap_classes(instance, cuts);
        const NextFrame next = rings_of(instance, classes, capacity);
        while (const std::optional<Placement> ring = next()) {
          ++rings;
          for (std::size_t i = 0; i < ring->size(); ++i) {
            if ((*ring)[i] == kNowhere) continue;
            const Item& item = instance.items[i];
            EXPECT_EQ(classes[i], 0);
            EXPECT_GE((*ring)[i], 0);
            EXPECT_LE((*ring)[i] + item.size + item.above, capacity);
          }
          const std::optional<Placement> all = class_sweep_around(instance, *ring, classes, Budget());
          expect_sound(instance, all);
        }
      }
    }
  });
  EXPECT_GT(rings, 0U);
}

TEST(Ring, ComesOutTheSameEveryTime) {
  const Pipeline pipeline(4, 30);
  const NextFrame one = rings_at_the_bound(pipeline.instance());
  const NextFrame other = rings_at_the_bound(pipeline.instance());
  for (int rings = 0; rings < 20; ++rings) EXPECT_EQ(one(), other());
}

TEST(Ring, IsNoneWhereNothingGoesRound) {
  Random random(1);
  const Instance instance = nested(random);
  EXPECT_FALSE(rings_of(instance, Classes(instance.items.size(), 0), lower_bound_of(instance))());
  EXPECT_FALSE(rings_at_the_bound({})());
}

TEST(Ring, IsNoneWhereTheOldestLiveOn) {
  Instance instance;  // every other one lives through all that follow
  for (Time i = 0; i < 60; ++i)
    instance.items.push_back({.size = 1, .life = {i, i % 2 == 0 ? 200 - i : i + 3}});
  EXPECT_FALSE(rings_of(instance, Classes(instance.items.size(), 0), lower_bound_of(instance))());
}

TEST(Ring, IsNoneOnALineWhoseLengthCouldOverflow) {
  Instance instance;
  for (Time i = 0; i < 64; ++i) instance.items.push_back({.size = Bytes{1} << 58U, .life = {i, i + 2}});
  EXPECT_FALSE(rings_of(instance, Classes(instance.items.size(), 0), lower_bound_of(instance))());
}

TEST(Ring, IsNoneWhenItGoesRoundTooOften) {
  Instance instance;
  for (Time i = 0; i < 3000; ++i) instance.items.push_back({.size = 1, .life = {i, i + 2}});
  EXPECT_FALSE(rings_of(instance, Classes(instance.items.size(), 0), 2)());
  EXPECT_TRUE(rings_of(instance, Classes(instance.items.size(), 0), 4)());
}

}  // namespace
}  // namespace stweaver
