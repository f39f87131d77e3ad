#include "pareto/evaluator.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/parallel_for.h"

namespace stweaver::pareto {
namespace {

/// A thread that has less to do than this, in seconds, does not gain what its start costs.
constexpr double kWorthAThread = 1e-4;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Clock::time_point deadline_of(Clock::time_point begin, const SearchOptions& options) {
  constexpr double kLong = 1e9;
  if (!options.seconds || *options.seconds > kLong) return Clock::time_point::max();
  return begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*options.seconds));
}

Evaluator::Evaluator(const Problem& problem, const SearchOptions& options)
    : problem_(problem),
      threads_(options.threads > 0 ? static_cast<std::size_t>(options.threads)
                                   : std::max(1U, std::thread::hardware_concurrency())),
      stop_(options.stop),
      deadline_(deadline_of(Clock::now(), options)) {
  if (!problem.evaluate) fail("the problem has no function to evaluate: set `evaluate`");
}

std::size_t Evaluator::threads_for(std::size_t count) const {
  const double worth = seconds_ * static_cast<double>(count) / kWorthAThread;
  const std::size_t most = std::min(threads_, count);
  return worth >= static_cast<double>(most) ? most
                                            : std::max<std::size_t>(1, static_cast<std::size_t>(worth));
}

Evaluations Evaluator::evaluate(const Points& points) {
  const std::size_t count = points.size();
  Evaluations found{.objectives = Points(static_cast<std::size_t>(problem_.objectives)),
                    .violations = std::vector<double>(count)};
  found.objectives.resize(count);
  const Clock::time_point begin = Clock::now();
  std::atomic<std::size_t> next = 0;
  FirstFailure failure;
  const auto work = [&](std::size_t end) {
    while (!stop_.stop_requested() && Clock::now() < deadline_) {
      const std::size_t i = next++;
      if (i >= end) return;
      try {
        found.violations[i] = problem_.evaluate(points[i], found.objectives[i]);
      } catch (...) {
        failure.note(i);
        next = count;
      }
    }
  };
  // The very first point tells what an evaluation costs.
  if (seconds_ == 0 && threads_ > 1 && count > 0) {
    work(1);
    if (next > 1 && !failure.any()) next = 1;
    seconds_ = seconds_since(begin);
  }
  const std::size_t threads = threads_for(count);
  on_threads(threads, [&] { work(count); });
  failure.rethrow();
  // Who takes a point finishes it: what is evaluated are the points before the next.
  const std::size_t evaluated = std::min(next.load(), count);
  found.objectives.resize(evaluated);
  found.violations.resize(evaluated);
  if (evaluated > 0)
    seconds_ = seconds_since(begin) * static_cast<double>(threads) / static_cast<double>(evaluated);
  return found;
}

}  // namespace stweaver::pareto
