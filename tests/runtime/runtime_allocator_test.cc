#include "runtime/runtime_allocator.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/clocked_device.h"
#include "support/planned_training.h"
#include "support/play.h"
#include "support/small_plans.h"
#include "support/watched.h"

namespace stweaver {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST(RuntimeAllocator, ServesEveryRequestOfTheJobAtItsPlannedPlace) {
  for (const PlannedTraining& job :
       {plain_training(), training_on_two_streams(), PlannedTraining({.zero_grad_first = true}),
        PlannedTraining({.side_stream = 7, .keeps = 64 * kKiB})}) {
    const Played played = Player(job.plan).play(job.script);
    EXPECT_THAT(misses_of(played), Each(0));
    EXPECT_EQ(played.end.served.planned, static_cast<std::int64_t>(job.script.requests.size()));
    EXPECT_EQ(played.end.peaks.reserved, align_up(job.plan->plan().arena, 2 * kMiB));
    EXPECT_EQ(played.end.peaks.fallback_reserved, 0);
  }
}

TEST(RuntimeAllocator, ServesStreamsWhoseHandlesAreNotThoseOfTheRecording) {
  PlannedTraining job = training_on_two_streams();
  for (Asked& asked : job.script.requests) asked.stream = asked.stream == 0 ? 0 : 4711;
  const Played played = Player(job.plan).play(job.script);
  EXPECT_EQ(played.end.served.planned, static_cast<std::int64_t>(job.script.requests.size()));
}

using Milliseconds = std::chrono::duration<double, std::milli>;

/// Of this thread, whatever else the machine does.
Milliseconds processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

Milliseconds spent_in(const RuntimeAllocator& allocator) {
  return std::chrono::nanoseconds(allocator.statistics().nanoseconds);
}

TEST(RuntimeAllocator, CountsTheTimeOfAllCallsThoughFewAreTimed) {
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  RuntimeAllocator allocator(device, upstream);
  allocator.place_unplanned(true);
  allocator.free(allocator.allocate(kMiB));  // maps what the others use
  const Milliseconds before = spent_in(allocator);
  const Milliseconds began = processor_time();
  for (int i = 0; i < 100'000; ++i) allocator.free(allocator.allocate(kMiB));
  const Milliseconds took = processor_time() - began;
  // Nearly all that happens here; one call in 64 would be a 64th of it.
  EXPECT_GT(spent_in(allocator) - before, took / 8);
}

/// Takes a while to map memory.
class SlowDevice : public FailingDevice {
 public:
  using FailingDevice::FailingDevice;

  bool map(std::byte* at, Bytes size) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return FailingDevice::map(at, size);
  }
};

/// The time that is counted as a share of the time that 128 calls of a slow driver take: more than one of
/// them is timed.
double share_counted() {
  constexpr int kCalls = 128;
  HostDevice host(4 * kGiB);
  SlowDevice device(host);
  CachingUpstream upstream{AllocatorSettings()};
  RuntimeAllocator allocator(device, upstream, {{.block = 16 * kMiB}});
  allocator.place_unplanned(true);
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) allocator.allocate(16 * kMiB);
  const Milliseconds took = std::chrono::steady_clock::now() - began;
  EXPECT_GE(device.calls(DeviceCall::kMap), kCalls);
  return spent_in(allocator) / took;
}

TEST(RuntimeAllocator, CountsTheTimeOfTheDriverOnce) {
  double least = share_counted();
  // Where a busy machine keeps a call that is timed waiting, that counts for 64.
  for (int i = 0; i < 4 && least > 1.5; ++i) least = std::min(least, share_counted());
  EXPECT_GT(least, 0.5);
  EXPECT_LT(least, 1.5);
}

TEST(RuntimeAllocator, AdoptingAPlanTakesNoMemory) {
  const PlannedTraining job = plain_training();
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, job.plan);
  EXPECT_EQ(watched.allocator.statistics().reserved(), 0);
  ASSERT_TRUE(watched.hits(job.script.requests.front().size));
  EXPECT_GT(watched.allocator.statistics().reserved(), 0);
  EXPECT_LE(watched.allocator.statistics().reserved(), align_up(job.plan->plan().arena, 2 * kMiB));
  EXPECT_FALSE(watched.hits(job.plan->plan().arena + 1)) << "no slot is that large";
}

TEST(RuntimeAllocator, CountsWhyTheFallbackServed) {
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream);
  watched.allocate(1000);
  Plan plan = plan_of({4096, 8192})->plan();
  plan.slots.push_back({.size = 512, .offset = kUnplanned, .stream = 0, .death = 3});
  ASSERT_TRUE(watched.allocator.adopt(index_of(plan)));
  for (const Bytes size : {4096, 8192, 512, 777, 20000}) watched.allocate(size);
  watched.allocate(4096, 0, 3);
  watched.allocate(4096);  // the next step's, while this one's lives
  const auto& missed = watched.allocator.statistics().served.unplanned;
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kNoPlan)], 1);
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kDynamic)], 1);
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kUnknown)], 1);
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kTooLarge)], 1);
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kPool)], 1);
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kOccupied)], 1);
  EXPECT_EQ(watched.allocator.statistics().step.unplanned_bytes, 1000 + 777 + 20000 + 4096 + 4096)
      << "all but what the plan itself has no place for";
}

TEST(RuntimeAllocator, KeepsTheStatisticsOfTheStepAndOfTheOneBefore) {
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({kMiB, kMiB}));
  void* const kept = watched.allocate(kMiB);
  watched.free(watched.allocate(kMiB));
  watched.free(watched.allocate(3 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().step.served.in_plan(), 2);
  watched.begin_step();
  const RuntimeStatistics now = watched.allocator.statistics();
  EXPECT_EQ(now.steps, 1);
  EXPECT_EQ(now.last_step.served.planned, 2);
  EXPECT_EQ(now.last_step.served.beside_plan(), 1);
  EXPECT_EQ(now.last_step.peaks.requested, 4 * kMiB);
  EXPECT_EQ(now.step.served.in_plan(), 0);
  EXPECT_EQ(now.step.peaks.requested, kMiB) << "what is still alive";
  watched.free(kept);
}

// ---- limits ----

TEST(RuntimeAllocator, WithoutAPlanIsTheFallback) {
  const PlannedTraining job = plain_training();
  for (const auto& plan : {std::shared_ptr<const PlanIndex>(), index_of(Plan())}) {
    const Played played = Player(plan).play(job.script);
    EXPECT_EQ(played.end.served.in_plan(), 0);
    EXPECT_EQ(played.end.arena, 0);
    EXPECT_EQ(played.end.peaks.reserved, played.end.peaks.fallback_reserved);
  }
}

TEST(RuntimeAllocator, GivesNothingForNoBytes) {
  const PlannedTraining job = plain_training();
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, job.plan);
  EXPECT_EQ(watched.try_allocate(0), nullptr);
  EXPECT_EQ(watched.try_allocate(0, 9, 3), nullptr);
  EXPECT_EQ(watched.allocator.allocate(-1), nullptr);
  watched.free(nullptr);
  EXPECT_TRUE(watched.hits(job.script.requests.front().size));
  EXPECT_EQ(watched.allocator.statistics().served.planned, 1);
}

TEST(RuntimeAllocator, RefusesWhatItDidNotGive) {
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}));
  void* const block = watched.allocate(8 * kMiB);
  void* const other = watched.allocate(9 * kMiB);  // the fallback's
  const auto one_line = AllOf(HasSubstr("no block begins"), Not(HasSubstr("\n")));
  const auto not_allocated = AllOf(HasSubstr("not allocated"), Not(HasSubstr("\n")));
  const auto freeing = [&](void* memory) { return [&, memory] { watched.allocator.free(memory); }; };
  const auto sharing = [&](void* memory) {
    return [&, memory] { watched.allocator.record_stream(memory, 3); };
  };
  int elsewhere = 0;
  EXPECT_THAT(freeing(bytes(block) + 512), ThrowsMessage<Error>(one_line));
  EXPECT_THAT(sharing(bytes(block) + 512), ThrowsMessage<Error>(one_line));
  EXPECT_THAT(freeing(&elsewhere), ThrowsMessage<Error>(not_allocated));
  EXPECT_THAT(sharing(&elsewhere), ThrowsMessage<Error>(not_allocated));
  EXPECT_THAT(freeing(bytes(other) + 1), ThrowsMessage<Error>(not_allocated));
  watched.expect_balanced_books();
  watched.free(block);
  watched.free(other);
  EXPECT_THAT(freeing(block), ThrowsMessage<Error>(one_line));
  EXPECT_THAT(sharing(block), ThrowsMessage<Error>(one_line));
  EXPECT_THAT(freeing(other), ThrowsMessage<Error>(not_allocated));
  watched.expect_balanced_books();
  watched.expect_all_returned();
  EXPECT_EQ(watched.allocate(8 * kMiB), block) << "all is as if nobody had tried";
}

TEST(RuntimeAllocator, APlanForMoreThanTheDeviceHasCostsNothing) {
  HostDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  EXPECT_FALSE(watched.allocator.adopt(roomy_plan(2 * kGiB))) << "not even addresses";
  EXPECT_FALSE(watched.allocator.follows_plan());
  EXPECT_TRUE(watched.allocator.adopt(roomy_plan(66 * kMiB)));
  EXPECT_EQ(device.memory().free, 64 * kMiB);
  EXPECT_FALSE(watched.allocator.adopt(roomy_plan(2 * kGiB)));
  EXPECT_TRUE(watched.allocator.follows_plan()) << "all is as before";
  EXPECT_EQ(watched.try_allocate(66 * kMiB), nullptr);
  EXPECT_NE(watched.try_allocate(60 * kMiB), nullptr);
  EXPECT_EQ(watched.allocator.statistics().plans, 1);
}

TEST(RuntimeAllocator, OutOfMemoryIsNoBlockAndChangesNothing) {
  HostDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, roomy_plan(32 * kMiB));
  EXPECT_EQ(watched.try_allocate(80 * kMiB), nullptr);
  EXPECT_EQ(watched.try_allocate(Bytes{1} << 60U), nullptr);
  EXPECT_EQ(watched.allocator.statistics().ooms, 2);
  EXPECT_EQ(watched.allocator.statistics().served.in_plan(), 0);
  EXPECT_EQ(watched.allocator.statistics().arena, 0);
  EXPECT_TRUE(watched.hits(32 * kMiB));
}

TEST(RuntimeAllocator, MapsAVeryLargePlannedRequestInAsManyExtentsAsItsSlackGoesIntoIt) {
  HostDevice device(8 * kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({6 * kGiB}));
  EXPECT_TRUE(watched.hits(6 * kGiB));
  EXPECT_LE(watched.allocator.statistics().mapping.maps, Policy().slack_share);
}

TEST(RuntimeAllocator, FollowsASavedPlanBehindRequestsThatThereWasNoMemoryFor) {
  // A job that looks for the largest batch that fits.
  HostDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({kMiB, 2 * kMiB, 32 * kMiB}));
  EXPECT_TRUE(watched.hits(kMiB));
  for (Bytes size = 320 * kMiB; size > 64 * kMiB; size /= 2) EXPECT_EQ(watched.try_allocate(size), nullptr);
  EXPECT_LT(watched.allocator.statistics().peaks.reserved, 32 * kMiB);
  EXPECT_TRUE(watched.hits(2 * kMiB));
  EXPECT_TRUE(watched.hits(32 * kMiB));
}

TEST(RuntimeAllocator, GivesIdleArenaToAFallbackThatHasNoneLeft) {
  HostDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({40 * kMiB}));
  watched.free(watched.allocate(40 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().arena, 40 * kMiB);
  void* const large = watched.allocate(60 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().reclaims, 1);
  EXPECT_EQ(watched.allocator.statistics().arena, 0);
  watched.free(large);
  watched.allocator.empty_cache();
  watched.begin_step();
  EXPECT_TRUE(watched.hits(40 * kMiB)) << "the slot gets memory again when its request comes";
}

TEST(RuntimeAllocator, KeepsTheArenaOfLivingBlocksWhenItGivesTheRest) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({300 * kMiB, 300 * kMiB}));
  void* const block = watched.allocate(300 * kMiB);
  watched.free(watched.allocate(300 * kMiB));
  std::memset(block, 42, 300 * kMiB);
  watched.allocate(500 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().reclaims, 1);
  EXPECT_GE(watched.allocator.statistics().arena, 300 * kMiB);
  EXPECT_LT(watched.allocator.statistics().arena, 600 * kMiB);
  EXPECT_EQ(bytes(block)[0], std::byte{42});
  EXPECT_EQ(bytes(block)[300 * kMiB - 1], std::byte{42});
  watched.free(block);
}

TEST(RuntimeAllocator, BlocksThatWaitForStreamsAreReclaimedToo) {
  ClockedDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({40 * kMiB}));
  void* const block = watched.allocate(40 * kMiB);
  device.work(5);
  watched.allocator.record_stream(block, 5);
  watched.free(block);
  watched.allocate(60 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().allocated, 0);
}

}  // namespace
}  // namespace stweaver
