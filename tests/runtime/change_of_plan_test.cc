// Plans come and go while a job runs.
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/runtime.h"
#include "support/small_plans.h"
#include "support/watched.h"

namespace stweaver {
namespace {

using testing::ElementsAre;
using testing::Property;

TEST(RuntimeAllocator, ReplacesAPlanWithoutRaisingThePeak) {
  const std::vector<Bytes> sizes(12, 64 * kMiB);
  HostDevice device(16 * kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  for (int plan = 0; plan < 4; ++plan) {
    for (int step = 0; step < 2; ++step) {
      std::vector<void*> blocks;
      for (const Bytes size : sizes) blocks.push_back(watched.allocate(size));
      for (void* const block : blocks) watched.free(block);
      watched.begin_step();
    }
    ASSERT_TRUE(watched.allocator.adopt(plan_of(sizes)));
  }
  const RuntimeStatistics now = watched.allocator.statistics();
  EXPECT_EQ(now.peaks.reserved, now.peaks.requested);
}

TEST(RuntimeAllocator, LeavesLivingBlocksWhereTheyAreWhenThePlanChanges) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({4 * kMiB, 4 * kMiB}));
  std::vector<std::pair<void*, int>> blocks;
  const auto fill = [&](Bytes size) {
    void* const block = watched.allocate(size);
    blocks.emplace_back(block, static_cast<int>(blocks.size()) + 1);
    std::memset(block, blocks.back().second, static_cast<std::size_t>(size));
  };
  const auto expect_untouched = [&] {
    for (const auto& [block, value] : blocks) {
      EXPECT_EQ(bytes(block)[0], std::byte(value));
      EXPECT_EQ(bytes(block)[4 * kMiB - 1], std::byte(value));
    }
  };
  fill(4 * kMiB);
  watched.begin_step();
  watched.begin_step();
  for (const Bytes slots : {3, 40, 1, 10}) {
    ASSERT_TRUE(
        watched.allocator.adopt(plan_of(std::vector<Bytes>(static_cast<std::size_t>(slots), 4 * kMiB))));
    fill(4 * kMiB);
    fill(4 * kMiB);
    expect_untouched();
    watched.begin_step();
    watched.begin_step();
    expect_untouched();
  }
  watched.allocator.drop_plan();
  fill(4 * kMiB);
  expect_untouched();
  while (!blocks.empty()) {
    watched.free(blocks.back().first);
    blocks.pop_back();
    expect_untouched();
  }
  watched.allocator.empty_cache();
  watched.expect_all_returned();
  EXPECT_EQ(device.memory().free, kGiB);
}

TEST(RuntimeAllocator, PutsANewPlanWhereNobodyHasOutlivedAStep) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({4 * kMiB, 4 * kMiB}));
  void* const old = watched.allocate(4 * kMiB);
  watched.begin_step();
  watched.begin_step();
  ASSERT_TRUE(watched.allocator.adopt(plan_of({6 * kMiB, 2 * kMiB})));
  EXPECT_GE(bytes(watched.allocate(6 * kMiB)), bytes(old) + 4 * kMiB);
  watched.allocate(2 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().served.planned, 3) << "the old block is in nobody's way";
}

/// Three blocks of 4 MiB side by side, of which the middle one is gone, and a plan whose one slot takes its
/// place.
class GapOfAPlan : public testing::Test {
 protected:
  void SetUp() override {
    watched.allocator.place_unplanned(true);
    std::vector<void*> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(watched.allocate(4 * kMiB));
    gap = blocks[1];
    kept = {blocks[0], blocks[2]};
    for (int i = 0; i < 2; ++i) watched.begin_step();
    watched.free(gap);
    gaps = watched.allocator.lasting_gaps();
    Plan plan;
    plan.slots = {{.size = 4 * kMiB, .stream = 0, .death = 1}};
    plan.in_gaps = {{0, {gaps.front().lower, gaps.front().lower + 4 * kMiB}}};
    ASSERT_TRUE(watched.allocator.adopt(index_of(std::move(plan)), true));
  }

  HostDevice device{kGiB};
  CachingUpstream upstream{AllocatorSettings(), device};
  Watched watched{device, upstream};
  void* gap = nullptr;
  std::vector<void*> kept;
  Gaps gaps;
};

TEST_F(GapOfAPlan, IsWhatLastingBlocksLeaveOfTheirExtents) {
  EXPECT_THAT(gaps, ElementsAre(Property(&Interval::length, 4 * kMiB), Property(&Interval::length, 4 * kMiB)))
      << "and the end of the extent";
}

TEST_F(GapOfAPlan, ServesItsSlotAndTakesNoMemory) {
  const Bytes before = watched.allocator.statistics().arena;
  for (int step = 0; step < 3; ++step) {
    void* const block = watched.allocate(4 * kMiB);
    EXPECT_EQ(block, gap);
    watched.free(block);
    watched.begin_step();
  }
  EXPECT_EQ(watched.allocator.statistics().served.planned, 3);
  EXPECT_EQ(watched.allocator.statistics().arena, before);
}

TEST_F(GapOfAPlan, IsNoPlaceWhereItsMemoryIsGone) {
  for (void* const block : kept) watched.free(block);
  watched.allocator.empty_cache();
  ASSERT_EQ(watched.allocator.statistics().arena, 0);
  watched.begin_step();
  watched.free(watched.allocate(4 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().served.planned, 0);
  EXPECT_EQ(watched.allocator.statistics().step.unplanned_bytes, 4 * kMiB);
}

TEST(RuntimeAllocator, GivesTheArenaBackWhenThePlanIsDropped) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, roomy_plan(64 * kMiB));
  watched.free(watched.allocate(64 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().reserved(), 64 * kMiB);
  watched.allocator.drop_plan();
  EXPECT_FALSE(watched.allocator.follows_plan());
  EXPECT_EQ(watched.allocator.statistics().reserved(), 0);
  EXPECT_EQ(device.memory().free, kGiB);
  EXPECT_FALSE(watched.hits(4096));
  ASSERT_TRUE(watched.allocator.adopt(roomy_plan(64 * kMiB)));
  EXPECT_TRUE(watched.hits(64 * kMiB));
}

TEST(RuntimeAllocator, EmptyCacheGivesAllIdleMemoryBackThatOfThePlanToo) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({64 * kMiB}));
  watched.free(watched.allocate(64 * kMiB));
  watched.free(watched.allocate(100 * kMiB));
  EXPECT_GE(watched.allocator.statistics().fallback_reserved, 100 * kMiB);
  watched.allocator.empty_cache();
  EXPECT_EQ(watched.allocator.statistics().reserved(), 0);
  EXPECT_EQ(device.memory().free, kGiB);
  watched.begin_step();
  EXPECT_TRUE(watched.hits(64 * kMiB)) << "the plan is followed all the same";
}

TEST(RuntimeAllocator, WhatIsFreedGoesBackToTheDeviceWhereNothingIsServedAnyMore) {
  HostDevice device(8 * kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  std::vector<void*> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(watched.allocate(64 * kMiB));
  watched.allocator.place_unplanned(false);
  const Bytes most = watched.allocator.statistics().arena;
  for (std::size_t i = 0; i < blocks.size() / 2; ++i) watched.free(blocks[i]);
  EXPECT_LE(watched.allocator.statistics().arena, most / 2 + most / 100);
  for (std::size_t i = blocks.size() / 2; i < blocks.size(); ++i) watched.free(blocks[i]);
  EXPECT_LE(watched.allocator.statistics().arena, 8 * kMiB);
}

TEST(RuntimeAllocator, GivesTheFallbacksIdleMemoryBackAfterAStepThatWasAsPlanned) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({256 * kMiB}));
  void* const kept = watched.allocate(256 * kMiB);
  watched.free(watched.allocate(100 * kMiB));
  watched.begin_step();
  EXPECT_GT(watched.allocator.statistics().fallback_reserved, 0) << "the next step may need it, too";
  watched.begin_step();
  EXPECT_EQ(watched.allocator.statistics().fallback_reserved, 0);
  watched.free(kept);
}

}  // namespace
}  // namespace stweaver
