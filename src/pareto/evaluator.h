// Evaluates points on several threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <vector>

#include "pareto/points.h"
#include "pareto/problem.h"

namespace stweaver::pareto {

using Clock = std::chrono::steady_clock;

class Evaluator {
 public:
  /// `threads` 0: as many as the machine has. `problem` must outlive it.
  Evaluator(const Problem& problem, int threads);

  /// Appends the objectives and violations of the points in their order, up to where `stop` or the deadline
  /// ended it. Error as for minimize().
  void evaluate(const Points& points, std::stop_token stop, Clock::time_point deadline, Points& objectives,
                std::vector<double>& violations);

 private:
  /// How many threads are worth their start for so many points.
  [[nodiscard]] std::size_t threads_for(std::size_t count) const;

  const Problem& problem_;
  std::size_t threads_;
  double seconds_ = 0;  ///< that one evaluation takes, as the last points showed
};

}  // namespace stweaver::pareto
