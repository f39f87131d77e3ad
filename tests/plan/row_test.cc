#include "plan/row.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "plan/checked.h"
#include "plan/instances.h"
#include "plan/ring.h"
#include "plan/squeaky_wheel.h"

namespace stweaver {
namespace {

NextFrame rows_at_the_bound(const Instance& instance) {
  return rows_of(instance, gap_classes(instance, 1), lower_bound_of(instance));
}

/// The best that sweeps around rows reach.
Bytes best_peak(const Instance& instance) {
  const Bytes bound = lower_bound_of(instance);
  const NextFrame next = rows_at_the_bound(instance);
  Bytes peak = std::numeric_limits<Bytes>::max();
  while (const std::optional<Placement> row = next()) {
    SqueakyWheel wheel(instance, std::make_shared<const BirthOrder>(birth_order(instance, false)),
                       duration_classes(instance, 8, 1), {}, bound, *row);
    for (int round = 0; round < 6 && peak > bound; ++round) {
      const std::optional<Placement> placement = wheel.step(Budget());
      if (!placement) break;
      expect_sound(instance, *placement);
      peak = std::min(peak, peak_of(instance, *placement));
    }
  }
  return peak;
}

TEST(Row, TakesAnInterleavedPipelineToItsBoundWhereThereIsNoRing) {
  for (const std::size_t depth : {2U, 3U, 4U, 6U}) {
    for (const std::size_t chunks : {2U, 3U, 4U}) {
      const Pipeline pipeline(depth, 5 * depth, chunks);
      const Instance& instance = pipeline.instance();
      const Bytes bound = lower_bound_of(instance);
      EXPECT_FALSE(rings_of(instance, gap_classes(instance, 1), bound)()) << depth << " " << chunks;
      EXPECT_EQ(best_peak(instance), bound) << depth << " " << chunks;
    }
  }
}

TEST(Row, TakesAPlainPipelineToItsBoundToo) {
  const Pipeline pipeline(4, 20);
  EXPECT_EQ(best_peak(pipeline.instance()), lower_bound_of(pipeline.instance()));
}

TEST(Row, HoldsAllThatLivesLong) {
  const Pipeline pipeline(4, 20, 4);
  const Instance& instance = pipeline.instance();
  const Classes classes = gap_classes(instance, 1);
  const std::optional<Placement> row = rows_at_the_bound(instance)();
  ASSERT_TRUE(row);
  for (std::size_t i = 0; i < classes.size(); ++i) EXPECT_EQ((*row)[i] != kNowhere, classes[i] == 0) << i;
}

TEST(Row, LosesLittleWhereSizesDoNotAddUpExactly) {
  Instance instance = Pipeline(4, 20, 4).instance();
  for (Item& item : instance.items) item.size = 1000 * item.size + (item.size == 1 ? 1 : 0);
  const Bytes bound = lower_bound_of(instance);
  EXPECT_LE(best_peak(instance), bound + bound / 4096);
}

TEST(Row, HoldsNothingInTwoPlacesAtATime) {
  std::size_t rows = 0;
  const auto test = [&](const Instance& instance) {
    const Bytes bound = lower_bound_of(instance);
    for (const std::size_t cuts : {0U, 1U, 3U}) {
      for (const Bytes capacity : {bound, bound + bound / 3, 2 * bound}) {
        const Classes classes = gap_classes(instance, cuts);
        const NextFrame next = rows_of(instance, classes, capacity);
        while (const std::optional<Placement> row = next()) {
          ++rows;
          for (std::size_t i = 0; i < row->size(); ++i) {
            if ((*row)[i] == kNowhere) continue;
            const Item& item = instance.items[i];
            EXPECT_EQ(classes[i], 0);
            EXPECT_GE((*row)[i], 0);
            EXPECT_LE((*row)[i] + item.size + item.above, capacity + capacity / 4096);
          }
          const std::optional<Placement> all = class_sweep_around(instance, *row, classes, Budget());
          expect_sound(instance, all);
        }
      }
    }
  };
  for_each_instance(plain_shapes(), test);
  test(Pipeline(3, 12, 2).instance());
  EXPECT_GT(rows, 0U);
}

TEST(Row, ComesOutTheSameEveryTime) {
  const Pipeline pipeline(4, 20, 4);
  const NextFrame one = rows_at_the_bound(pipeline.instance());
  const NextFrame other = rows_at_the_bound(pipeline.instance());
  for (int rows = 0; rows < 20; ++rows) EXPECT_EQ(one(), other());
}

TEST(Row, IsNoneWhereNobodyFollows) {
  Random random(1);
  const Instance instance = nested(random);
  EXPECT_FALSE(rows_of(instance, Classes(instance.items.size(), 0), lower_bound_of(instance))());
  EXPECT_FALSE(rows_at_the_bound({})());
}

TEST(Row, IsNoneWhereMoreFollowThanThereArePiecesFor) {
  EXPECT_TRUE(rows_at_the_bound(Pipeline(2, 8, 2).instance())());
  EXPECT_FALSE(rows_at_the_bound(Pipeline(2, 400, 2).instance())());
}

}  // namespace
}  // namespace stweaver
