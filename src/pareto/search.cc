#include "pareto/search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
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
/// The largest change of the nadir, relative, that counts as none, for each objective of the problem.
constexpr double kStable = 0.001;
/// Beyond so many extents of the front it does not matter how far: squares of more would overflow.
constexpr double kMostUnits = 1e100;
/// The published guard against outliers, on sums of raw objectives. On a front that is a curve it can reject
/// the far end, so that it does without where objectives are normalized, as the report does.
constexpr double kOutlier = 1.5;

void check_options(const SearchOptions& options) {
  if (options.evaluations < 1) fail("a search of ", options.evaluations, " evaluations: allow 1 at least");
  if (options.population < 0) fail("a population of ", options.population, ": give 0 or more");
  if (options.threads < 0) fail(options.threads, " threads: give 0 for all, or more");
  if (options.stagnation < 0) fail("a stagnation of ", options.stagnation, " evaluations: give 0 or more");
  if (options.seconds && !(*options.seconds >= 0))
    fail("a search of ", *options.seconds, " s: give 0 or more");
}

/// Checks what it is asked for, too.
std::size_t capacity_of(const Problem& problem, const SearchOptions& options) {
  check_problem(problem);
  check_options(options);
  const auto objectives = static_cast<std::size_t>(problem.objectives);
  const std::size_t asked = options.population > 0 ? static_cast<std::size_t>(options.population)
                                                   : kMembersPerObjective * objectives;
  return std::max((asked + objectives - 1) / objectives, std::size_t{2}) * objectives;
}

std::string text_of(std::span<const double> point) {
  std::string values;
  for (const double value : point) values += text(values.empty() ? "" : ", ", value);
  return "(" + values + ")";
}

void check_values(std::span<const double> point, std::span<const double> objectives, double violation) {
  if (!std::isfinite(violation) || violation < 0)
    fail("the point ", text_of(point), " has a violation of ", violation,
         ": give 0 where it is feasible, else a positive number");
  for (std::size_t k = 0; k < objectives.size(); ++k) {
    if (!std::isfinite(objectives[k]))
      fail("the point ", text_of(point), " has objective ", k, " at ", objectives[k],
           ": give finite objectives, and a positive violation where there are none");
  }
}

bool all_discrete(const Problem& problem) {
  return std::none_of(problem.variables.begin(), problem.variables.end(), [](const Variable& variable) {
    return variable.kind == Kind::kReal && variable.lower < variable.upper;
  });
}

Points rows_of(const Points& points, const std::vector<std::size_t>& rows) {
  Points chosen(points.dimension());
  for (const std::size_t i : rows) chosen.add(points[i]);
  return chosen;
}

std::vector<std::size_t> all_of(std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// The feasible first, then by violation.
std::vector<std::size_t> by_violation(const std::vector<double>& violations) {
  std::vector<std::size_t> order = all_of(violations.size());
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return violations[a] < violations[b]; });
  return order;
}

std::vector<std::size_t> places_of(const std::vector<std::size_t>& some,
                                   const std::vector<std::size_t>& all) {
  std::vector<std::size_t> places(some.size());
  std::transform(some.begin(), some.end(), places.begin(), [&](std::size_t i) {
    return static_cast<std::size_t>(std::find(all.begin(), all.end(), i) - all.begin());
  });
  return places;
}

/// The ranges of objectives; 1 where one does not differ.
std::vector<double> ranges_of(const Points& objectives, const std::vector<std::size_t>& among) {
  std::vector<double> ranges = extents_of(box_of(rows_of(objectives, among), all_of(among.size())));
  for (double& range : ranges) range = range > 0 ? std::min(range, std::numeric_limits<double>::max()) : 1;
  return ranges;
}

/// The units in which the largest extent of the box is 1.
std::vector<double> fitted_units(const std::vector<double>& units, const Box& box) {
  double largest = 0;
  for (std::size_t k = 0; k < box.ideal.size(); ++k)
    largest = std::max(largest, (box.nadir[k] - box.ideal[k]) / units[k]);
  std::vector<double> fitted = units;
  for (double& unit : fitted) unit *= largest > 0 ? largest : 1;
  return fitted;
}

Points in_units(Points objectives, const std::vector<double>& units) {
  for (std::size_t i = 0; i < objectives.size(); ++i) {
    for (std::size_t k = 0; k < units.size(); ++k)
      objectives[i][k] = std::clamp(objectives[i][k] / units[k], -kMostUnits, kMostUnits);
  }
  return objectives;
}

}  // namespace

const char* name_of(End end) {
  switch (end) {
    case End::kEvaluations:
      return "evaluations";
    case End::kNoNewPoints:
      return "no new points";
    case End::kStagnation:
      return "stagnation";
    case End::kSeconds:
      return "seconds";
    case End::kStopped:
      return "stopped";
  }
  return "";
}

Search::Search(const Problem& problem, const SearchOptions& options)
    : problem_(problem),
      options_(options),
      capacity_(capacity_of(problem, options)),
      is_discrete_(all_discrete(problem)),
      begin_(Clock::now()),
      deadline_(deadline_of(begin_, options)),
      random_(options.seed),
      variables_(problem.variables.size()),
      objectives_(static_cast<std::size_t>(problem.objectives)) {}

Points Search::random_points() {
  Points points(problem_.variables.size());
  points.resize(capacity_);
  for (std::size_t i = 0; i < capacity_; ++i) draw(points[i], problem_.variables, random_);
  return points;
}

std::optional<End> Search::end() const {
  if (options_.stop.stop_requested()) return End::kStopped;
  if (Clock::now() >= deadline_) return End::kSeconds;
  if (evaluations_ >= options_.evaluations) return End::kEvaluations;
  if (idle_ >= kMostIdle) return End::kNoNewPoints;
  if (options_.stagnation > 0 && evaluations_ - moved_at_ >= options_.stagnation) return End::kStagnation;
  return std::nullopt;
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

void Search::take(const Points& points, const Evaluations& evaluations) {
  const std::size_t evaluated = evaluations.violations.size();
  for (std::size_t i = 0; i < evaluated; ++i)
    check_values(points[i], evaluations.objectives[i], evaluations.violations[i]);
  for (std::size_t i = 0; i < evaluated; ++i) {
    variables_.add(points[i]);
    objectives_.add(evaluations.objectives[i]);
    violations_.push_back(evaluations.violations[i]);
    if (options_.archive && violations_.back() == 0)
      archive_.offer(evaluations.objectives[i], {points[i].begin(), points[i].end()});
  }
  evaluations_ += static_cast<std::int64_t>(evaluated);
  generations_ += evaluated > 0 ? 1 : 0;
  idle_ = evaluated == 0 ? idle_ + 1 : 0;
  if (!violations_.empty()) select_population();
}

Selection Search::selection_of(const Points& objectives) {
  if (!options_.normalize) return select(objectives, capacity_, kOutlier);
  if (units_.empty()) units_ = ranges_of(objectives, all_of(objectives.size()));
  return select(in_units(objectives, fitted_units(units_, box_)), capacity_, std::nullopt);
}

void Search::select_population() {
  const std::vector<std::size_t> order = by_violation(violations_);
  const auto end = std::find_if(order.begin(), order.end(),
                                [&](std::size_t i) { return violations_[i] > violations_[order.front()]; });
  const std::vector<std::size_t> best(order.begin(), end);
  const Points objectives = rows_of(objectives_, best);
  const Selection selection = selection_of(objectives);
  box_ = box_of(objectives, selection.corners);
  corners_ = places_of(selection.corners, selection.members);
  if (options_.normalize) units_ = ranges_of(objectives, selection.members);
  std::vector<std::size_t> members;
  members.reserve(capacity_);
  for (const std::size_t i : selection.members) members.push_back(best[i]);
  // What room there is beside the feasible, the nearly feasible take.
  for (auto other = end; other != order.end() && members.size() < capacity_; ++other)
    members.push_back(*other);
  keep(members);
  watch_stagnation();
}

void Search::keep(const std::vector<std::size_t>& members) {
  variables_ = rows_of(variables_, members);
  objectives_ = rows_of(objectives_, members);
  std::vector<double> violations(members.size());
  std::transform(members.begin(), members.end(), violations.begin(),
                 [&](std::size_t i) { return violations_[i]; });
  violations_ = std::move(violations);
}

void Search::watch_stagnation() {
  const std::vector<double> extents = extents_of(box_);
  const double violation = violations_.front();  // the least
  if (!last_box_.ideal.empty() && violation == last_violation_ &&
      is_stable(last_box_.ideal, box_.ideal, extents) && is_stable(last_box_.nadir, box_.nadir, extents))
    return;
  last_box_ = box_;
  last_violation_ = violation;
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
  for (const std::size_t i : corners_)
    if (violations_[i] == 0) result.corners.push_back(solution(i));
  for (const auto& entry : archive_.entries()) result.archive.push_back({entry.payload, entry.objectives, 0});
  result.evaluations = evaluations_;
  result.generations = generations_;
  result.end = end();
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

std::vector<double> extents_of(const Box& box) {
  std::vector<double> extents(box.ideal.size());
  std::transform(box.nadir.begin(), box.nadir.end(), box.ideal.begin(), extents.begin(), std::minus<>());
  return extents;
}

}  // namespace stweaver::pareto
