#include "pareto/indicators.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "pareto/random.h"
#include "support/points.h"

namespace stweaver::pareto {
namespace {

TEST(InvertedGenerationalDistance, IsTheMeanDistanceToTheNearest) {
  const Points front = points_of({{0, 0}, {3, 4}, {6, 8}});
  EXPECT_DOUBLE_EQ(inverted_generational_distance(front, front), 0);
  EXPECT_DOUBLE_EQ(inverted_generational_distance(front, points_of({{0, 0}})), (0 + 5 + 10) / 3.0);
  EXPECT_DOUBLE_EQ(inverted_generational_distance(front, points_of({{0, 0}, {6, 7}})),
                   (0 + std::sqrt(18) + 1) / 3);
}

TEST(InvertedGenerationalDistance, RefusesWhatCannotBeCompared) {
  EXPECT_THROW(inverted_generational_distance(Points(2), points_of({{1, 1}})), Error);
  EXPECT_THROW(inverted_generational_distance(points_of({{1, 1}}), Points(2)), Error);
  EXPECT_THROW(inverted_generational_distance(points_of({{1, 1}}), points_of({{1, 1, 1}})), Error);
}

TEST(Hypervolume, IsTheVolumeBelowTheReference) {
  const std::vector<double> reference = {4, 4};
  EXPECT_DOUBLE_EQ(hypervolume(points_of({{1, 3}, {2, 2}, {3, 1}}), reference), 3 + 2 + 1);
  EXPECT_DOUBLE_EQ(hypervolume(points_of({{2, 2}, {2, 2}, {3, 3}}), reference), 4);
  EXPECT_DOUBLE_EQ(hypervolume(points_of({{2, 4}, {5, 0}}), reference), 0);
  EXPECT_DOUBLE_EQ(hypervolume(Points(2), reference), 0);
  EXPECT_DOUBLE_EQ(hypervolume(points_of({{1}, {3}}), std::vector<double>{4}), 3);
  // Two boxes of 4 and 3 that share 2.
  EXPECT_DOUBLE_EQ(hypervolume(points_of({{0, 0, 3}, {1, 1, 1}}), std::vector<double>{2, 2, 4}), 4 + 3 - 1);
}

TEST(Hypervolume, OfASimplexIsKnown) {
  // One point at 0 but for one objective, for each: all that is outside is the cube above all of them.
  for (const std::size_t dimension : {3U, 4U, 5U}) {
    Points points(dimension);
    for (std::size_t k = 0; k < dimension; ++k) {
      std::vector<double> point(dimension, 0);
      point[k] = 0.75;
      points.add(point);
    }
    const std::vector<double> reference(dimension, 1);
    EXPECT_NEAR(hypervolume(points, reference), 1 - std::pow(0.75, dimension), 1e-12);
  }
}

TEST(Hypervolume, AgreesWithItsEstimate) {
  Random random(1);
  for (const std::size_t dimension : {3U, 5U}) {
    Points points(dimension);
    points.resize(30);
    for (std::size_t i = 0; i < points.size(); ++i) {
      for (double& value : points[i]) value = random.uniform();
    }
    const std::vector<double> reference(dimension, 1.1);
    // Five standard errors at most.
    EXPECT_NEAR(estimate_hypervolume(points, reference, 100'000), hypervolume(points, reference),
                5 * 0.5 * std::pow(1.1, dimension) / std::sqrt(100'000));
  }
}

TEST(Hypervolume, RefusesAReferenceOfAnotherDimension) {
  EXPECT_THROW(hypervolume(points_of({{1, 1}}), std::vector<double>{2, 2, 2}), Error);
  EXPECT_THROW(estimate_hypervolume(points_of({{1, 1}}), std::vector<double>{2, 2}, 0), Error);
}

}  // namespace
}  // namespace stweaver::pareto
