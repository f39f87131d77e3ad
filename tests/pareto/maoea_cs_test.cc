#include "pareto/maoea_cs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "pareto/dominance.h"
#include "pareto/random_search.h"
#include "pareto/selection.h"

namespace stweaver::pareto {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Not;
using testing::SizeIs;

using In = std::span<const double>;
using Out = std::span<double>;

/// Distances from the corners of the unit simplex; the front is the simplex, its corners are the corners.
Problem corners_problem(int objectives) {
  return {.variables = std::vector<Variable>(static_cast<std::size_t>(objectives), real_variable(-2, 2)),
          .objectives = objectives,
          .evaluate = [](In x, Out f) {
            for (std::size_t k = 0; k < f.size(); ++k) {
              f[k] = 0;
              for (std::size_t j = 0; j < x.size(); ++j) f[k] += std::pow(x[j] - (j == k ? 1 : 0), 2);
            }
            return 0.0;
          }};
}

/// Two objectives of whole numbers and a category that only one value of is good.
Problem discrete_problem() {
  return {.variables = {integer_variable(-5, 20), integer_variable(0, 30), categorical_variable(4)},
          .objectives = 2,
          .evaluate = [](In x, Out f) {
            const double cost = std::abs(x[1] - 7) + (x[2] == 2 ? 0 : 3);
            f[0] = x[0] + cost;
            f[1] = 20 - x[0] + cost;
            return 0.0;
          }};
}

/// Feasible is only what lies far out on a narrow ridge.
Problem constrained_problem() {
  return {.variables = std::vector<Variable>(4, real_variable(0, 1)),
          .objectives = 2,
          .evaluate = [](In x, Out f) {
            const double violation = std::max(0.0, 0.9 - x[2]) + std::max(0.0, std::abs(x[3] - 0.5) - 0.01);
            f[0] = x[0] + x[1] + x[2];
            f[1] = 1 - x[0] + x[1] + x[2];
            return violation;
          }};
}

std::vector<std::vector<double>> variables_of(const std::vector<Solution>& solutions) {
  std::vector<std::vector<double>> rows;
  for (const Solution& solution : solutions) rows.push_back(solution.variables);
  return rows;
}

template <typename Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Minimize, FindsTheCornersOfTheFront) {
  const SearchResult result = minimize(corners_problem(5), {.evaluations = 20'000});
  ASSERT_THAT(result.corners, SizeIs(Ge(5)));
  for (std::size_t k = 0; k < 5; ++k) {
    double best = 10;
    for (const Solution& corner : result.corners) best = std::min(best, corner.objectives[k]);
    EXPECT_LT(best, 0.01) << k;
  }
}

/// A front from (0, 1) to (1, 0). Where `fails` says so the second objective is a penalty.
Problem failing_problem(double penalty, std::function<bool(In)> fails) {
  return {.variables = std::vector<Variable>(6, real_variable(0, 1)),
          .objectives = 2,
          .evaluate = [penalty, fails = std::move(fails)](In x, Out f) {
            f[0] = x[0];
            f[1] = 1 - std::sqrt(x[0]);
            for (const double other : x.subspan(1)) f[1] += other * other;
            if (fails(x)) f[1] = penalty;
            return 0.0;
          }};
}

TEST(Minimize, FindsAFrontBesidePenalties) {
  const std::vector<std::pair<double, std::function<bool(In)>>> cases = {
      {1e9, [](In x) { return x[1] > 0.9; }},  // one in ten
      {1e30, [](In x) { return x[1] > 0.2; }},
      {1e5, [](In x) { return x[1] + x[2] > 0.3; }}};
  for (const auto& [penalty, fails] : cases) {
    const SearchResult result = minimize(failing_problem(penalty, fails), {.evaluations = 5'000});
    Box box{.ideal = {9, 9}, .nadir = {-9, -9}};
    for (const Solution& member : result.population) {
      for (std::size_t k = 0; k < 2; ++k) {
        box.ideal[k] = std::min(box.ideal[k], member.objectives[k]);
        box.nadir[k] = std::max(box.nadir[k], member.objectives[k]);
      }
    }
    EXPECT_THAT(box.ideal, Each(Le(0.05))) << penalty;
    EXPECT_THAT(box.nadir, Each(AllOf(Ge(0.95), Le(1.3)))) << penalty;
  }
}

TEST(Minimize, FindsTheFrontWhereNothingIsFeasibleAtFirst) {
  // Until something is feasible nothing is known of objectives: one is in billions, the other in parts of
  // one.
  Problem problem = failing_problem(0, [](In) { return false; });
  problem.evaluate = [inner = problem.evaluate](In x, Out f) {
    const double violation = std::max(0.0, 5 - 10 * x[1]);
    inner(x, f);
    f[0] *= 1e9;
    if (violation > 0) std::fill(f.begin(), f.end(), 0.0);
    return violation;
  };
  const SearchResult result = minimize(problem, {.evaluations = 5'000, .population = 10});
  std::vector<double> first;
  for (const Solution& member : result.population) first.push_back(member.objectives[0]);
  EXPECT_LT(*std::min_element(first.begin(), first.end()), 0.05e9);
  EXPECT_GT(*std::max_element(first.begin(), first.end()), 0.95e9);
}

TEST(Minimize, HasNoCornersWhereNothingIsFeasible) {
  Problem problem = corners_problem(3);
  problem.evaluate = [](In, Out f) {
    std::fill(f.begin(), f.end(), 0.0);
    return 1.0;
  };
  const SearchResult result = minimize(problem, {.evaluations = 500});
  EXPECT_THAT(result.corners, IsEmpty());
  EXPECT_THAT(result.population, Not(IsEmpty()));
}

TEST(Minimize, KnowsAVariableThatCannotVaryForADiscreteOne) {
  Problem problem{.variables = {real_variable(1, 1), integer_variable(0, 3)},
                  .objectives = 1,
                  .evaluate = [](In x, Out f) {
                    f[0] = x[1];
                    return 0.0;
                  }};
  const SearchResult result = minimize(problem, {.evaluations = 5'000});
  EXPECT_EQ(result.end, End::kNoNewPoints);
  EXPECT_EQ(result.evaluations, 4);
  EXPECT_THAT(result.generations, Le(4));
}

TEST(Minimize, GivesTheSameOnAnyNumberOfThreads) {
  Problem problem = corners_problem(3);
  problem.evaluate = [inner = problem.evaluate](In x, Out f) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));  // long enough for threads to be worth it
    return inner(x, f);
  };
  const SearchResult one = minimize(problem, {.evaluations = 3'000, .seed = 7, .threads = 1});
  const SearchResult four = minimize(problem, {.evaluations = 3'000, .seed = 7, .threads = 4});
  const SearchResult other = minimize(problem, {.evaluations = 3'000, .seed = 8, .threads = 1});
  EXPECT_EQ(variables_of(one.population), variables_of(four.population));
  EXPECT_EQ(one.evaluations, four.evaluations);
  EXPECT_NE(variables_of(one.population), variables_of(other.population));
}

TEST(Minimize, EvaluatesOnSeveralThreads) {
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  Problem problem = corners_problem(2);
  problem.evaluate = [&, inner = problem.evaluate](In x, Out f) {
    const int now = ++running;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --running;
    return inner(x, f);
  };
  minimize(problem, {.evaluations = 200, .threads = 4});
  EXPECT_THAT(most, AllOf(Ge(2), Le(4)));
}

TEST(Minimize, KeepsTheBudgetButForLessThanAGeneration) {
  const SearchResult result = minimize(corners_problem(4), {.evaluations = 1'050, .population = 30});
  EXPECT_THAT(result.population, SizeIs(32));  // a multiple of the objectives
  EXPECT_THAT(result.evaluations, AllOf(Ge(1'050), Le(1'050 + 31)));
}

TEST(Minimize, StaysInTheBounds) {
  Problem problem = corners_problem(3);
  problem.variables[1] = real_variable(0.25, 0.25);
  problem.evaluate = [inner = problem.evaluate](In x, Out f) {
    EXPECT_THAT(std::vector<double>(x.begin(), x.end()), Each(AllOf(Ge(-2), Le(2))));
    EXPECT_EQ(x[1], 0.25);
    return inner(x, f);
  };
  minimize(problem, {.evaluations = 2'000, .threads = 1});
}

TEST(Minimize, FindsTheFrontOfADiscreteProblem) {
  const SearchResult result = minimize(discrete_problem(), {.evaluations = 1'500});
  std::set<double> found;
  for (const Solution& solution : result.population) {
    for (const double value : solution.variables) EXPECT_EQ(value, std::round(value));
    if (solution.variables[1] == 7 && solution.variables[2] == 2) found.insert(solution.variables[0]);
  }
  EXPECT_THAT(found, SizeIs(26));
}

TEST(Minimize, EvaluatesNoPointOfADiscreteProblemTwice) {
  std::set<std::vector<double>> seen;
  Problem problem = discrete_problem();
  problem.variables = {integer_variable(0, 5), integer_variable(4, 9), categorical_variable(3)};
  problem.evaluate = [&, inner = problem.evaluate](In x, Out f) {
    EXPECT_TRUE(seen.emplace(x.begin(), x.end()).second);
    return inner(x, f);
  };
  // It ends although there are only 108 points.
  const SearchResult result = minimize(problem, {.evaluations = 100'000, .threads = 1});
  EXPECT_EQ(static_cast<std::size_t>(result.evaluations), seen.size());
  EXPECT_GT(seen.size(), 90);
}

TEST(Minimize, PutsTheFeasibleFirst) {
  const SearchResult result = minimize(constrained_problem(), {.evaluations = 10'000});
  for (const Solution& solution : result.population) EXPECT_EQ(solution.violation, 0);
  double least = 10;
  for (const Solution& corner : result.corners) least = std::min(least, corner.objectives[0]);
  EXPECT_NEAR(least, 0.9, 0.02);
}

TEST(Minimize, GoesByTheViolationWhereNothingIsFeasible) {
  Problem problem = corners_problem(2);
  problem.evaluate = [](In x, Out) { return 1 + std::abs(x[0]); };
  const SearchResult result = minimize(problem, {.evaluations = 5'000});
  EXPECT_LT(result.population.front().violation, 1.001);
}

TEST(Minimize, DoesNotMindUnitsWhenItNormalizes) {
  Problem problem = corners_problem(3);
  const SearchOptions options{.evaluations = 3'000};
  const SearchResult plain = minimize(problem, options);
  problem.evaluate = [inner = problem.evaluate](In x, Out f) {
    const double violation = inner(x, f);
    f[0] *= 0x1p40;  // powers of 2 change no digit
    f[2] *= 0x1p-30;
    return violation;
  };
  EXPECT_EQ(variables_of(minimize(problem, options).population), variables_of(plain.population));
}

TEST(Minimize, RepairsBeforeItEvaluates) {
  Problem problem = corners_problem(2);
  problem.repair = [](std::span<double> x, Random&) { x[0] = std::abs(x[0]); };
  problem.evaluate = [inner = problem.evaluate](In x, Out f) {
    EXPECT_GE(x[0], 0);
    return inner(x, f);
  };
  for (const Solution& solution : minimize(problem, {.evaluations = 500}).population)
    EXPECT_GE(solution.variables[0], 0);
}

TEST(Minimize, StopsWhenAskedTo) {
  std::stop_source source;
  Problem problem = corners_problem(2);
  std::atomic<int> calls = 0;
  problem.evaluate = [&, inner = problem.evaluate](In x, Out f) {
    if (++calls == 130) source.request_stop();
    return inner(x, f);
  };
  const SearchResult result = minimize(problem, {.threads = 1, .stop = source.get_token()});
  EXPECT_EQ(result.evaluations, 130);
  EXPECT_THAT(result.population, SizeIs(50));
  EXPECT_THAT(minimize(problem, {.stop = source.get_token()}).population, IsEmpty());
}

TEST(Minimize, StopsInTime) {
  Problem problem = corners_problem(2);
  problem.evaluate = [inner = problem.evaluate](In x, Out f) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return inner(x, f);
  };
  const SearchResult result = minimize(problem, {.threads = 1, .seconds = 0.1});
  EXPECT_THAT(result.evaluations, AllOf(Ge(1), Le(101)));
}

TEST(Minimize, StopsWhenTheFrontNoLongerMoves) {
  const SearchResult result = minimize(discrete_problem(), {.evaluations = 100'000, .stagnation = 300});
  EXPECT_LT(result.evaluations, 3'000);
}

TEST(Minimize, SwitchesWhenItsCornersAreStable) {
  const SearchResult result = minimize(corners_problem(3), {.evaluations = 30'000});
  ASSERT_TRUE(result.switched_at);
  EXPECT_THAT(*result.switched_at, AllOf(Ge(51 * 75), Le(result.evaluations)));
}

TEST(Minimize, SwitchesInAShortSearchToo) {
  const SearchResult result = minimize(corners_problem(3), {.evaluations = 3000});
  ASSERT_TRUE(result.switched_at);
  EXPECT_THAT(*result.switched_at, AllOf(Ge(9 * 75), Le(result.evaluations)));
}

TEST(Minimize, WorksWithOneObjective) {
  const SearchResult result = minimize(corners_problem(1), {.evaluations = 5'000});
  EXPECT_LT(result.corners.at(0).objectives[0], 1e-4);
}

TEST(Minimize, RefusesWhatMakesNoSense) {
  const auto error_with = [](auto change) {
    Problem problem = corners_problem(2);
    SearchOptions options{.evaluations = 100};
    change(problem, options);
    return error_of([&] { minimize(problem, options); });
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_with([](Problem& p, SearchOptions&) { p.variables.clear(); }), HasSubstr("no variables"));
  EXPECT_THAT(error_with([](Problem& p, SearchOptions&) { p.objectives = 0; }), HasSubstr("no objectives"));
  EXPECT_THAT(error_with([](Problem& p, SearchOptions&) { p.evaluate = {}; }), HasSubstr("no function"));
  EXPECT_THAT(error_with([](Problem& p, SearchOptions&) { p.variables[1] = real_variable(2, 1); }),
              HasSubstr("variable 1"));
  EXPECT_THAT(error_with([&](Problem& p, SearchOptions&) { p.variables[0].lower = kNan; }),
              HasSubstr("variable 0"));
  EXPECT_THAT(error_with([](Problem& p, SearchOptions&) { p.variables[0] = categorical_variable(0); }),
              HasSubstr("variable 0"));
  EXPECT_THAT(error_with([](Problem& p, SearchOptions&) {
                p.variables[0] = {Kind::kInteger, 0, 1.5};
              }),
              HasSubstr("whole numbers"));
  EXPECT_THAT(error_with([](Problem&, SearchOptions& o) { o.evaluations = 0; }), HasSubstr("0 evaluations"));
  EXPECT_THAT(error_with([](Problem&, SearchOptions& o) { o.population = -1; }), HasSubstr("population"));
  EXPECT_THAT(error_with([](Problem&, SearchOptions& o) { o.threads = -1; }), HasSubstr("threads"));
  EXPECT_THAT(error_with([](Problem&, SearchOptions& o) { o.stagnation = -1; }), HasSubstr("stagnation"));
  EXPECT_THAT(error_with([&](Problem&, SearchOptions& o) { o.seconds = kNan; }), HasSubstr("search of"));
}

TEST(Minimize, RefusesValuesThatAreNoNumbers) {
  Problem problem = corners_problem(2);
  problem.evaluate = [](In, Out f) { return f[1] = std::numeric_limits<double>::quiet_NaN(), 0.0; };
  EXPECT_THAT(error_of([&] { minimize(problem, {.evaluations = 100}); }), HasSubstr("objective 1"));
  problem.evaluate = [](In, Out) { return -1.0; };
  EXPECT_THAT(error_of([&] { minimize(problem, {.evaluations = 100}); }), HasSubstr("violation of -1"));
}

TEST(Minimize, PassesOnWhatAnEvaluationThrows) {
  Problem problem = corners_problem(2);
  std::atomic<int> calls = 0;
  problem.evaluate = [&](In, Out) -> double {
    if (++calls > 60) throw std::runtime_error("no more");
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return 0;
  };
  EXPECT_THROW(minimize(problem, {.evaluations = 1'000, .threads = 3}), std::runtime_error);
}

/// What the problem's own function says of the first `count` points.
Evaluations evaluated(const Problem& problem, const Points& points, std::size_t count) {
  Evaluations found{.objectives = Points(static_cast<std::size_t>(problem.objectives)), .violations = {}};
  found.objectives.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    found.violations.push_back(problem.evaluate(points[i], found.objectives[i]));
  return found;
}

TEST(MaoeaCs, FindsTheSameFrontWhereverItsPointsAreEvaluated) {
  const Problem problem = discrete_problem();
  const SearchOptions options{.evaluations = 500, .archive = true};
  MaoeaCs search(problem, options);
  while (!search.end()) {
    const Points points = search.ask();
    search.tell(points, evaluated(problem, points, points.size()));
  }
  const SearchResult there = minimize(problem, options);
  EXPECT_EQ(variables_of(search.result().population), variables_of(there.population));
  EXPECT_EQ(variables_of(search.result().archive), variables_of(there.archive));
  EXPECT_EQ(search.end(), there.end);
}

TEST(MaoeaCs, IsToldAsMuchAsIsKnown) {
  const Problem problem = corners_problem(2);
  MaoeaCs search(problem, {.evaluations = 1'000});
  const Points none = search.ask();
  search.tell(none, evaluated(problem, none, 0));
  EXPECT_THAT(search.result().population, IsEmpty());
  const Points some = search.ask();
  search.tell(some, evaluated(problem, some, 7));
  EXPECT_THAT(search.result().population, SizeIs(7));
  EXPECT_EQ(search.result().evaluations, 7);
  EXPECT_FALSE(search.end());
}

TEST(MaoeaCs, SaysWhichPointHasNoValue) {
  MaoeaCs search(corners_problem(2), {});
  Points point(2);
  point.add(std::vector<double>{0.5, 0.25});
  Evaluations found{.objectives = Points(2), .violations = {0}};
  found.objectives.add(std::vector<double>{1, std::numeric_limits<double>::quiet_NaN()});
  EXPECT_THAT(error_of([&] { search.tell(point, found); }), HasSubstr("(0.5, 0.25) has objective 1 at nan"));
}

TEST(RandomSearch, KeepsThePopulationAndTheBudget) {
  const SearchResult result = random_search(discrete_problem(), {.evaluations = 500, .seed = 3});
  EXPECT_THAT(result.population, SizeIs(50));
  EXPECT_THAT(result.evaluations, AllOf(Ge(500), Le(549)));
}

}  // namespace
}  // namespace stweaver::pareto
