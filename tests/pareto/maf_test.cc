#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "maf_problems.h"

namespace stweaver {
namespace {

using pareto::Points;
using pareto::Problem;
using testing::DoubleNear;
using testing::Each;
using testing::Pointwise;
using testing::SizeIs;

constexpr double kExact = 1e-12;

std::vector<double> evaluated(const Problem& problem, const std::vector<double>& x) {
  std::vector<double> f(static_cast<std::size_t>(problem.objectives));
  EXPECT_EQ(problem.evaluate(x, f), 0);
  return f;
}

double square_sum(std::span<const double> f) {
  return std::inner_product(f.begin(), f.end(), f.begin(), 0.0);
}

/// Position variables at `position`, distance variables at `distance`, both as shares of the box.
std::vector<double> point_at(const Problem& problem, double position, double distance) {
  std::vector<double> x;
  for (std::size_t i = 0; i < problem.variables.size(); ++i) {
    const double share = i + 1 < static_cast<std::size_t>(problem.objectives) ? position : distance;
    x.push_back(problem.variables[i].lower +
                (share * (problem.variables[i].upper - problem.variables[i].lower)));
  }
  return x;
}

TEST(Maf, VariablesAreAsManyAsInTheCompetition) {
  for (const auto& [number, count] : std::vector<std::pair<int, std::size_t>>{{1, 19},
                                                                              {6, 19},
                                                                              {7, 29},
                                                                              {8, 2},
                                                                              {9, 2},
                                                                              {10, 19},
                                                                              {11, 19},
                                                                              {12, 19},
                                                                              {13, 5},
                                                                              {14, 213},
                                                                              {15, 213}}) {
    EXPECT_THAT(maf_problem(number, 10).variables, SizeIs(count)) << number;
  }
  EXPECT_EQ(maf_evaluations(maf_problem(8, 10)), 100'000);
  EXPECT_EQ(maf_evaluations(maf_problem(14, 10)), 2'130'000);
}

TEST(Maf, OptimaOfMaf1To6LieOnTheirFronts) {
  for (const int m : {3, 5, 10}) {
    const auto optimum = [m](int number) {
      const Problem problem = maf_problem(number, m);
      return evaluated(problem, point_at(problem, 0.3, 0.5));
    };
    // f = 1 - p of the simplex; of the sphere, where scales and powers are taken back.
    const std::vector<double> linear = optimum(1);
    EXPECT_NEAR(std::accumulate(linear.begin(), linear.end(), 0.0), m - 1, kExact);
    EXPECT_NEAR(square_sum(optimum(2)), 1, kExact);
    std::vector<double> convex = optimum(3);
    double sum = convex.back();
    for (std::size_t k = 0; k + 1 < convex.size(); ++k) sum += std::sqrt(convex[k]);
    EXPECT_NEAR(sum, 1, kExact);
    std::vector<double> inverted = optimum(4);
    for (std::size_t k = 0; k < inverted.size(); ++k) inverted[k] = 1 - (inverted[k] / std::pow(2, k + 1));
    EXPECT_NEAR(square_sum(inverted), 1, kExact);
    std::vector<double> biased = optimum(5);
    for (std::size_t k = 0; k < biased.size(); ++k) biased[k] /= std::pow(2, static_cast<std::size_t>(m) - k);
    EXPECT_NEAR(square_sum(biased), 1, kExact);
    EXPECT_NEAR(square_sum(optimum(6)), 1, kExact);
  }
}

TEST(Maf, WorseDistancesMakeWorsePoints) {
  for (const int number : {1, 3, 4, 5, 7}) {
    const Problem problem = maf_problem(number, 5);
    const double best = number == 7 ? 0 : 0.5;
    const std::vector<double> good = evaluated(problem, point_at(problem, 0.3, best));
    const std::vector<double> bad = evaluated(problem, point_at(problem, 0.3, best + 0.25));
    EXPECT_TRUE(pareto::dominates(good, bad)) << number;
  }
}

TEST(Maf, Maf7AtTheOriginIsTwiceTheNumberOfObjectives) {
  const Problem problem = maf_problem(7, 4);
  EXPECT_THAT(evaluated(problem, point_at(problem, 0, 0)),
              Pointwise(DoubleNear(kExact), {0.0, 0.0, 0.0, 8.0}));
}

TEST(Maf, Maf8MeasuresDistancesToCornersAndMaf9ToSides) {
  EXPECT_THAT(evaluated(maf_problem(8, 7), {0, 0}), Each(DoubleNear(1, kExact)));
  EXPECT_THAT(evaluated(maf_problem(9, 7), {0, 0}), Each(DoubleNear(std::cos(std::numbers::pi / 7), kExact)));
  EXPECT_NEAR(evaluated(maf_problem(8, 4), {1, 0})[0], 0, kExact);  // after north comes east
}

TEST(Maf, Maf9MovesPointsOutOfForbiddenPolygons) {
  const Problem problem = maf_problem(9, 5);
  pareto::Random random(1);
  // Beyond the middle of a side: between the lines through the sides beside it.
  const double angle = (std::numbers::pi / 2) - (3 * std::numbers::pi / 5);
  std::vector<double> beyond = {1.2 * std::cos(angle), 1.2 * std::sin(angle)};
  problem.repair(beyond, random);
  EXPECT_GT(std::hypot(beyond[0], beyond[1]), 10);
  for (const std::vector<double>& good :
       {std::vector<double>{0.1, 0.2}, {5000, -300}, {1.2 * std::cos(0.0), 9}}) {
    std::vector<double> x = good;
    problem.repair(x, random);
    EXPECT_EQ(x, good);
  }
}

TEST(Maf, WfgProblemsReachTheirCorners) {
  const Problem maf10 = maf_problem(10, 5);
  std::vector<double> x = point_at(maf10, 1, 0.35);
  EXPECT_NEAR(evaluated(maf10, x)[0], 2, 1e-9);  // all angles at 90 degrees
  const Problem maf11 = maf_problem(11, 5);
  x = point_at(maf11, 0, 0.35);
  EXPECT_THAT(evaluated(maf11, x), Pointwise(DoubleNear(1e-9), {0.0, 0.0, 0.0, 0.0, 10.0}));
}

TEST(Maf, Maf12IsFiniteAtTheBounds) {
  for (const double share : {0.0, 1.0}) {
    const Problem problem = maf_problem(12, 5);
    for (const double value : evaluated(problem, point_at(problem, share, share)))
      EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Maf, Maf13HasAtMostFourDifferentObjectives) {
  const std::vector<double> f = evaluated(maf_problem(13, 8), {0.5, 0, 0, 0, 0});
  const double root = std::sqrt(0.5);
  const double other = 0.5 + std::pow(root, 10);
  EXPECT_THAT(f, Pointwise(DoubleNear(kExact), {root, 0.0, root, other, other, other, other, other}));
}

TEST(Maf, Maf14And15AreOnTheirFrontsWhereGroupsAreAtTheirOptima) {
  // Where x1 = 0 nothing is shifted: Rastrigin's, Griewank's and the spheres' optima are at 0, Rosenbrock's
  // at 1.
  const Problem maf15 = maf_problem(15, 4);
  std::vector<double> f = evaluated(maf15, point_at(maf15, 0, 0));
  EXPECT_THAT(f, Pointwise(DoubleNear(kExact), {0.0, 1.0, 1.0, 1.0}));
  const Problem maf14 = maf_problem(14, 4);
  std::vector<double> x = point_at(maf14, 0, 0);
  const std::vector<std::size_t> groups = maf_groups(4);
  std::size_t at = 3;
  for (std::size_t m = 0; m < groups.size(); at += 2 * groups[m], ++m) {
    for (std::size_t i = at; m % 2 == 1 && i < at + (2 * groups[m]); ++i)
      x[i] = 1 / (1 + (static_cast<double>(i + 1) / static_cast<double>(x.size())));
  }
  EXPECT_THAT(evaluated(maf14, x), Pointwise(DoubleNear(kExact), {0.0, 0.0, 0.0, 1.0}));
}

TEST(Maf, RefusesProblemsThatThereAreNot) {
  EXPECT_THROW(maf_problem(0, 5), Error);
  EXPECT_THROW(maf_problem(16, 5), Error);
  EXPECT_THROW(maf_problem(1, 2), Error);
  EXPECT_THROW(maf_front(3, 2), Error);
}

TEST(MafFronts, AreAboutTenThousandPoints) {
  EXPECT_EQ(maf_front(1, 5).size(), 8855);
  EXPECT_EQ(maf_front(1, 10).size(), 7007);
  EXPECT_EQ(maf_front(2, 5).size(), 190);
  EXPECT_EQ(maf_front(8, 5).size(), 5826);
}

TEST(MafFronts, AreFrontsOfTheirProblems) {
  for (const int number : {4, 5, 6, 12, 15}) {
    const Points front = maf_front(number, 5);
    Points some(5);
    for (std::size_t i = 0; i < front.size(); i += 13) some.add(front[i]);
    EXPECT_THAT(pareto::nondominated(some), SizeIs(some.size())) << number;
  }
}

TEST(MafSearch, MaoeaCsBeatsRandomSearch) {
  for (const int number : {1, 3, 5, 6, 7, 8, 12}) {
    const Problem problem = maf_problem(number, 5);
    const Points front = maf_front(number, 5);
    const pareto::SearchOptions options{.evaluations = 10'000, .threads = 1, .normalize = false};
    const auto igd_of = [&](const pareto::SearchResult& result) {
      Points found(5);
      for (const pareto::Solution& solution : result.population) found.add(solution.objectives);
      return pareto::inverted_generational_distance(front, found);
    };
    EXPECT_LT(igd_of(pareto::minimize(problem, options)),
              0.9 * igd_of(pareto::random_search(problem, options)))
        << number;
  }
}

}  // namespace
}  // namespace stweaver
