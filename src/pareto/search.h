// What searches by populations have in common: new points, selection, and when to end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "pareto/archive.h"
#include "pareto/evaluator.h"
#include "pareto/maoea_cs.h"
#include "pareto/points.h"
#include "pareto/random.h"
#include "pareto/selection.h"

namespace stweaver::pareto {

class Search {
 public:
  /// Error when the problem or an option makes no sense. `problem` must outlive it.
  Search(const Problem& problem, const SearchOptions& options);

  /// The points to evaluate for these, children of a generation or the first population: mended, and where
  /// all variables are discrete, those seen before mutated, or left out.
  Points unseen(Points points);
  /// Selects from the first points, as many as were evaluated, and the population. Error for values that
  /// evaluate() must not give.
  void take(const Points& points, const Evaluations& evaluations);

  [[nodiscard]] std::optional<End> end() const;
  [[nodiscard]] Points random_points();

  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] const Points& population() const { return variables_; }
  /// Indices into the population.
  [[nodiscard]] const std::vector<std::size_t>& corners() const { return corners_; }
  [[nodiscard]] std::int64_t evaluations() const { return evaluations_; }
  /// Where the best front known lies.
  [[nodiscard]] const Box& box() const { return box_; }
  Random& random() { return random_; }

  [[nodiscard]] SearchResult result() const;

 private:
  bool is_new(std::span<const double> point);
  void select_population();
  Selection selection_of(const Points& objectives);
  void keep(const std::vector<std::size_t>& members);
  void watch_stagnation();
  [[nodiscard]] Solution solution(std::size_t i) const;

  const Problem& problem_;
  SearchOptions options_;
  std::size_t capacity_;
  bool is_discrete_;
  Clock::time_point begin_;
  Clock::time_point deadline_;
  Random random_;

  Points variables_;  // of the population; row i here belongs to row i there
  Points objectives_;
  std::vector<double> violations_;
  std::vector<std::size_t> corners_;
  Archive<std::vector<double>> archive_;  // of variables
  Box box_;
  std::vector<double> units_;  // of objectives: their ranges in the population

  std::unordered_set<std::uint64_t> seen_;  // hashes of points, of discrete problems only
  std::int64_t evaluations_ = 0;
  std::int64_t generations_ = 0;
  int idle_ = 0;               // generations in a row without a new point
  Box last_box_;               // when it last moved
  double last_violation_ = 0;  // the least of the population then
  std::int64_t moved_at_ = 0;  // evaluations then
};

/// Whether no component moved by as much as the algorithm's threshold, a share of `magnitudes`.
bool is_stable(const std::vector<double>& before, const std::vector<double>& after,
               const std::vector<double>& magnitudes);

/// The extents of a box.
std::vector<double> extents_of(const Box& box);

}  // namespace stweaver::pareto
