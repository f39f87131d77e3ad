#include "pareto/search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "pareto/operators.h"

namespace stweaver::pareto {
namespace {

/// The population of the competition: 125, 250 and 375 for 5, 10 and 15 objectives.
constexpr std::size_t kMembersPerObjective = 25;
/// How often a point that was seen before is mutated in search of a new one.
constexpr int kTries = 10;
/// So many generations without a new point end a search: there are hardly any left.
constexpr int kMostIdle = 50;

std::size_t capacity_of(const Problem& problem, const SearchOptions& options) {
  const auto objectives = static_cast<std::size_t>(problem.objectives);
  const std::size_t asked = options.population > 0 ? static_cast<std::size_t>(options.population)
                                                   : kMembersPerObjective * objectives;
  return std::max((asked + objectives - 1) / objectives, std::size_t{2}) * objectives;
}

void check_options(const SearchOptions& options) {
  if (options.evaluations < 1) fail("a search of ", options.evaluations, " evaluations: allow 1 at least");
  if (options.population < 0) fail("a population of ", options.population, ": give 0 or more");
  if (options.threads < 0) fail(options.threads, " threads: give 0 for all, or more");
  if (options.stagnation < 0) fail("a stagnation of ", options.stagnation, " evaluations: give 0 or more");
  if (options.seconds && !(*options.seconds >= 0))
    fail("a search of ", *options.seconds, " s: give 0 or more");
}

Clock::time_point deadline_of(Clock::time_point begin, const SearchOptions& options) {
  constexpr double kLong = 1e9;
  if (!options.seconds || *options.seconds > kLong) return Clock::time_point::max();
  return begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*options.seconds));
}

bool all_discrete(const Problem& problem) {
  return std::none_of(problem.variables.begin(), problem.variables.end(),
                      [](const Variable& variable) { return variable.kind == Kind::kReal; });
}

const Problem& checked(const Problem& problem) {
  check_problem(problem);
  return problem;
}

Points rows_of(const Points& points, const std::vector<std::size_t>& rows) {
  Points chosen(points.dimension());
  for (const std::size_t i : rows) chosen.add(points[i]);
  return chosen;
}

/// Those who violate the constraints least: the feasible ones, if there are any.
std::vector<std::size_t> least_violating(const std::vector<double>& violations) {
  const double least = *std::min_element(violations.begin(), violations.end());
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < violations.size(); ++i) {
    if (violations[i] == least) chosen.push_back(i);
  }
  return chosen;
}

}  // namespace

Search::Search(const Problem& problem, const SearchOptions& options)
    : problem_(checked(problem)),
      options_(options),
      capacity_(capacity_of(problem, options)),
      is_discrete_(all_discrete(problem)),
      begin_(Clock::now()),
      deadline_(deadline_of(begin_, options)),
      random_(options.seed),
      evaluator_(problem, options.threads),
      variables_(problem.variables.size()),
      objectives_(static_cast<std::size_t>(problem.objectives)) {
  check_options(options);
}

Points Search::random_points() {
  Points points(problem_.variables.size());
  points.resize(capacity_);
  for (std::size_t i = 0; i < capacity_; ++i) draw(points[i], problem_.variables, random_);
  return points;
}

bool Search::is_over() const {
  return evaluations_ >= options_.evaluations || idle_ >= kMostIdle || options_.stop.stop_requested() ||
         Clock::now() >= deadline_ ||
         (options_.stagnation > 0 && evaluations_ - moved_at_ >= options_.stagnation);
}

bool Search::is_new(std::span<const double> point) {
  std::uint64_t hash = 0;
  for (const double value : point) hash = mix_hash(hash, std::bit_cast<std::uint64_t>(value + 0.0));
  return seen_.insert(hash).second;
}

Points Search::unseen(Points points) {
  Points chosen(points.dimension());
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (int tries = 0; tries <= kTries; ++tries) {
      if (problem_.repair) {
        problem_.repair(points[i], random_);
        confine(points[i], problem_.variables);
      }
      if (!is_discrete_ || is_new(points[i])) {
        chosen.add(points[i]);
        break;
      }
      mutate(points[i], problem_.variables, random_);
    }
  }
  return chosen;
}

void Search::advance(Points points) {
  const Points fresh = unseen(std::move(points));
  const std::size_t before = violations_.size();
  evaluator_.evaluate(fresh, options_.stop, deadline_, objectives_, violations_);
  const std::size_t evaluated = violations_.size() - before;
  for (std::size_t i = 0; i < evaluated; ++i) variables_.add(fresh[i]);
  evaluations_ += static_cast<std::int64_t>(evaluated);
  ++generations_;
  idle_ = evaluated == 0 ? idle_ + 1 : 0;
  if (violations_.size() > 0) select_population();
}

void Search::select_population() {
  const std::vector<std::size_t> candidates = least_violating(violations_);
  const Selection selection = select(measured(candidates), capacity_);
  std::vector<std::size_t> members;
  for (const std::size_t i : selection.members) members.push_back(candidates[i]);
  corners_.clear();
  for (const std::size_t i : selection.corners) {
    const auto place = std::find(selection.members.begin(), selection.members.end(), i);
    corners_.push_back(static_cast<std::size_t>(place - selection.members.begin()));
  }
  // What room there is beside the feasible members, others take, the nearly feasible ones first.
  std::vector<std::pair<double, std::size_t>> others;
  for (std::size_t i = 0; i < violations_.size(); ++i) {
    if (violations_[i] > violations_[candidates.front()]) others.emplace_back(violations_[i], i);
  }
  std::sort(others.begin(), others.end());
  for (std::size_t n = 0; n < others.size() && members.size() < capacity_; ++n)
    members.push_back(others[n].second);

  std::vector<double> ideal(objectives_.dimension(), std::numeric_limits<double>::infinity());
  for (const std::size_t i : candidates) {
    for (std::size_t k = 0; k < ideal.size(); ++k) ideal[k] = std::min(ideal[k], objectives_[i][k]);
  }
  keep(members);
  nadir_.assign(objectives_[corners_.front()].begin(), objectives_[corners_.front()].end());
  for (const std::size_t i : corners_) {
    for (std::size_t k = 0; k < nadir_.size(); ++k) nadir_[k] = std::max(nadir_[k], objectives_[i][k]);
  }
  watch_stagnation(ideal);
  ideal_ = std::move(ideal);
}

/// Objectives in the units that selection measures in: the front's extent in the last generation; where it
/// has none, that of the candidates.
Points Search::measured(const std::vector<std::size_t>& candidates) const {
  Points points = rows_of(objectives_, candidates);
  if (!options_.normalize) return points;
  for (std::size_t k = 0; k < points.dimension(); ++k) {
    double lower = points[0][k];
    double upper = lower;
    for (std::size_t i = 1; i < points.size(); ++i) {
      lower = std::min(lower, points[i][k]);
      upper = std::max(upper, points[i][k]);
    }
    if (!ideal_.empty() && nadir_[k] > ideal_[k]) {
      lower = ideal_[k];
      upper = nadir_[k];
    }
    // Halves, as the difference of two finite numbers need not be one.
    const double half = (upper / 2) - (lower / 2);
    for (std::size_t i = 0; i < points.size(); ++i)
      points[i][k] = half > 0 ? ((points[i][k] / 2) - (lower / 2)) / half : 0;
  }
  return points;
}

void Search::keep(const std::vector<std::size_t>& members) {
  variables_ = rows_of(variables_, members);
  objectives_ = rows_of(objectives_, members);
  std::vector<double> violations;
  for (const std::size_t i : members) violations.push_back(violations_[i]);
  violations_ = std::move(violations);
}

std::vector<double> Search::magnitudes() const {
  std::vector<double> sizes;
  for (std::size_t k = 0; k < nadir_.size(); ++k)
    sizes.push_back(options_.normalize ? nadir_[k] - ideal_[k] : std::abs(nadir_[k]));
  return sizes;
}

void Search::watch_stagnation(const std::vector<double>& ideal) {
  std::vector<double> extents;
  for (std::size_t k = 0; k < nadir_.size(); ++k) extents.push_back(nadir_[k] - ideal[k]);
  if (!last_ideal_.empty() && is_stable(last_ideal_, ideal, extents) &&
      is_stable(last_nadir_, nadir_, extents))
    return;
  last_ideal_ = ideal;
  last_nadir_ = nadir_;
  moved_at_ = evaluations_;
}

Solution Search::solution(std::size_t i) const {
  return {{variables_[i].begin(), variables_[i].end()},
          {objectives_[i].begin(), objectives_[i].end()},
          violations_[i]};
}

SearchResult Search::result() const {
  SearchResult result;
  for (std::size_t i = 0; i < violations_.size(); ++i) result.population.push_back(solution(i));
  for (const std::size_t i : corners_) result.corners.push_back(solution(i));
  result.evaluations = evaluations_;
  result.generations = generations_;
  result.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  return result;
}

bool is_stable(const std::vector<double>& before, const std::vector<double>& after,
               const std::vector<double>& magnitudes) {
  const double threshold = kStable * static_cast<double>(before.size());
  for (std::size_t k = 0; k < before.size(); ++k) {
    if (before[k] != after[k] && !(std::abs(after[k] - before[k]) < threshold * magnitudes[k])) return false;
  }
  return true;
}

}  // namespace stweaver::pareto
