#include "plan/row.h"

#include <cstddef>

#include <gtest/gtest.h>

#include "plan/ring.h"
#include "support/frames.h"

namespace stweaver {
namespace {

constexpr Bytes kLost = 4096;  ///< the share of the capacity that rows may lose

TEST(Row, TakesAnInterleavedPipelineToItsBoundWhereThereIsNoRing) {
  for (const std::size_t depth : {2U, 3U, 4U, 6U}) {
    for (const std::size_t chunks : {2U, 3U, 4U}) {
      const Pipeline pipeline(depth, 5 * depth, chunks);
      const Instance& instance = pipeline.instance();
      const Bytes bound = lower_bound_of(instance);
      EXPECT_FALSE(rings_of(instance, gap_classes(instance, 1), bound)()) << depth << " " << chunks;
      EXPECT_EQ(best_peak(rows_of, instance), bound) << depth << " " << chunks;
    }
  }
}

TEST(Row, TakesAPlainPipelineToItsBoundToo) {
  const Pipeline pipeline(4, 20);
  EXPECT_EQ(best_peak(rows_of, pipeline.instance()), lower_bound_of(pipeline.instance()));
}

TEST(Row, HoldsAllThatLivesLong) {
  expect_all_that_lives_long(rows_of, Pipeline(4, 20, 4).instance());
}

TEST(Row, LosesLittleWhereSizesDoNotAddUpExactly) {
  Instance instance = Pipeline(4, 20, 4).instance();
  for (Item& item : instance.items) item.size = 1000 * item.size + (item.size == 1 ? 1 : 0);
  const Bytes bound = lower_bound_of(instance);
  EXPECT_LE(best_peak(rows_of, instance), bound + bound / kLost);
}

TEST(Row, HoldsNothingInTwoPlacesAtATime) {
  std::size_t rows = 0;
  for_each_instance(plain_shapes(),
                    [&](const Instance& instance) { rows += expect_sound_frames(rows_of, instance, kLost); });
  rows += expect_sound_frames(rows_of, Pipeline(3, 12, 2).instance(), kLost);
  EXPECT_GT(rows, 0U);
}

TEST(Row, ComesOutTheSameEveryTime) {
  expect_the_same_every_time(rows_of, Pipeline(4, 20, 4).instance());
}

TEST(Row, IsNoneWhereNobodyFollows) {
  Random random(1);
  const Instance instance = nested(random);
  EXPECT_FALSE(rows_of(instance, Classes(instance.items.size(), 0), lower_bound_of(instance))());
  EXPECT_FALSE(at_the_bound(rows_of, {})());
}

TEST(Row, IsNoneWhereMoreFollowThanThereArePiecesFor) {
  EXPECT_TRUE(at_the_bound(rows_of, Pipeline(2, 8, 2).instance())());
  EXPECT_FALSE(at_the_bound(rows_of, Pipeline(2, 400, 2).instance())());
}

}  // namespace
}  // namespace stweaver
