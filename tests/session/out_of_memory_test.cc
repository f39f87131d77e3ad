#include "session/out_of_memory.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device.h"
#include "runtime/runtime.h"
#include "simulate/caching_upstream.h"

namespace stweaver {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Bytes kSmallCapacity = kGiB;

/// An allocator that takes memory until there is no more.
class OutOfMemoryTest : public testing::Test {
 protected:
  void SetUp() override { allocator.place_unplanned(true); }
  void TearDown() override {
    for (void* const block : blocks) allocator.free(block);
  }

  void take(int count, Bytes size, Pool pool = 0) {
    for (int i = 0; i < count; ++i) {
      blocks.push_back(allocator.allocate(size, 0, pool));
      ASSERT_NE(blocks.back(), nullptr);
    }
  }
  [[nodiscard]] std::string explained(Bytes size, Shortage shortage = {}) {
    EXPECT_EQ(allocator.allocate(size), nullptr);
    shortage.size = size;
    shortage.stage = "recording";
    shortage.device = device.memory();
    return explain(allocator, shortage);
  }

  HostDevice device{kSmallCapacity};
  CachingUpstream upstream{AllocatorSettings(), device};
  RuntimeAllocator allocator{device, upstream};
  std::vector<void*> blocks;
};

TEST_F(OutOfMemoryTest, NamesStepRequestAndTheLargestGroupsOfWhatLives) {
  take(3, 128 * kMiB);
  allocator.begin_step();
  allocator.begin_step();
  take(4, 64 * kMiB);
  take(7, kMiB + 512);
  for (Bytes i = 1; i <= 8; ++i) take(1, i * kKiB);
  const std::string why = explained(512 * kMiB);
  EXPECT_THAT(why, HasSubstr("asked for 512.00 MiB in step 2 (recording); the device has 1.00 GiB, "));
  EXPECT_THAT(
      why,
      HasSubstr("Alive: 384.00 MiB from before this step, 263.04 MiB from this step; most of it in blocks "
                "of 128.00 MiB (3), 64.00 MiB (4), 1.00 MiB (7), 8.00 KiB (1), 7.00 KiB (1), and 6 others "
                "with 21.00 KiB.\n"));
  EXPECT_THAT(why, HasSubstr("What would help: shard or offload"));
}

TEST_F(OutOfMemoryTest, WhatTheStepMadeIsRecomputedWhereItIsMost) {
  take(2, 128 * kMiB);
  allocator.begin_step();
  take(10, 64 * kMiB);
  EXPECT_THAT(explained(256 * kMiB), HasSubstr("What would help: recompute activations"));
}

TEST_F(OutOfMemoryTest, MemoryBetweenBlocksIsIdleAndAPlanWouldHelp) {
  take(768, kMiB);
  for (std::size_t i = 0; i < blocks.size(); ++i) {  // one of eight keeps each extent where it is
    if (i % 8 != 0) allocator.free(std::exchange(blocks[i], nullptr));
  }
  const std::string why = explained(600 * kMiB);
  EXPECT_THAT(why, HasSubstr(" MiB by STWeaver's arena, 96.00 MiB of it in use"));
  EXPECT_THAT(why,
              HasSubstr(" MiB between blocks that live, so it cannot be given back, at most 7.00 MiB in "));
  EXPECT_THAT(why, HasSubstr("Alive: 96.00 MiB; most of it in blocks of 1.00 MiB (96).\n"));
  EXPECT_THAT(why, HasSubstr("What would help: a plan from the first request on"));
  EXPECT_THAT(explained(600 * kMiB, {.why_no_plan = "steps differ"}),
              Not(HasSubstr("a plan from the first")));
}

TEST_F(OutOfMemoryTest, MemoryOfPyTorchsOwnAllocatorIsToldApart) {
  take(30, 19 * kMiB, 1);  // each has a segment of 20 MiB
  const std::string why = explained(512 * kMiB);
  EXPECT_THAT(why, HasSubstr("Held: 0 bytes by STWeaver's arena")) << "what was mapped in vain went back";
  EXPECT_THAT(why, HasSubstr("600.00 MiB by PyTorch's own allocator, 570.00 MiB of it in use"));
  EXPECT_THAT(why, HasSubstr("Idle: 30.00 MiB in PyTorch's own allocator"));
}

TEST_F(OutOfMemoryTest, MemoryThatMayNotBeHeldIsALimitThatCanBeRaised) {
  take(1, 512 * kMiB);
  Shortage shortage = {.size = 256 * kMiB, .allowed = 600 * kMiB, .device = device.memory()};
  EXPECT_THAT(explain(allocator, shortage),
              HasSubstr("this process may hold no more than 600.00 MiB: raise torch.cuda.set_per_process"));
  shortage.allowed = kSmallCapacity;
  EXPECT_THAT(explain(allocator, shortage), Not(HasSubstr("may hold")));
}

TEST_F(OutOfMemoryTest, MemoryOfOthersIsNamedAndWhereItIsWhatIsMissingTheRemedy) {
  take(1, 256 * kMiB);
  Shortage shortage = {.size = 4 * kGiB, .device = {.free = 2 * kGiB, .total = 80 * kGiB}};
  EXPECT_THAT(explain(allocator, shortage),
              HasSubstr("77.75 GiB by others (CUDA, its libraries, other processes)"));
  EXPECT_THAT(explain(allocator, shortage), HasSubstr("What would help: leave the device to this job"));
  shortage.sees_others = false;
  EXPECT_THAT(explain(allocator, shortage), Not(HasSubstr("by others")));
}

TEST_F(OutOfMemoryTest, WhatCudaItselfHoldsIsNotTheRemedy) {
  take(1, 256 * kMiB);
  const Shortage shortage = {.size = kGiB, .device = {.free = kGiB / 2, .total = 3 * kGiB / 2}};
  EXPECT_THAT(explain(allocator, shortage), HasSubstr("768.00 MiB by others"));
  EXPECT_THAT(explain(allocator, shortage), HasSubstr("What would help: recompute"));
}

TEST_F(OutOfMemoryTest, ARequestThatNoDeviceCouldServeIsAMistake) {
  EXPECT_THAT(explained(2 * kSmallCapacity), HasSubstr("the request alone is larger than the device"));
}

}  // namespace
}  // namespace stweaver
