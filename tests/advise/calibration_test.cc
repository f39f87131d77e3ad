#include "advise/calibration.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/memory.h"
#include "base/base.h"
#include "support/pipeline.h"

namespace stweaver {
namespace {

using testing::HasSubstr;

/// What is recorded of a rank of a job that differs from the model by these factors.
RecordedRank recording(Job job, int stage, const Calibration& calibration) {
  job.calibration = calibration;
  return recorded_rank(rank_trace(job, stage), pipeline_job(), stage);
}

TEST(Calibration, FindsByHowMuchAJobDiffers) {
  const Calibration given{.states = 0.8, .activations = 1.3};
  const std::array ranks = {recording(pipeline_job(), 0, given), recording(pipeline_job(), 3, given)};
  const Calibration found = calibrate(ranks);
  EXPECT_NEAR(found.states, given.states, 0.01);
  EXPECT_NEAR(found.activations, given.activations, 0.02);
  for (const RecordedRank& rank : ranks) EXPECT_NEAR(predicted_peak(rank, found) / rank.peak, 1, 0.02);
}

TEST(Calibration, IsNoneWithoutRanks) {
  EXPECT_EQ(calibrate({}).states, 1);
  EXPECT_EQ(calibrate({}).activations, 1);
}

TEST(Calibration, CarriesOverToClosedFormAndTrace) {
  Job job = pipeline_job();
  job.calibration = {.states = 1.5, .activations = 0.5};
  const auto asked = static_cast<double>(peak_requested(rank_trace(job, 0)));
  EXPECT_NEAR(live_memory(job, 0).peak() / asked, 1, 0.01);
  EXPECT_DOUBLE_EQ(live_memory(job, 0).states, 1.5 * live_memory(pipeline_job(), 0).states);
}

TEST(Calibration, RefusesARecordingOfAnotherModel) {
  Job larger = pipeline_job();
  larger.model = known_model("llama3_70b");
  const Trace trace = rank_trace(pipeline_job(), 0);
  EXPECT_THAT([&] { (void)recorded_rank(trace, larger, 0); },
              testing::ThrowsMessage<Error>(HasSubstr("another model or layout")));
  EXPECT_THAT([&] { (void)recorded_rank(rank_trace(larger, 0), pipeline_job(), 0); },
              testing::ThrowsMessage<Error>(HasSubstr("another model or layout")));
  EXPECT_NO_THROW(recording(pipeline_job(), 0, {.states = 0.6, .activations = 1}));
  EXPECT_NO_THROW(recording(pipeline_job(), 0, {.states = 1.9, .activations = 1}));
}

TEST(Calibration, WantsSteps) {
  Trace trace = rank_trace(pipeline_job(), 0);
  trace.marks = {{0, "iteration 0"}, {trace.end, "end"}};
  try {
    recorded_rank(trace, pipeline_job(), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("record two whole ones"));
  }
}

}  // namespace
}  // namespace stweaver
