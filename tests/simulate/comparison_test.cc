#include "simulate/comparison.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/checked.h"
#include "support/job.h"
#include "support/trained.h"

namespace stweaver {
namespace {

constexpr Bytes kPage = 2 * kMiB;  // of a host device: arenas are whole pages

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

std::int64_t hits(const Serving& serving) {
  return serving.statistics.served.in_plan();
}

std::int64_t misses(const Serving& serving) {
  return serving.statistics.served.beside_plan();
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

TEST(Compare, KnowsTheStepsOfThePartThatIsPlannedFrom) {
  // Their micro-batches would be taken for steps, were there no others.
  Training training({.micro_batches = 8});
  for (int step = 0; step < 3; ++step) training.step();
  Trace trace = training.job.trace();
  trace.marks.clear();
  ASSERT_EQ(profile_of(trace).steps.spans.size(), 3U);
  const Trace part = planning_part(trace, profile_of(trace));
  ASSERT_NE(profile_of(part).steps.spans.size(), 2U);
  const Comparison comparison = compared(trace);
  EXPECT_EQ(comparison.planned_steps, 2U);
  EXPECT_EQ(misses(comparison.stweaver), 0);
}

TEST(Compare, TellsWhatTheTraceHolds) {
  const Trace trace = fixed(5);
  const Comparison comparison = compared(trace);
  EXPECT_EQ(comparison.trace, trace.name);
  EXPECT_EQ(comparison.requests, trace.requests.size());
  EXPECT_EQ(comparison.steps, 5U);
  EXPECT_EQ(comparison.planned_steps, 4U);
  EXPECT_EQ(comparison.requested_peak, peak_requested(trace));
  EXPECT_EQ(comparison.lower_bound, rounded_peak(trace, kAlignment));
}

TEST(Compare, APlanServesAStepThatItHasNotSeen) {
  const Trace trace = fixed(5);
  const Serving ours = compared(trace).stweaver;
  EXPECT_EQ(hits(ours), static_cast<std::int64_t>(trace.requests.size()));
  EXPECT_EQ(misses(ours), 0);
  EXPECT_EQ(ours.statistics.peaks.fallback_reserved, 0);
  EXPECT_EQ(ours.replay.reserved_peak, ours.statistics.arena);
  const Bytes bound = rounded_peak(trace, kAlignment);
  EXPECT_LE(ours.replay.reserved_peak, bound + bound / 1000 + kPage);
}

TEST(Compare, AStepThatIsNotLikeTheOthersNeedsMoreThanThePlan) {
  const Trace trace = trained({8, 8, 8, 8, 40});
  const Serving ours = compared(trace).stweaver;
  EXPECT_GT(misses(ours), 0);
  EXPECT_GT(ours.statistics.planned_arena, 0);
  EXPECT_GT(ours.replay.reserved_peak, ours.statistics.planned_arena);
  EXPECT_EQ(hits(ours) + misses(ours), static_cast<std::int64_t>(trace.requests.size()));
  EXPECT_EQ(ours.replay.reserved_peak, ours.statistics.peaks.reserved);
}

TEST(Compare, NobodyReservesLessThanWasRequested) {
  for (const Trace& trace :
       {fixed(1), fixed(2), fixed(4), trained({8, 13, 9, 16, 11, 14}),
        trained({8, 8, 8, 20}, {.side_stream = 3}), trained({8, 9, 8, 9}, {.zero_grad_first = true})}) {
    const Comparison comparison = compared(trace);
    const ReplayResult& ours = comparison.stweaver.replay;
    for (const Bytes reserved : {comparison.native.peak, comparison.expandable.peak, ours.reserved_peak})
      EXPECT_GE(reserved, comparison.requested_peak);
    for (const double efficiency :
         {comparison.native.efficiency, comparison.expandable.efficiency, ours.efficiency()})
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
  EXPECT_TRUE(comparison.expandable.measured);
  EXPECT_EQ(comparison.expandable.peak, 3 * kGiB);
}

TEST(Compare, SimulatesPyTorchWithTheSettingsOfTheJob) {
  Job job;
  job.allocate(65 * kMiB);
  Trace trace = job.trace();
  trace.settings = "roundup_power2_divisions:1,per_process_memory_fraction:0.001";
  EXPECT_EQ(compared(trace).native.peak, 66 * kMiB);
  trace.settings = "roundup_power2_divisions:2,expandable_segments:True,oldest_first:True";
  const Comparison comparison = compared(trace);
  EXPECT_EQ(comparison.native.peak, 96 * kMiB);
  EXPECT_EQ(comparison.expandable.peak, 100 * kMiB);  // in pages of 20 MiB
  EXPECT_TRUE(settings_of(trace, AllocatorKind::kNative).oldest_first);
}

TEST(Compare, NativeIsSimulatedWhereSettingsAreOfAnotherAllocator) {
  Trace trace = fixed(3);
  trace.reserves = {{0, 3 * kGiB}};
  trace.settings = "backend:cudaMallocAsync";
  EXPECT_FALSE(compared(trace).native.measured);
  trace.settings = "from_the_future:True,max_split_size_mb:64,";
  EXPECT_TRUE(compared(trace).native.measured) << "PyTorch's own allocator, of a later release";
}

TEST(Compare, OfOneRequestIsEven) {
  Job job;
  job.allocate(30 * kMiB);
  const Comparison comparison = compared(job.trace());
  EXPECT_EQ(hits(comparison.stweaver), 1);
  EXPECT_EQ(comparison.stweaver.replay.efficiency(), 1);
  EXPECT_EQ(comparison.reduction(comparison.native), 0);
}

TEST(Compare, OfRequestsThatCannotBePlannedIsTheFallbackAlone) {
  Job job;
  for (int i = 0; i < 20; ++i) job.allocate(3 * kMiB, 0, 1);
  const Comparison comparison = compared(job.trace());
  EXPECT_EQ(comparison.stweaver.statistics.arena, 0);
  EXPECT_EQ(hits(comparison.stweaver), 0);
  EXPECT_EQ(misses(comparison.stweaver), 20);
  EXPECT_EQ(comparison.stweaver.replay.reserved_peak, comparison.native.peak);
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

// ---- planned inside the job ----

TEST(Compare, ServesOnlineOnlyWhenAsked) {
  EXPECT_FALSE(compared(fixed(5)).online.has_value());
}

TEST(Compare, OnlineServesAllRequestsOfAJobThatBeginsWithoutAPlan) {
  const Trace trace = fixed(8);
  const Comparison comparison = compare(trace, {}, true);
  ASSERT_TRUE(comparison.online.has_value());
  const Serving& online = *comparison.online;
  EXPECT_EQ(online.statistics.plans, 1);
  EXPECT_EQ(online.replay.corrupt_blocks, 0);
  EXPECT_EQ(hits(online) + misses(online), static_cast<std::int64_t>(trace.requests.size()));
  EXPECT_GT(hits(online), 0);
  EXPECT_GT(misses(online), 0);
}

// ---- the reduction ----

ReplayResult reserving(double efficiency) {
  constexpr Bytes kReserved = 1000;
  return {.reserved_peak = kReserved, .requested_peak = static_cast<Bytes>(efficiency * kReserved)};
}

TEST(Reduction, IsTheShareOfTheirWasteThatIsGone) {
  Comparison comparison;
  comparison.stweaver.replay = reserving(0.99);
  EXPECT_NEAR(comparison.reduction({.efficiency = 0.9}), 0.9, 1e-12);
  EXPECT_NEAR(comparison.reduction({.efficiency = 0.98}), 0.5, 1e-12);
}

TEST(Reduction, IsNegativeWhereMoreIsWasted) {
  Comparison comparison;
  comparison.stweaver.replay = reserving(0.8);
  EXPECT_NEAR(comparison.reduction({.efficiency = 0.9}), -1, 1e-12);
}

TEST(Reduction, IsNothingWhereNothingWasWasted) {
  Comparison comparison;
  comparison.stweaver.replay = reserving(0.8);
  EXPECT_EQ(comparison.reduction({.efficiency = 1}), 0);
}

}  // namespace
}  // namespace stweaver
