// MaOEA-CS: a search for the whole Pareto front of many objectives that looks for its corners first.
// Cai, Sun, Zhu, Li, Zhang: "Locating the Boundaries of Pareto Fronts", arXiv 1806.02967; the constants are
// those of the version that won the 2017 competition on evolutionary many-objective optimization.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "pareto/points.h"
#include "pareto/problem.h"

namespace stweaver::pareto {

struct SearchOptions {
  std::int64_t evaluations = 100'000;  ///< the last generation may overshoot by less than a population
  std::uint64_t seed = 1;
  int population = 0;  ///< 0: 25 for each objective; rounded up to a multiple of the objectives
  int threads = 0;     ///< that evaluate; 0: as many as the machine has
  std::optional<double> seconds = {};  ///< returns what it has then
  /// Returns after so many evaluations in which neither the least violation changed nor the ideal point or
  /// the nadir estimate moved by more than the share of the front's extent at which the algorithm calls them
  /// stable; 0: never.
  std::int64_t stagnation = 0;
  std::stop_token stop = {};  ///< returns what it has, too
  bool archive = false;       ///< keep what no feasible point dominates, not the population alone

  /// Measure objectives in units of their ranges in the population, so that it does not matter whether one is
  /// in bytes and another in seconds, and lengths in parts of the front's extent as known so far. False: as
  /// published, where lengths in objective space are taken as they come, and objectives are equal that agree
  /// in four decimals.
  bool normalize = true;
};

/// Why a search is over.
enum class End : unsigned char { kEvaluations, kNoNewPoints, kStagnation, kSeconds, kStopped };
/// "evaluations", "no new points", ...
const char* name_of(End end);

struct SearchResult {
  std::vector<Solution> population;  ///< the last generation, dominated members among it
  /// With `archive`: all feasible points evaluated that no other dominates, of equal ones the last.
  std::vector<Solution> archive;
  /// Feasible members that are best in all objectives but one, and those best in one that reach beyond these.
  /// What differs by less than 1/10000 of the front's extent counts as equal.
  std::vector<Solution> corners;
  std::int64_t evaluations = 0;
  std::int64_t generations = 0;
  std::optional<std::int64_t> switched_at = {};  ///< evaluations when corners were stable
  double seconds = 0;
  std::optional<End> end = {};  ///< nothing while it could go on
};

/// Searches `problem`. The same seed gives the same result on any number of threads, unless `seconds` or
/// `stop` ends it. Feasible solutions come before others, those by their violation. Where all variables are
/// integers or categories no point is evaluated twice, and the search ends when it finds no new ones.
///
/// Error when the problem or an option makes no sense, and when evaluate() returns what it must not; what
/// evaluate() throws is passed on.
SearchResult minimize(const Problem& problem, const SearchOptions& options = {});

/// The same search for who evaluates points himself, wherever that is: until there is an end(), ask() for
/// points and tell() what they are. It needs no Problem::evaluate; of the options `threads` means nothing.
class MaoeaCs {
 public:
  /// Error as for minimize().
  MaoeaCs(const Problem& problem, const SearchOptions& options);
  MaoeaCs(MaoeaCs&& other) noexcept;
  MaoeaCs& operator=(MaoeaCs&& other) noexcept;
  ~MaoeaCs();

  /// The points of the next generation; none where it found no new ones, which is to be told as well.
  Points ask();
  /// Of the first points that were asked for, or some of them. Error for a number that is not finite, and a
  /// negative violation.
  void tell(const Points& points, const Evaluations& evaluations);

  [[nodiscard]] std::optional<End> end() const;
  [[nodiscard]] SearchResult result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stweaver::pareto
