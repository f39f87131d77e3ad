// Plans for larger batches than were recorded, judged on batches that came later.
#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/plan.h"
#include "simulate/simulate.h"
#include "synthetic_trainer.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

/// Requests of later steps that are larger than the slots of a plan from the first third of the steps, made
/// for batches `scale` times the largest there. All steps make the same requests.
std::int64_t too_large(const Trace& trace, const Trace& part, double scale) {
  Profile known = profile_of(part);
  extend_to_scale(known.pattern, part, scale);
  const Plan plan = synthesize(part, known, {.timeout = 5}).plan;
  EXPECT_THAT(check_plan(plan, part), testing::IsEmpty());
  const std::vector<RequestId> births = births_before(trace);
  std::int64_t count = 0;
  for (const Lifespan& step : profile_of(trace).steps.spans) {
    const RequestId first = births[static_cast<std::size_t>(step.lower)];
    const RequestId end = births[static_cast<std::size_t>(step.upper)];
    if (step.lower < part.end) continue;
    for (RequestId id = first; id < end; ++id) {
      const std::size_t slot = plan.prologue + (id - first);
      if (slot >= plan.slots.size() || trace.requests[id].size > plan.slots[slot].size) ++count;
    }
  }
  return count;
}

/// By how much the last step's batch is larger than that of the last step that is known. All steps make the
/// same requests, and most are proportional to the batch.
double growth(const Trace& trace, const Trace& part) {
  const auto last_step = [](const Trace& job) {
    std::vector<Bytes> sizes;
    const Time begin = profile_of(job).steps.spans.back().lower;
    for (const Request& request : job.requests) {
      if (request.life.lower >= begin) sizes.push_back(request.size);
    }
    return sizes;
  };
  const std::vector<Bytes> after = last_step(trace);
  const std::vector<Bytes> before = last_step(part);
  double most = 1;
  for (std::size_t i = 0; i < std::min(after.size(), before.size()); ++i)
    most = std::max(most, static_cast<double>(after[i]) / static_cast<double>(before[i]));
  return most;
}

class ScaledPlan : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ScaledPlan, HasPlacesForEveryLaterAndLongerBatch) {
  const Trace trace = make_job(Family::kGrowing, GetParam(), 18);
  const Trace part = planning_part(trace, profile_of(trace));
  const double scale = growth(trace, part);
  ASSERT_GT(scale, 1.05);
  EXPECT_GT(too_large(trace, part, 1), 0) << "batches outgrow the plain plan";
  EXPECT_EQ(too_large(trace, part, scale), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ScaledPlan, testing::Values(1, 2, 3, 4, 5, 6));

}  // namespace
}  // namespace stweaver
