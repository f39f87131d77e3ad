// A made-up training job, its plan, and how it may run otherwise.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/runtime.h"
#include "support/checked.h"
#include "support/job.h"
#include "support/script.h"

namespace stweaver {

/// Where the steps of a training begin and end.
inline std::vector<Lifespan> spans_of(const Training& training) {
  std::vector<Lifespan> spans;
  for (const Time begin : training.begins()) {
    if (!spans.empty()) spans.back().upper = begin;
    spans.push_back({begin, training.job.now()});
  }
  return spans;
}

/// A training job of six steps and its plan, made from the first five.
struct PlannedTraining {
  explicit PlannedTraining(const Training::Shape& shape) {
    Training training(shape);
    for (int i = 0; i < 6; ++i) training.step();
    const Trace trace = training.job.trace();
    script = script_of(trace, spans_of(training), 0);
    plan = std::make_shared<PlanIndex>(checked_plan(prefix_of(trace, training.begins().back())));
    EXPECT_GT(plan->plan().slots.size(), plan->plan().prologue) << "no step was found";
  }

  /// A request in the middle of a step.
  [[nodiscard]] RequestId middle_of(std::size_t step) const {
    return script.steps[step][script.steps[step].size() / 2];
  }

  Script script;
  std::shared_ptr<const PlanIndex> plan;
};

inline PlannedTraining plain_training() {
  return PlannedTraining({.layers = 12});
}

inline PlannedTraining training_on_two_streams() {
  return PlannedTraining({.layers = 12, .side_stream = 7});
}

}  // namespace stweaver
