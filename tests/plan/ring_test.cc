#include "plan/ring.h"

#include <cstddef>
#include <limits>

#include <gtest/gtest.h>

#include "support/frames.h"

namespace stweaver {
namespace {

TEST(Ring, TakesAPipelineToItsBoundHoweverManyMicroBatchesFollow) {
  for (const std::size_t depth : {3U, 4U, 7U}) {
    for (const std::size_t micro_batches : {2 * depth, 5 * depth + 1, 12 * depth}) {
      const Pipeline pipeline(depth, micro_batches);
      EXPECT_EQ(best_peak(rings_of, pipeline.instance()), lower_bound_of(pipeline.instance()))
          << depth << " " << micro_batches;
    }
  }
}

TEST(Ring, HoldsAllThatLivesLongWhereTheCutLosesNothing) {
  expect_all_that_lives_long(rings_of, Pipeline(4, 40).instance());
}

TEST(Ring, HoldsNothingInTwoPlacesAtATime) {
  std::size_t rings = 0;
  for_each_instance(plain_shapes(), [&](const Instance& instance) {
    rings += expect_sound_frames(rings_of, instance, std::numeric_limits<Bytes>::max());
  });
  EXPECT_GT(rings, 0U);
}

TEST(Ring, ComesOutTheSameEveryTime) {
  expect_the_same_every_time(rings_of, Pipeline(4, 30).instance());
}

TEST(Ring, IsNoneWhereNothingGoesRound) {
  Random random(1);
  const Instance instance = nested(random);
  EXPECT_FALSE(rings_of(instance, Classes(instance.items.size(), 0), lower_bound_of(instance))());
  EXPECT_FALSE(at_the_bound(rings_of, {})());
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
