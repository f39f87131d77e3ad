// Plans for larger batches than were recorded, judged on batches that came later.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "archive/archive.h"
#include "device/host_device.h"
#include "plan/plan.h"
#include "simulate/simulate.h"
#include "synthetic_trainer.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

/// The whole job under a plan from the first third of its steps, for batches `scale` times the largest there.
RuntimeStatistics served(const Trace& trace, const Trace& part, double scale) {
  Profile known = profile_of(part);
  extend_to_scale(known.pattern, part, scale);
  Plan plan = synthesize(part, known, {.timeout = 5}).plan;
  EXPECT_THAT(check_plan(plan, part), testing::IsEmpty());
  ServeOptions options = {.plan = std::make_shared<PlanIndex>(std::move(plan))};
  for (const Lifespan& step : profile_of(trace).steps.spans) options.replay.steps.push_back(step.lower);
  options.replay.watch = {.ranges = true};
  HostDevice device(kAmpleCapacity);
  const Serving serving = serve(trace, device, options);
  EXPECT_EQ(serving.replay.corrupt_blocks, 0);
  return serving.statistics;
}

std::int64_t too_large(const RuntimeStatistics& statistics) {
  return statistics.served.unplanned[static_cast<std::size_t>(Unplanned::kTooLarge)];
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
  const RuntimeStatistics plain = served(trace, part, 1);
  const RuntimeStatistics scaled = served(trace, part, scale);
  const std::int64_t requests = scaled.served.in_plan() + scaled.served.beside_plan();
  EXPECT_LT(plain.served.planned, requests * 3 / 4) << "batches outgrow the plain plan";
  EXPECT_GE(scaled.served.planned, requests * 99 / 100);
  EXPECT_EQ(scaled.served.beside_plan(), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ScaledPlan, testing::Values(1, 2, 3, 4, 5, 6));

TEST(ScaledPlan, ServesTheTransformersTrainerItWasRecordedFrom) {
  const auto file = std::filesystem::path(STWEAVER_TEST_DATA) / "traces" / "hf_trainer_varlen.pickle.xz";
  const Trace trace = read_traces(open_archive(file), file.filename().string()).at(0);
  const Trace part = planning_part(trace, profile_of(trace));
  const RuntimeStatistics plain = served(trace, part, 1);
  const RuntimeStatistics scaled = served(trace, part, 1.25);
  EXPECT_GT(too_large(plain), 100);
  EXPECT_LE(too_large(scaled), too_large(plain) / 20);
  EXPECT_GT(scaled.served.planned, plain.served.planned);
}

}  // namespace
}  // namespace stweaver
