#include "simulate/comparison.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/checked.h"
#include "profile/job.h"

namespace stweaver {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

Trace trained(const std::vector<Bytes>& scales, const Training::Shape& shape = {}) {
  Training training(shape);
  for (const Bytes scale : scales) training.step(scale);
  return training.job.trace();
}

Trace fixed(std::size_t steps) {
  return trained(std::vector<Bytes>(steps, 8));
}

/// compare(), its plan checked.
Comparison compared(const Trace& trace) {
  const SynthesizeOptions options{.timeout = 5};
  const Trace part = planning_part(trace, profile_of(trace));
  EXPECT_THAT(check_plan(synthesize(part, profile_of(part), options).plan, part), IsEmpty());
  return compare(trace, options);
}

/// How many steps of a trace planning_part() leaves.
std::size_t planned_steps(const Trace& trace) {
  const Profile profile = profile_of(trace);
  const Trace part = planning_part(trace, profile);
  for (std::size_t step = 0; step < profile.steps.spans.size(); ++step) {
    if (profile.steps.spans[step].upper == part.end) return step + 1;
  }
  ADD_FAILURE() << "the part ends inside a step, at " << part.end;
  return 0;
}

// ---- what is planned from ----

TEST(PlanningPart, IsAllOfAJobWithoutSteps) {
  Job job;
  job.touch(512);
  job.allocate(4096);
  const Trace trace = job.trace();
  EXPECT_EQ(planning_part(trace, profile_of(trace)).end, trace.end);
}

TEST(PlanningPart, IsAllOfAJobOfOneStep) {
  const Trace trace = fixed(1);
  EXPECT_EQ(planning_part(trace, profile_of(trace)).end, trace.end);
}

TEST(PlanningPart, LeavesOutTheLastStep) {
  for (const std::size_t steps : {2U, 3U, 4U, 9U}) {
    SCOPED_TRACE(steps);
    ASSERT_EQ(profile_of(fixed(steps)).steps.spans.size(), steps);
    EXPECT_EQ(planned_steps(fixed(steps)), steps - 1);
  }
}

TEST(PlanningPart, IsTheFirstThirdOfStepsThatVary) {
  const std::vector<Bytes> scales = {8, 13, 9, 16, 11, 14, 10, 15, 12, 8, 13, 16};
  ASSERT_EQ(profile_of(trained(scales)).steps.spans.size(), 12U);
  EXPECT_EQ(planned_steps(trained(scales)), 4U);
}

TEST(PlanningPart, HasThreeStepsThatVaryButNeverTheLast) {
  EXPECT_EQ(planned_steps(trained({8, 13, 9, 16, 11, 14})), 3U);
  EXPECT_EQ(planned_steps(trained({8, 13, 9})), 2U);
}

TEST(PlanningPart, KnowsNothingOfWhatComesLater) {
  // Jobs that part ways in their last step are planned alike.
  const Trace trace = trained({8, 8, 8, 8});
  const Trace other = trained({8, 8, 8, 40});
  const Trace part = planning_part(trace, profile_of(trace));
  const Trace other_part = prefix_of(other, part.end);
  EXPECT_EQ(fingerprint_of(part), fingerprint_of(other_part));
  EXPECT_EQ(checked_plan(part).arena, checked_plan(other_part).arena);
}

// ---- the comparison ----

TEST(Compare, TellsWhatTheTraceHolds) {
  const Trace trace = fixed(5);
  const Comparison comparison = compared(trace);
  EXPECT_EQ(comparison.trace, trace.name);
  EXPECT_EQ(comparison.requests, trace.requests.size());
  EXPECT_EQ(comparison.steps, 5U);
  EXPECT_EQ(comparison.stweaver.planned_steps, 4U);
  EXPECT_EQ(comparison.requested_peak, peak_requested(trace));
  EXPECT_EQ(comparison.lower_bound, rounded_peak(trace, kAlignment));
}

TEST(Compare, APlanServesAStepThatItHasNotSeen) {
  const Trace trace = fixed(5);
  const Woven woven = compared(trace).stweaver;
  EXPECT_EQ(woven.hits, static_cast<std::int64_t>(trace.requests.size()));
  EXPECT_EQ(woven.misses, 0);
  EXPECT_EQ(woven.fallback_reserved_peak, 0);
  EXPECT_EQ(woven.reserved_peak, woven.arena);
  EXPECT_GE(woven.efficiency,
            0.999 * to_gib(peak_requested(trace)) / to_gib(rounded_peak(trace, kAlignment)));
}

TEST(Compare, AStepThatIsNotLikeTheOthersCostsTheFallback) {
  const Trace trace = trained({8, 8, 8, 8, 40});
  const Woven woven = compared(trace).stweaver;
  EXPECT_GT(woven.misses, 0);
  EXPECT_GT(woven.fallback_reserved_peak, 0);
  EXPECT_EQ(woven.hits + woven.misses, static_cast<std::int64_t>(trace.requests.size()));
  EXPECT_EQ(woven.reserved_peak, woven.arena + woven.fallback_reserved_peak);
}

TEST(Compare, NobodyReservesLessThanWasRequested) {
  for (const Trace& trace :
       {fixed(1), fixed(2), fixed(4), trained({8, 13, 9, 16, 11, 14}),
        trained({8, 8, 8, 20}, {.side_stream = 3}), trained({8, 9, 8, 9}, {.zero_grad_first = true})}) {
    const Comparison comparison = compared(trace);
    for (const Bytes reserved :
         {comparison.native.peak, comparison.expandable.peak, comparison.stweaver.reserved_peak})
      EXPECT_GE(reserved, comparison.requested_peak);
    for (const double efficiency :
         {comparison.native.efficiency, comparison.expandable.efficiency, comparison.stweaver.efficiency})
      EXPECT_THAT(efficiency, AllOf(testing::Gt(0), testing::Le(1)));
  }
}

TEST(Compare, NativeIsMeasuredWhereTheTraceShowsSegments) {
  Trace trace = fixed(3);
  EXPECT_FALSE(compared(trace).native.measured);
  trace.reserves = {{0, kGiB}, {5, 3 * kGiB}, {9, 2 * kGiB}};
  const Comparison comparison = compared(trace);
  EXPECT_TRUE(comparison.native.measured);
  EXPECT_EQ(comparison.native.peak, 3 * kGiB);
  EXPECT_EQ(comparison.native.efficiency, to_gib(comparison.requested_peak) / 3);
  EXPECT_FALSE(comparison.expandable.measured);
}

TEST(Compare, NativeIsSimulatedWhereTheJobRanWithExpandableSegments) {
  Trace trace = fixed(3);
  const Bytes simulated = compared(trace).native.peak;
  trace.reserves = {{0, 3 * kGiB}};
  trace.settings = "expandable_segments:True";
  const Comparison comparison = compared(trace);
  EXPECT_FALSE(comparison.native.measured);
  EXPECT_EQ(comparison.native.peak, simulated);
}

TEST(Compare, NativeIsSimulatedWhereSettingsAreUnknown) {
  Trace trace = fixed(3);
  trace.reserves = {{0, 3 * kGiB}};
  trace.settings = "from_the_future:True";
  EXPECT_FALSE(compared(trace).native.measured);
}

TEST(Compare, OfOneRequestIsEven) {
  Job job;
  job.allocate(30 * kMiB);
  const Comparison comparison = compared(job.trace());
  EXPECT_EQ(comparison.stweaver.hits, 1);
  EXPECT_EQ(comparison.stweaver.efficiency, 1);
  EXPECT_EQ(comparison.reduction(comparison.native), 0);
}

TEST(Compare, OfRequestsThatCannotBePlannedIsTheFallbackAlone) {
  Job job;
  for (int i = 0; i < 20; ++i) job.allocate(3 * kMiB, 0, 1);
  const Comparison comparison = compared(job.trace());
  EXPECT_EQ(comparison.stweaver.arena, 0);
  EXPECT_EQ(comparison.stweaver.hits, 0);
  EXPECT_EQ(comparison.stweaver.misses, 20);
  EXPECT_EQ(comparison.stweaver.reserved_peak, comparison.native.peak);
}

TEST(Compare, OfRequestsOfNoBytesIsEven) {
  Job job;
  for (int i = 0; i < 3; ++i) job.allocate(0);
  const Comparison comparison = compared(job.trace());
  EXPECT_EQ(comparison.requested_peak, 0);
  EXPECT_EQ(comparison.native.efficiency, 1);
  EXPECT_EQ(comparison.reduction(comparison.native), 0);
}

TEST(Compare, RefusesAJobThatNoDeviceHolds) {
  Job job;
  job.allocate(Bytes{1} << 43U);
  const Trace trace = job.trace();
  EXPECT_THAT([&] { compare(trace, {}); },
              ThrowsMessage<Error>(AllOf(HasSubstr(trace.name), HasSubstr("more memory than any device"))));
}

// ---- the reduction ----

TEST(Reduction, IsTheShareOfTheirWasteThatIsGone) {
  Comparison comparison;
  comparison.stweaver.efficiency = 0.99;
  EXPECT_NEAR(comparison.reduction({.efficiency = 0.9}), 0.9, 1e-12);
  EXPECT_NEAR(comparison.reduction({.efficiency = 0.98}), 0.5, 1e-12);
}

TEST(Reduction, IsNegativeWhereMoreIsWasted) {
  Comparison comparison;
  comparison.stweaver.efficiency = 0.8;
  EXPECT_NEAR(comparison.reduction({.efficiency = 0.9}), -1, 1e-12);
}

TEST(Reduction, IsNothingWhereNothingWasWasted) {
  Comparison comparison;
  comparison.stweaver.efficiency = 0.8;
  EXPECT_EQ(comparison.reduction({.efficiency = 1}), 0);
}

}  // namespace
}  // namespace stweaver
