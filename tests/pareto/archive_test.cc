#include "pareto/archive.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pareto/dominance.h"
#include "pareto/maoea_cs.h"
#include "pareto/points.h"
#include "pareto/random.h"
#include "pareto/random_search.h"

namespace stweaver::pareto {
namespace {

TEST(Archive, HoldsWhatSortingAllPointsFinds) {
  Random random(3);
  Points points(3);
  Archive<std::size_t> archive;
  for (std::size_t i = 0; i < 500; ++i) {
    const std::vector<double> point = {static_cast<double>(random.below(20)),
                                       static_cast<double>(random.below(20)),
                                       static_cast<double>(random.below(20))};
    points.add(point);
    archive.offer(point, i);
  }
  std::vector<std::vector<double>> expected;
  for (const std::size_t i : nondominated(points)) expected.emplace_back(points[i].begin(), points[i].end());
  std::sort(expected.begin(), expected.end());
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  std::vector<std::vector<double>> kept;
  for (const auto& entry : archive.entries()) {
    kept.push_back(entry.objectives);
    EXPECT_TRUE(std::equal(entry.objectives.begin(), entry.objectives.end(), points[entry.payload].begin()));
  }
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(kept, expected);
}

TEST(Archive, KeepsTheLastOfEqualPoints) {
  Archive<int> archive;
  EXPECT_TRUE(archive.offer(std::vector<double>{1, 2}, 1));
  EXPECT_TRUE(archive.offer(std::vector<double>{1, 2}, 2));
  ASSERT_EQ(archive.entries().size(), 1U);
  EXPECT_EQ(archive.entries().front().payload, 2);
}

/// Two integers; feasible where their sum is at least 30; the front is where it is 30.
Problem line() {
  return {.variables = {integer_variable(0, 100), integer_variable(0, 100)},
          .objectives = 2,
          .evaluate = [](std::span<const double> x, std::span<double> f) {
            f[0] = x[0];
            f[1] = x[1];
            return std::max(0.0, 30 - x[0] - x[1]);
          }};
}

TEST(SearchArchive, HasFeasiblePointsThatNothingSeenDominatesMoreThanThePopulation) {
  const SearchOptions options{.evaluations = 4000, .population = 8, .threads = 1, .archive = true};
  for (const auto& search : {minimize, random_search}) {
    const SearchResult result = search(line(), options);
    EXPECT_GT(result.archive.size(), result.population.size());
    for (const Solution& solution : result.archive) {
      EXPECT_EQ(solution.violation, 0);
      EXPECT_GE(solution.variables[0] + solution.variables[1], 30);
    }
  }
  EXPECT_TRUE(minimize(line(), {.evaluations = 100}).archive.empty());
}

}  // namespace
}  // namespace stweaver::pareto
