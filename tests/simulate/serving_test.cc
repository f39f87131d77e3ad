#include "simulate/serving.h"

#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device.h"
#include "plan/synthesize.h"
#include "simulate/caching_allocator.h"
#include "support/job.h"
#include "support/trained.h"

namespace stweaver {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

constexpr Training::Shape kLarge = {.unit = kMiB};

std::int64_t requests_of(const Trace& trace) {
  return static_cast<std::int64_t>(trace.requests.size());
}

std::shared_ptr<const PlanIndex> plan_of(const Trace& trace) {
  return std::make_shared<PlanIndex>(synthesize(trace, profile_of(trace), {.timeout = 5}).plan);
}

/// serve() on host memory, everything watched.
Serving served(const Trace& trace, ServeOptions options, Bytes capacity = kAmpleCapacity) {
  HostDevice device(capacity);
  for (const Lifespan& step : profile_of(trace).steps.spans) options.replay.steps.push_back(step.lower);
  options.replay.watch = {.ranges = true, .stamps = Stamps::on_host()};
  Serving serving = serve(trace, device, options);
  EXPECT_EQ(serving.replay.corrupt_blocks, 0) << serving.replay.corruption;
  EXPECT_EQ(serving.device, "host");
  return serving;
}

TEST(Serve, PyTorchsAllocatorsDecideOnMemoryAsOnNumbers) {
  const Trace trace = trained({8, 13, 9, 16, 11}, kLarge);
  for (const AllocatorKind kind : {AllocatorKind::kNative, AllocatorKind::kExpandable}) {
    const Serving serving = served(trace, {.allocator = kind});
    AllocatorSettings settings;
    settings.expandable_segments = kind == AllocatorKind::kExpandable;
    CachingAllocator numbers(settings);
    EXPECT_EQ(serving.replay.reserved_peak, replay(trace, numbers).reserved_peak) << name_of(kind);
    EXPECT_EQ(serving.statistics.peaks.fallback_reserved, serving.replay.reserved_peak);
    EXPECT_EQ(serving.statistics.served.in_plan(), 0);
    EXPECT_EQ(serving.statistics.served.beside_plan(), requests_of(trace));
  }
}

TEST(Serve, WithItsPlanEverythingIsAHit) {
  const Trace trace = fixed(4, kLarge);
  const Serving serving = served(trace, {.plan = plan_of(trace)});
  EXPECT_EQ(serving.statistics.served.planned, requests_of(trace));
  EXPECT_EQ(serving.statistics.served.beside_plan(), 0);
  EXPECT_EQ(serving.statistics.steps, 4);
  EXPECT_FALSE(serving.story.has_value());
}

TEST(Serve, APlanOfAnotherJobIsAdvice) {
  const Trace trace = trained({8, 13, 9, 16, 11}, kLarge);
  const Serving serving = served(trace, {.plan = plan_of(fixed(3, kLarge))});
  EXPECT_EQ(serving.statistics.served.in_plan() + serving.statistics.served.beside_plan(),
            requests_of(trace));
  EXPECT_EQ(serving.replay.requested_peak, peak_requested(trace));
}

TEST(Serve, WithoutMemoryForTheArenaTheJobGoesOnWithoutAPlan) {
  const Trace trace = fixed(3, kLarge);
  const std::shared_ptr<const PlanIndex> plan = plan_of(trace);
  Policy policy;
  policy.addresses = 4;
  const Serving serving = served(trace, {.plan = plan, .policy = policy}, plan->plan().arena / 2);
  EXPECT_EQ(serving.statistics.plans, 0);
  EXPECT_EQ(serving.statistics.served.in_plan(), 0);
  EXPECT_GT(serving.replay.ooms, 0);
  EXPECT_THAT(serving.log, Contains(HasSubstr("no addresses for its arena")));
}

TEST(Serve, OnlineTheJobIsPlannedWhileItRuns) {
  const Trace trace = fixed(8, kLarge);
  const Serving serving = served(trace, {.online = true, .place_unplanned = false});
  ASSERT_TRUE(serving.story.has_value());
  const LifeStory& story = *serving.story;
  EXPECT_EQ(serving.statistics.plans, 1);
  EXPECT_GT(serving.plan_seconds, 0);
  EXPECT_GT(story.steady_steps, 0);
  EXPECT_EQ(serving.statistics.steps, 8);
  EXPECT_EQ(story.before_plan, served(prefix_of(trace, profile_of(trace).steps.spans[2].upper),
                                      {.allocator = AllocatorKind::kNative})
                                   .replay.reserved_peak)
      << "recorded on the native allocator";
  EXPECT_THAT(story.steady.reserved, AllOf(Ge(story.steady.requested), Le(serving.replay.reserved_peak)));
  EXPECT_EQ(story.steady.requested, peak_requested(trace)) << "every step is like the others";
  EXPECT_THAT(serving.log, Contains(HasSubstr("following a plan")));
}

TEST(Serve, OnlineStepsThatNobodyMarksAreLookedFor) {
  const Trace trace = fixed(40);
  HostDevice device(kAmpleCapacity);
  ServeOptions options = {.online = true};
  options.policy.first_search = requests_of(trace) / 4;
  const Serving serving = serve(trace, device, options);
  EXPECT_EQ(serving.statistics.plans, 1) << testing::PrintToString(serving.log);
  EXPECT_GT(serving.statistics.served.planned, 0);
  EXPECT_EQ(serving.story->steady_steps, 0) << "no step was marked";
  EXPECT_GT(serving.story->before_plan, 0);
}

TEST(Serve, OnlineTheRecordedStepsLeaveNoResidue) {
  constexpr Bytes kLeft = 20 * kMiB;  // in a job of a gigabyte
  const Trace trace = fixed(8, kLarge);
  const Serving serving = served(trace, {.online = true});
  EXPECT_EQ(serving.statistics.plans, 1);
  EXPECT_EQ(serving.statistics.peaks.fallback_reserved, 0) << "all of it in the arena";
  EXPECT_EQ(serving.statistics.served.in_plan() + serving.statistics.served.beside_plan(),
            requests_of(trace));
  EXPECT_GT(serving.statistics.served.unplanned[static_cast<std::size_t>(Unplanned::kNoPlan)], 0);
  EXPECT_THAT(serving.story->before_plan, Le(peak_requested(trace) + kLeft));
  EXPECT_THAT(serving.story->steady.reserved, Le(serving.story->steady.requested + kLeft));
}

TEST(Serve, OnlineNothingMovesInStepsThatKeepTheirBatchUntilTheNextIsThere) {
  const auto calls_in = [](std::size_t steps) {
    const Serving serving = served(fixed(steps, {.unit = kMiB, .keeps = 40 * kMiB}), {.online = true});
    EXPECT_EQ(serving.statistics.plans, 1);
    return serving.statistics.mapping.maps + serving.statistics.mapping.unmaps;
  };
  EXPECT_EQ(calls_in(8), calls_in(12));
}

TEST(Serve, OnlineAJobTooShortForAPlanIsAllNative) {
  const Trace trace = fixed(2, kLarge);
  const Serving serving = served(trace, {.online = true, .place_unplanned = false});
  EXPECT_EQ(serving.statistics.plans, 0);
  EXPECT_EQ(serving.story->steady_steps, 0);
  EXPECT_EQ(serving.story->before_plan, serving.replay.reserved_peak);
  EXPECT_EQ(serving.replay.reserved_peak,
            served(trace, {.allocator = AllocatorKind::kNative}).replay.reserved_peak);
}

TEST(Serve, OnlineWithAPlanFollowsItFromTheFirstRequestOn) {
  const Trace trace = fixed(6, kLarge);
  const Serving serving = served(trace, {.plan = plan_of(trace), .online = true});
  EXPECT_EQ(serving.statistics.served.planned, requests_of(trace));
  EXPECT_EQ(serving.story->before_plan, 0);
  EXPECT_EQ(serving.story->steady_steps, 6);
}

}  // namespace
}  // namespace stweaver
