#include "plan/exact_sum.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "support/instances.h"

namespace stweaver {
namespace {

/// Whether items of these sizes have a sum in [least, most].
bool has_sum(const Counts& sizes, Bytes least, Bytes most) {
  std::vector<char> reached(static_cast<std::size_t>(most) + 1, 0);
  reached[0] = 1;
  for (const auto& [size, count] : sizes) {
    for (std::size_t i = 0; i < count; ++i) {
      for (Bytes sum = most; sum >= size; --sum) {
        if (reached[static_cast<std::size_t>(sum - size)] != 0) reached[static_cast<std::size_t>(sum)] = 1;
      }
    }
  }
  return std::any_of(reached.begin() + std::max<Bytes>(0, least), reached.end(),
                     [](char is_reached) { return is_reached != 0; });
}

TEST(ExactSum, FindsOneWheneverThereIsOne) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Random random(seed);
    Counts sizes;
    for (std::int64_t i = pick(random, 0, 5); i > 0; --i)
      sizes[pick(random, 1, 40)] = static_cast<std::size_t>(pick(random, 0, 4));
    const Bytes most = pick(random, 0, 200);
    const Bytes slack = pick(random, 0, 3);
    const std::optional<Counts> found = exact_sum(sizes, most, slack);
    ASSERT_EQ(found.has_value(), has_sum(sizes, most - slack, most)) << seed;
    if (!found) continue;
    EXPECT_LE(sum_of(*found), most) << seed;
    EXPECT_GE(sum_of(*found), most - slack) << seed;
    for (const auto& [size, count] : *found) EXPECT_LE(count, sizes.at(size)) << seed;
  }
}

TEST(ExactSum, TakesTheLargestFirst) {
  EXPECT_EQ(exact_sum({{1, 9}, {2, 9}, {5, 1}}, 8), (Counts{{1, 1}, {2, 1}, {5, 1}}));
}

TEST(ExactSum, GivesUpInTime) {
  Counts sizes;
  for (Bytes size = 1; size < 2000; ++size) sizes[2 * size * size * size] = 3;
  EXPECT_FALSE(exact_sum(sizes, std::numeric_limits<Bytes>::max() / 2));
}

}  // namespace
}  // namespace stweaver
