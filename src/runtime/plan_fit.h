// Whether the plan that is followed fits the job.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <memory>
#include <utility>

#include "runtime/plan_index.h"
#include "runtime/policy.h"
#include "runtime/statistics.h"

namespace stweaver {

/// Whether the plan, of steps alone, foretells the last whole step between two marks of a recording: which
/// requests come and how long they live. True where there is no such step.
bool foretells_last_step(const std::shared_ptr<const PlanIndex>& plan, const Trace& recording,
                         const Policy& policy);

/// Is told of each step, and judges. Where planning again did not help, it bears more the next time.
class PlanFit {
 public:
  explicit PlanFit(const Policy& policy) : policy_(&policy), patience_(policy.patience) {}

  /// A step has ended, under a plan or not.
  void note(const StepStatistics& step) {
    const auto differ = [&](std::int64_t a, std::int64_t b) {
      return std::abs(a - b) > std::max(a, b) / policy_->misfit_share;
    };
    const StepStatistics before = std::exchange(before_, step);
    if (before.served.all() == 0) return;  // there was none
    alike_.push_back(!differ(step.served.all(), before.served.all()) &&
                     !differ(step.peaks.requested, before.peaks.requested));
    if (std::ssize(alike_) > policy_->most_steps) alike_.pop_front();
  }

  /// Whether two of three steps of late were like the one before, in requests and bytes. Where they were not,
  /// two in a row that are the same are so by chance.
  [[nodiscard]] bool steps_repeat() const {
    return 3 * std::ranges::count(alike_, true) >= 2 * std::ssize(alike_);
  }

  /// A plan is followed from now on.
  void start() { misfits_ = fits_ = astray_ = 0; }

  /// Whether in the last steps hardly a request found its place, of `planned` that have one: to look for
  /// others costs more time than to have no plan. To be asked after each step.
  bool is_lost(const StepStatistics& step, std::int64_t planned) {
    astray_ = step.served.planned < planned / policy_->astray_share ? astray_ + 1 : 0;
    return astray_ >= policy_->patience && bear_more();
  }

  /// Whether the job has changed: the last steps did not fit a plan of `planned` bytes, and were no odd ones
  /// (an evaluation, a checkpoint). To be asked after each step.
  bool is_outdated(const StepStatistics& step, Bytes planned) {
    if (step.unplanned_bytes > planned / policy_->misfit_share) {
      fits_ = 0;
      return ++misfits_ >= patience_ && bear_more();
    }
    misfits_ = 0;
    if (++fits_ == policy_->most_patience) patience_ = policy_->patience;
    return false;
  }

  /// Steps to do without a plan before the next is tried.
  [[nodiscard]] int patience() const { return patience_; }

 private:
  bool bear_more() {
    patience_ = std::min(2 * patience_, policy_->most_patience);
    return true;
  }

  const Policy* policy_;
  StepStatistics before_;   ///< the last step
  std::deque<bool> alike_;  ///< each of the last steps: whether it was like the one before it
  int misfits_ = 0;         ///< steps in a row that the plan did not fit
  int fits_ = 0;            ///< steps in a row that it fitted
  int astray_ = 0;          ///< steps in a row in which few requests found their places
  int patience_;            ///< misfits to bear
};

}  // namespace stweaver
