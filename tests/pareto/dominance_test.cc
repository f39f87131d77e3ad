#include "pareto/dominance.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pareto/random.h"
#include "support/points.h"

namespace stweaver::pareto {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Points of few values, so that some are equal and some objectives of others are.
Points random_points(std::size_t count, std::size_t dimension, std::size_t values, Random& random) {
  Points points(dimension);
  points.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (double& value : points[i]) value = static_cast<double>(random.below(values));
  }
  return points;
}

/// Fronts by the definition: peel off who is not dominated.
std::vector<std::size_t> peeled_fronts(const Points& points) {
  constexpr std::size_t kNone = 1'000'000;
  std::vector<std::size_t> fronts(points.size(), kNone);
  const auto is_free = [&](std::size_t i, std::size_t front) {
    for (std::size_t j = 0; j < points.size(); ++j) {
      if (fronts[j] >= front && dominates(points[j], points[i])) return false;
    }
    return true;
  };
  for (std::size_t front = 0; std::find(fronts.begin(), fronts.end(), kNone) != fronts.end(); ++front) {
    std::vector<std::size_t> free;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (fronts[i] == kNone && is_free(i, front)) free.push_back(i);
    }
    for (const std::size_t i : free) fronts[i] = front;
  }
  return fronts;
}

TEST(Dominates, MeansNowhereAboveAndSomewhereBelow) {
  const Points points = points_of({{1, 2, 3}, {1, 2, 4}, {0, 9, 3}});
  EXPECT_TRUE(dominates(points[0], points[1]));
  EXPECT_FALSE(dominates(points[1], points[0]));
  EXPECT_FALSE(dominates(points[0], points[0]));
  EXPECT_FALSE(dominates(points[0], points[2]));
  EXPECT_FALSE(dominates(points[2], points[0]));
}

TEST(Nondominated, KeepsAllOfEqualPoints) {
  EXPECT_THAT(nondominated(points_of({{2, 2}, {1, 3}, {2, 2}, {3, 1}, {2, 3}})), ElementsAre(0, 1, 2, 3));
}

TEST(Nondominated, OfNothingIsNothing) {
  EXPECT_THAT(nondominated(Points(3)), IsEmpty());
  EXPECT_THAT(nondominated_fronts(Points(3)), IsEmpty());
}

TEST(NondominatedFronts, AreThoseOfTheDefinition) {
  Random random(1);
  for (const std::size_t dimension : {1U, 2U, 3U, 5U, 15U}) {
    for (const std::size_t values : {2U, 4U, 1000U}) {
      const Points points = random_points(120, dimension, values, random);
      const std::vector<std::size_t> expected = peeled_fronts(points);
      EXPECT_EQ(nondominated_fronts(points), expected) << dimension << " objectives, " << values << " values";
      std::vector<std::size_t> first;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (expected[i] == 0) first.push_back(i);
      }
      EXPECT_EQ(nondominated(points), first) << dimension << " objectives, " << values << " values";
    }
  }
}

}  // namespace
}  // namespace stweaver::pareto
