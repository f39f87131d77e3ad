// A device whose calls fail.
#include <array>
#include <cstdint>
#include <map>

#include <gtest/gtest.h>

#include "runtime/runtime.h"
#include "support/clocked_device.h"
#include "support/planned_training.h"
#include "support/small_plans.h"
#include "support/watched.h"

namespace stweaver {
namespace {

constexpr std::array kDeviceCallsOfTheArena = {
    DeviceCall::kReserve, DeviceCall::kRelease, DeviceCall::kMap,
    DeviceCall::kUnmap,   DeviceCall::kRecord,  DeviceCall::kWait,
    DeviceCall::kPassed,  DeviceCall::kAwait,   DeviceCall::kSynchronize};

class Everywhere : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(RuntimeAllocator, Everywhere, testing::Bool(), [](const auto& unplanned) {
  return unplanned.param ? "InTheArena" : "ByTheFallback";
});

TEST_P(Everywhere, ServesTheJobWhateverCallOfTheDeviceFails) {
  const bool in_arena = GetParam();
  const PlannedTraining job = training_on_two_streams();
  for (const DeviceCall call : kDeviceCallsOfTheArena) {
    for (const std::int64_t nth : {0, 1, 2, 5}) {
      SCOPED_TRACE(text("call ", static_cast<int>(call), ", number ", nth));
      HostDevice host(kGiB);
      FailingDevice device(host);
      CachingUpstream upstream{AllocatorSettings()};
      Watched watched(device, upstream);
      watched.allocator.place_unplanned(in_arena);
      if (nth == 0) {
        device.fail_every(call);
      } else {
        device.fail_nth(call, nth);
      }
      watched.allocator.adopt(job.plan);
      std::map<RequestId, void*> blocks;
      for (const Call& played : job.script.calls) {
        const Asked& asked = job.script.requests[played.request];
        if (played.kind == Call::Kind::kStep) {
          watched.begin_step();
        } else if (played.kind == Call::Kind::kFree) {
          watched.free(blocks.at(played.request));
          blocks.erase(played.request);
        } else {
          void* const block = blocks[played.request] = watched.allocate(asked.size, asked.stream);
          if (played.request % 9 == 0) watched.allocator.record_stream(block, 77 + played.request % 7);
        }
      }
      watched.allocator.drop_plan();
      for (int i = 0; i < 20; ++i) watched.free(watched.allocate(kMiB * i + 1));
      watched.allocator.adopt(job.plan);
      for (const auto& [id, block] : blocks) watched.free(block);
      device.heal();
      watched.allocator.empty_cache();
      watched.allocator.drop_plan();
      watched.expect_all_returned();
      EXPECT_EQ(watched.allocator.statistics().arena, 0);
    }
  }
}

TEST(RuntimeAllocator, DoesWithoutAnArenaOnADeviceThatCannotMap) {
  HostDevice host(kGiB);
  FailingDevice device(host);
  CachingUpstream upstream(AllocatorSettings(), host);
  Watched watched(device, upstream);
  device.fail_every(DeviceCall::kReserve);
  EXPECT_FALSE(watched.allocator.adopt(roomy_plan(64 * kMiB)));
  EXPECT_FALSE(watched.hits(4096));
  device.heal();
  device.fail_every(DeviceCall::kMap);
  EXPECT_TRUE(watched.allocator.adopt(roomy_plan(64 * kMiB)));
  EXPECT_FALSE(watched.hits(64 * kMiB));
  device.heal();
  watched.begin_step();
  EXPECT_TRUE(watched.allocator.adopt(roomy_plan(64 * kMiB)));
  EXPECT_TRUE(watched.hits(64 * kMiB));
}

TEST(RuntimeAllocator, AsksTheDeviceAgainOnceItsCacheWasEmptied) {
  HostDevice host(kGiB);
  FailingDevice device(host);
  CachingUpstream upstream(AllocatorSettings(), host);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  device.fail_every(DeviceCall::kMap);
  watched.allocate(kMiB);
  device.heal();
  watched.allocate(kMiB);
  EXPECT_EQ(watched.allocator.statistics().unplanned, 0) << "it was refused a moment ago";
  watched.allocator.empty_cache();
  watched.allocate(kMiB);
  EXPECT_EQ(watched.allocator.statistics().unplanned, kMiB);
}

TEST(RuntimeAllocator, ServesElsewhereWhatCannotBeOrdered) {
  for (const DeviceCall call : {DeviceCall::kRecord, DeviceCall::kWait}) {
    ClockedDevice clocked;
    FailingDevice device(clocked);
    CachingUpstream upstream{AllocatorSettings()};
    Plan plan;
    plan.arena = 8 * kMiB;
    plan.slots = {{.size = 8 * kMiB, .offset = 0, .stream = 1, .death = 1},
                  {.size = 8 * kMiB, .offset = 0, .stream = 2, .death = 2}};
    Watched watched(device, upstream, index_of(plan));
    void* const first = watched.allocate(8 * kMiB, 1);
    const Work work = clocked.work(1);
    watched.free(first);
    device.fail_every(call);
    EXPECT_FALSE(watched.hits(8 * kMiB, 2));
    device.heal();
    watched.begin_step();
    EXPECT_TRUE(watched.hits(8 * kMiB, 1));
    static_cast<void>(work);
  }
}

}  // namespace
}  // namespace stweaver
