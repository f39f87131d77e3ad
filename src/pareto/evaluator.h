// Evaluates points on several threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>

#include "pareto/maoea_cs.h"
#include "pareto/points.h"
#include "pareto/problem.h"

namespace stweaver::pareto {

using Clock = std::chrono::steady_clock;

/// When a search that begins then has to end.
Clock::time_point deadline_of(Clock::time_point begin, const SearchOptions& options);

class Evaluator {
 public:
  /// Its time begins now. `problem` must outlive it. Error when the problem has nothing to evaluate it.
  Evaluator(const Problem& problem, const SearchOptions& options);

  /// What the points are, up to where the options' `stop` or `seconds` ended it.
  Evaluations evaluate(const Points& points);

 private:
  /// How many threads are worth their start for so many points.
  [[nodiscard]] std::size_t threads_for(std::size_t count) const;

  const Problem& problem_;
  std::size_t threads_;
  std::stop_token stop_;
  Clock::time_point deadline_;
  double seconds_ = 0;  ///< that one evaluation takes, as the last points showed
};

}  // namespace stweaver::pareto
