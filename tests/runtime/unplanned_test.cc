// What no plan has a place for.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/runtime.h"
#include "support/clocked_device.h"
#include "support/planned_training.h"
#include "support/small_plans.h"
#include "support/watched.h"

namespace stweaver {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(RuntimeAllocator, WithoutAPlanServesFromTheArena) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  void* const block = watched.allocate(5 * kMiB);
  const RuntimeStatistics now = watched.allocator.statistics();
  EXPECT_EQ(now.unplanned, 5 * kMiB);
  EXPECT_EQ(now.arena, 16 * kMiB) << "a block of memory at once";
  EXPECT_EQ(now.fallback_reserved, 0);
  EXPECT_EQ(now.served.unplanned[static_cast<std::size_t>(Unplanned::kNoPlan)], 1) << "no plan served it";
  EXPECT_EQ(now.step.unplanned_bytes, 5 * kMiB);
  watched.free(block);
  EXPECT_THAT([&] { watched.allocator.free(block); }, ThrowsMessage<Error>(HasSubstr("freed twice")));
  watched.allocator.empty_cache();
  EXPECT_EQ(device.memory().free, kGiB);
}

TEST(RuntimeAllocator, RequestsOfPrivatePoolsAreTheFallbacksWithoutAPlanToo) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  void* const block = watched.allocate(5 * kMiB, 0, 3);
  EXPECT_EQ(watched.allocator.statistics().fallback, 5 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().arena, 0);
  watched.free(block);
}

TEST(RuntimeAllocator, AdoptingAPlanGivesIdleMemoryBack) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  std::vector<void*> blocks;
  std::vector<void*> stay;
  for (int i = 0; i < 10; ++i) {
    blocks.push_back(watched.allocate(40 * kMiB));
    if (i % 5 == 2) stay.push_back(watched.allocate(2 * kMiB));
  }
  for (void* const block : blocks) watched.free(block);
  for (int i = 0; i < 2; ++i) watched.begin_step();
  EXPECT_GE(watched.allocator.statistics().arena, 400 * kMiB) << "kept for the next step";
  ASSERT_TRUE(watched.allocator.adopt(roomy_plan(400 * kMiB)));
  EXPECT_LE(watched.allocator.statistics().reserved(), 16 * kMiB) << "memory behind what lives";
  EXPECT_LE(watched.allocator.statistics().peaks.reserved, 420 * kMiB);
  EXPECT_TRUE(watched.hits(400 * kMiB));
  EXPECT_LE(watched.allocator.statistics().peaks.reserved, 420 * kMiB);
  for (void* const block : stay) watched.free(block);
  watched.begin_step();
  EXPECT_EQ(watched.allocator.statistics().reserved(), 400 * kMiB) << "no block is outside of the plan";
}

TEST(RuntimeAllocator, WhatThePlanHasNoPlaceForGoesBesideItAndItsMemoryBackAfterAStepThatWasAsPlanned) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({256 * kMiB}));
  watched.allocator.place_unplanned(true);
  void* const planned = watched.allocate(256 * kMiB);
  void* const extra = watched.allocate(100 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().unplanned, 100 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().served.beside_plan(), 1);
  EXPECT_EQ(watched.allocator.statistics().reserved(), 356 * kMiB);
  watched.free(planned);
  watched.free(extra);
  watched.begin_step();
  EXPECT_EQ(watched.allocator.statistics().reserved(), 356 * kMiB) << "the next step may need it, too";
  watched.free(watched.allocate(256 * kMiB));
  watched.begin_step();
  EXPECT_EQ(watched.allocator.statistics().reserved(), 256 * kMiB);
}

TEST(RuntimeAllocator, TakesMemoryFromBehindIdleSlotsRatherThanHoldMoreThanEver) {
  HostDevice device(4 * kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({kGiB}));
  watched.allocator.place_unplanned(true);
  watched.free(watched.allocate(kGiB));
  for (int step = 0; step < 5; ++step) {
    watched.begin_step();
    void* const first = watched.allocate(600 * kMiB);  // as no slot is
    void* const second = watched.allocate(400 * kMiB);
    EXPECT_LE(watched.allocator.statistics().peaks.reserved, kGiB + 16 * kMiB) << "in step " << step;
    watched.free(first);
    watched.free(second);
  }
  watched.begin_step();
  EXPECT_TRUE(watched.hits(kGiB)) << "the slot gets its memory back";
  EXPECT_LE(watched.allocator.statistics().peaks.reserved, kGiB + 16 * kMiB);
}

TEST(RuntimeAllocator, InSteadyStepsNothingMovesAndTheDriverIsNotCalled) {
  const PlannedTraining job = plain_training();
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({64 * kMiB, 32 * kMiB, 200 * kMiB}));
  watched.allocator.place_unplanned(true);
  for (int step = 0; step < 6; ++step) {
    std::vector<void*> blocks;
    for (const Bytes size : {64, 32, 200}) blocks.push_back(watched.allocate(size * kMiB));
    for (void* const block : blocks) watched.free(block);
    watched.begin_step();
    const std::int64_t calls = watched.allocator.statistics().last_step.driver_calls;
    EXPECT_TRUE(step == 0 || calls == 0) << calls << " calls in step " << step;
  }
}

TEST(RuntimeAllocator, RecordsNoEventsBehindFreesBeforeMemoryMoves) {
  HostDevice host(4 * kGiB);
  FailingDevice device(host);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({kGiB, 200 * kMiB}));
  watched.allocator.place_unplanned(true);
  const auto events_of_step = [&](const std::vector<Bytes>& sizes) {
    const std::int64_t before = device.calls(DeviceCall::kRecord);
    std::vector<void*> blocks;
    for (const Bytes size : sizes) blocks.push_back(watched.allocate(size));
    for (void* const block : blocks) watched.free(block);
    watched.begin_step();
    return device.calls(DeviceCall::kRecord) - before;
  };
  const std::vector<Bytes> as_planned = {kGiB, 200 * kMiB};
  EXPECT_EQ(events_of_step(as_planned), 2) << "the first step maps memory";
  EXPECT_EQ(events_of_step(as_planned), 2) << "behind such a step";
  EXPECT_EQ(events_of_step(as_planned), 0);
  EXPECT_EQ(events_of_step({600 * kMiB, 300 * kMiB}), 3)
      << "memory moves: one to wait for, one for each free";
}

TEST(RuntimeAllocator, ServesFromTheFallbackAgainWhenItIsTold) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  void* const stays = watched.allocate(40 * kMiB);
  watched.free(watched.allocate(40 * kMiB));
  watched.allocator.place_unplanned(false);
  watched.allocator.drop_plan();
  EXPECT_EQ(watched.allocator.statistics().arena, 40 * kMiB) << "what lives";
  watched.free(watched.allocate(40 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().fallback_reserved, 40 * kMiB);
  watched.free(stays);
  watched.begin_step();
  EXPECT_EQ(watched.allocator.statistics().arena, 0);
}

TEST(RuntimeAllocator, GivesBackWhatWaitedForOtherStreamsWhereNothingIsServedAnyMore) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  RuntimeAllocator allocator(device, upstream);
  allocator.place_unplanned(true);
  void* const used = allocator.allocate(512 * kMiB, 1);
  device.work(2);
  allocator.record_stream(used, 2);
  allocator.place_unplanned(false);
  allocator.free(used);
  EXPECT_EQ(allocator.statistics().arena, 512 * kMiB) << "the other stream is at work there";
  device.finish();
  allocator.free(allocator.allocate(kMiB, 1));
  EXPECT_EQ(allocator.statistics().waiting, 0);
  EXPECT_EQ(allocator.statistics().arena, 0);
}

TEST(RuntimeAllocator, ServesAgainAfterARequestThatNoDeviceCouldServe) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  watched.allocate(100 * kMiB);
  EXPECT_EQ(watched.try_allocate(8 * kGiB), nullptr);
  watched.allocate(100 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().fallback_reserved, 0);
  EXPECT_EQ(watched.allocator.statistics().arena, 200 * kMiB);
}

TEST(RuntimeAllocator, TellsTheMostBehindTheArenaApartFromWhatTheFallbackHeld) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  watched.free(watched.allocate(40 * kMiB));
  watched.allocator.empty_cache();
  watched.free(watched.allocate(30 * kMiB, 0, 1));  // a pool's
  watched.begin_step();
  const Peaks peaks = watched.allocator.statistics().last_step.peaks;
  EXPECT_EQ(peaks.arena, 40 * kMiB);
  EXPECT_EQ(peaks.reserved, 40 * kMiB);
  EXPECT_GT(peaks.fallback_reserved, 0);
}

TEST(RuntimeAllocator, AnyStreamGetsAnyMemoryBeforeItRunsOut) {
  HostDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  void* const first = watched.allocate(40 * kMiB, 1);
  watched.allocate(10 * kMiB, 1);
  watched.free(first);
  EXPECT_NE(watched.try_allocate(46 * kMiB, 2), nullptr);
  EXPECT_EQ(watched.try_allocate(20 * kMiB, 2), nullptr);
  EXPECT_EQ(watched.try_allocate(Bytes{1} << 62U, 2), nullptr);
  EXPECT_EQ(watched.allocator.statistics().ooms, 2);
  EXPECT_GT(watched.allocator.statistics().refusals, 0);
}

TEST(RuntimeAllocator, AsksADeviceThatRefusedAgainBeforeItRunsOut) {
  HostDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.free(watched.allocate(20 * kMiB));  // stays in upstream's cache
  watched.allocator.place_unplanned(true);
  watched.allocate(34 * kMiB);
  watched.allocate(20 * kMiB);  // upstream's: the device has 10 MiB
  ASSERT_EQ(watched.allocator.statistics().refusals, 1);
  EXPECT_NE(watched.try_allocate(4 * kMiB), nullptr) << "upstream takes 20 MiB at a time, the arena pages";
}

TEST(RuntimeAllocator, LooksAtExtentsNoMoreThanOnceForWhatCannotGoBack) {
  HostDevice host(kGiB);
  FailingDevice device(host);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(watched.allocate(7 * kMiB));
  for (std::size_t i = 0; i < blocks.size(); i += 2) watched.free(blocks[i]);  // two to an extent
  device.fail_every(DeviceCall::kPassed);                                      // so that all events are asked
  watched.allocator.place_unplanned(false);
  watched.free(watched.allocate(512));
  const std::int64_t asked = device.calls(DeviceCall::kPassed);
  ASSERT_GT(asked, 0);
  for (int i = 0; i < 100; ++i) watched.free(watched.allocate(512));
  EXPECT_EQ(device.calls(DeviceCall::kPassed), asked);
}

TEST(RuntimeAllocator, AsksTheDeviceNothingForAPoolsRequest) {
  HostDevice host(kGiB);
  FailingDevice device(host);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({32 * kMiB}));
  void* const block = watched.allocate(32 * kMiB);
  device.fail_every(DeviceCall::kPassed);
  watched.allocator.record_stream(block, 5);
  watched.free(block);  // and waits for stream 5
  const std::int64_t before = device.calls(DeviceCall::kPassed);
  watched.free(watched.allocate(kMiB, 0, 1));
  EXPECT_EQ(device.calls(DeviceCall::kPassed), before);
  watched.allocate(kMiB);
  EXPECT_GT(device.calls(DeviceCall::kPassed), before);
}

// ---- beside a plan ----

TEST(RuntimeAllocator, LendsIdleSpaceInTheArena) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}, 8 * kMiB));
  ASSERT_TRUE(watched.hits(8 * kMiB));  // maps the block of memory that it lies in
  EXPECT_TRUE(watched.hits(5 * kMiB)) << "no slot is like that, but there is space beside all slots";
  EXPECT_EQ(watched.allocator.statistics().reused, 5 * kMiB);
  EXPECT_TRUE(watched.hits(kMiB, 9)) << "nobody ever used that";
}

TEST(RuntimeAllocator, DoesNotLendWhatThePlanIsAboutToUse) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB, 4096}));
  EXPECT_FALSE(watched.hits(5 * kMiB));
  EXPECT_TRUE(watched.hits(8 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().served.planned, 1);
}

TEST(RuntimeAllocator, LendsAllThatIsIdleWhereThePlanIsNotFollowed) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB, 4096}));
  watched.free(watched.allocate(8 * kMiB));
  for (std::size_t i = 0; i < kAnchor; ++i) watched.free(watched.allocate(3 * kMiB));
  EXPECT_TRUE(watched.hits(5 * kMiB)) << "as in an evaluation, which has the arena to itself";
}

TEST(RuntimeAllocator, LendsNoPartOfWhatCouldMoveWhereThereIsRoomElsewhere) {
  HostDevice device(4 * kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({64 * kMiB, 64 * kMiB}, 64 * kMiB));
  watched.allocator.place_unplanned(true);
  for (int i = 0; i < 2; ++i) watched.free(watched.allocate(64 * kMiB));
  watched.begin_step();
  for (int i = 0; i < 8; ++i) watched.free(watched.allocate(3 * kMiB));
  EXPECT_FALSE(watched.hits(3 * kMiB)) << "the rest of a block of 16 MiB could not move";
  EXPECT_TRUE(watched.hits(32 * kMiB)) << "two blocks, whole";
}

TEST(RuntimeAllocator, WhereTheStreamDoesSomethingElsePlannedPlacesGetNoMoreMemoryThanTheyNeed) {
  const std::vector<Bytes> sizes(20, 3 * kMiB);
  for (const bool as_planned : {true, false}) {
    HostDevice device(4 * kGiB);
    CachingUpstream upstream(AllocatorSettings(), device);
    Watched watched(device, upstream, plan_of(sizes));
    watched.allocator.place_unplanned(true);
    if (!as_planned) {
      for (const Bytes other : {2, 7, 5}) watched.free(watched.allocate(other * kMiB));
      watched.allocator.empty_cache();
    }
    ASSERT_TRUE(watched.hits(3 * kMiB));
    EXPECT_EQ(watched.allocator.statistics().arena, as_planned ? 16 * kMiB : 4 * kMiB);
  }
}

TEST(RuntimeAllocator, DoesNotLendWhatAnotherStreamUsedLast) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}, 8 * kMiB));
  watched.free(watched.allocate(8 * kMiB));
  watched.free(watched.allocate(7 * kMiB));
  EXPECT_FALSE(watched.hits(5 * kMiB, 9));
  EXPECT_TRUE(watched.hits(5 * kMiB, 0));
  EXPECT_THAT(device.waited_for(), IsEmpty()) << "lending is not worth a wait";
}

TEST(RuntimeAllocator, LendsAnythingToAnybodyBeforeItRunsOutOfMemory) {
  HostDevice device(12 * kMiB);
  CachingUpstream upstream{AllocatorSettings(), device};
  Watched watched(device, upstream, plan_of({8 * kMiB, 4096}));
  watched.free(watched.allocate(8 * kMiB));
  EXPECT_TRUE(watched.hits(5 * kMiB, 9)) << "upstream has not that much";
  EXPECT_EQ(watched.allocator.statistics().ooms, 0);
  EXPECT_EQ(watched.allocator.allocate(5 * kMiB), nullptr);
  EXPECT_EQ(watched.allocator.statistics().ooms, 1);
}

}  // namespace
}  // namespace stweaver
