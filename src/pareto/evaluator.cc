#include "pareto/evaluator.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <span>
#include <thread>

#include "base/error.h"

namespace stweaver::pareto {
namespace {

/// A thread that has less to do than this, in seconds, does not gain what its start costs.
constexpr double kWorthAThread = 1e-4;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double evaluate_one(const Problem& problem, std::span<const double> point, std::span<double> objectives) {
  const double violation = problem.evaluate(point, objectives);
  if (!std::isfinite(violation) || violation < 0)
    fail("evaluate() returned a violation of ", violation,
         ": return 0 where feasible, else a positive number");
  for (std::size_t k = 0; k < objectives.size(); ++k) {
    if (!std::isfinite(objectives[k]))
      fail("evaluate() gave objective ", k, " as ", objectives[k],
           ": give finite objectives, and a positive violation where there are none");
  }
  return violation;
}

}  // namespace

Evaluator::Evaluator(const Problem& problem, int threads)
    : problem_(problem),
      threads_(threads > 0 ? static_cast<std::size_t>(threads)
                           : std::max(1U, std::thread::hardware_concurrency())) {}

std::size_t Evaluator::threads_for(std::size_t count) const {
  const double worth = seconds_ * static_cast<double>(count) / kWorthAThread;
  const std::size_t most = std::min(threads_, count);
  return worth >= static_cast<double>(most) ? most
                                            : std::max<std::size_t>(1, static_cast<std::size_t>(worth));
}

void Evaluator::evaluate(const Points& points, std::stop_token stop, Clock::time_point deadline,
                         Points& objectives, std::vector<double>& violations) {
  const std::size_t first = objectives.size();
  const std::size_t count = points.size();
  objectives.resize(first + count);
  violations.resize(first + count);
  const Clock::time_point begin = Clock::now();
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed = count;  // the first point that failed, so that it is the same on any number of threads
  const auto work = [&](std::size_t end) {
    while (!stop.stop_requested() && Clock::now() < deadline) {
      const std::size_t i = next++;
      if (i >= end) return;
      try {
        violations[first + i] = evaluate_one(problem_, points[i], objectives[first + i]);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (i < failed) failure = std::current_exception();
        failed = std::min(failed, i);
        next = count;
      }
    }
  };
  // The very first point tells what an evaluation costs.
  if (seconds_ == 0 && threads_ > 1 && count > 0) {
    work(1);
    if (next > 1 && !failure) next = 1;
    seconds_ = seconds_since(begin);
  }
  const std::size_t threads = threads_for(count);
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(work, count);
    work(count);
  }
  if (failure) std::rethrow_exception(failure);
  // Who takes a point finishes it: what is evaluated are the points before the next.
  const std::size_t evaluated = std::min(next.load(), count);
  objectives.resize(first + evaluated);
  violations.resize(first + evaluated);
  if (evaluated > 0)
    seconds_ = seconds_since(begin) * static_cast<double>(threads) / static_cast<double>(evaluated);
}

}  // namespace stweaver::pareto
