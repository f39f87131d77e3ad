// Memory goes from one stream to another only behind an event, with a plan and without.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/runtime.h"
#include "support/clocked_device.h"
#include "support/planned_training.h"
#include "support/small_plans.h"
#include "support/watched.h"

namespace stweaver {
namespace {

TEST(RuntimeAllocator, GivesASlotToItsOwnStreamOnly) {
  const PlannedTraining job = training_on_two_streams();
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, job.plan);
  const Bytes size = job.script.requests[1].size;  // nothing on the other stream is like it
  watched.free(watched.allocate(size, 7));
  EXPECT_EQ(watched.allocator.statistics().served.planned, 0);
  watched.allocate(job.script.requests[0].size, 0);
  EXPECT_EQ(watched.allocator.statistics().served.planned, 1);
}

TEST(RuntimeAllocator, HoldsABlockBackUntilTheStreamsItWasRecordedForAreDone) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB, 4096}, 8 * kMiB));
  watched.free(watched.allocate(8 * kMiB));  // puts memory there
  watched.begin_step();
  void* const block = watched.allocate(7 * kMiB);
  device.work(5);
  watched.allocator.record_stream(block, 5);
  watched.free(block);
  EXPECT_EQ(watched.allocator.statistics().requested, 0);
  EXPECT_EQ(watched.allocator.statistics().allocated, 7 * kMiB) << "stream 5 may still use it";
  EXPECT_FALSE(watched.hits(5 * kMiB)) << "unplanned: not worth a wait";
  device.finish(5);
  EXPECT_TRUE(watched.hits(5 * kMiB));
  EXPECT_EQ(device.waited_for().size(), 0U);
}

TEST(RuntimeAllocator, HandsOverWhatOtherStreamsStillUseWhereTheCacheIsEmptied) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  void* const block = watched.allocate(64 * kMiB);
  device.work(5);
  watched.allocator.record_stream(block, 5);
  watched.free(block);
  EXPECT_EQ(watched.allocator.statistics().waiting, 64 * kMiB);
  watched.allocator.empty_cache();
  EXPECT_EQ(watched.allocator.statistics().waiting, 0);
  EXPECT_EQ(watched.allocator.statistics().arena, 0);
}

TEST(RuntimeAllocator, WaitsForOtherStreamsWhereThePlanNeedsTheirPlace) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}));
  void* const block = watched.allocate(8 * kMiB);
  const Work work = device.work(5);
  watched.allocator.record_stream(block, 5);
  watched.free(block);
  EXPECT_FALSE(device.is_behind(0, work));
  EXPECT_EQ(watched.allocate(8 * kMiB), block);
  EXPECT_TRUE(device.is_behind(0, work));
}

TEST(RuntimeAllocator, MakesAThirdStreamWaitForTheSecondsUseOfTheFirstsBlock) {
  // The block of stream 1 is used on stream 5. Stream 2 gets one half of it and waits; stream 3 gets the
  // other half behind an event of stream 1, which must not be one from before stream 1 itself waited for
  // stream 5.
  Plan plan;
  plan.arena = 8 * kMiB;
  plan.stream_gap = 4;
  plan.slots = {{.size = 8 * kMiB, .offset = 0, .stream = 1, .death = 1},
                {.size = 4 * kMiB, .offset = 0, .stream = 2, .death = 2},
                {.size = 4 * kMiB, .offset = 4 * kMiB, .stream = 3, .death = 3}};
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, index_of(plan));
  void* const block = watched.allocate(8 * kMiB, 1);
  const Work work = device.work(5);
  watched.allocator.record_stream(block, 5);
  watched.free(block);
  EXPECT_TRUE(watched.hits(4 * kMiB, 2));
  EXPECT_TRUE(device.is_behind(2, work));
  EXPECT_TRUE(watched.hits(4 * kMiB, 3));
  EXPECT_TRUE(device.is_behind(3, work));
}

TEST(RuntimeAllocator, WaitsForEveryStreamOfABlockThatManyUsed) {
  // More streams than a freed block keeps events of: its own stream waits for the others, and who takes the
  // block must not do so behind an event from before that.
  Plan plan;
  plan.arena = 9 * kMiB;
  plan.stream_gap = 4;
  plan.slots = {{.size = 8 * kMiB, .offset = 0, .stream = 1, .death = 2},
                {.size = kMiB, .offset = 8 * kMiB, .stream = 1, .death = 2},
                {.size = 9 * kMiB, .offset = 0, .stream = 2, .death = 3}};
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, index_of(plan));
  void* const shared = watched.allocate(8 * kMiB, 1);
  void* const other = watched.allocate(kMiB, 1);
  std::vector<Work> works;
  for (Stream stream = 11; stream <= 16; ++stream) {
    works.push_back(device.work(stream));
    watched.allocator.record_stream(shared, stream);
  }
  watched.free(other);  // an event of stream 1 is due at the next call
  watched.free(shared);
  for (Stream stream = 11; stream <= 14; ++stream) device.finish(stream);
  EXPECT_TRUE(watched.hits(9 * kMiB, 2));
  for (const Work& work : works) EXPECT_TRUE(device.is_behind(2, work)) << work.stream;
}

TEST(RuntimeAllocator, HoldsABlockBackWhileItCannotTellWhetherItsStreamsAreDone) {
  ClockedDevice clocked;
  FailingDevice device(clocked);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}));
  void* const block = watched.allocate(8 * kMiB);
  const Work work = clocked.work(5);
  watched.allocator.record_stream(block, 5);
  device.fail_every(DeviceCall::kRecord);
  device.fail_every(DeviceCall::kSynchronize);
  watched.free(block);
  watched.begin_step();
  EXPECT_FALSE(watched.hits(8 * kMiB)) << "nothing says that stream 5 is done";
  device.heal();
  watched.begin_step();
  EXPECT_TRUE(watched.hits(8 * kMiB));
  EXPECT_TRUE(clocked.is_behind(0, work));
}

TEST(RuntimeAllocator, RecordingItsOwnStreamHoldsNothingBack) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}));
  void* const block = watched.allocate(8 * kMiB, 3);
  watched.allocator.record_stream(block, 3);
  watched.free(block);
  EXPECT_EQ(watched.allocator.statistics().allocated, 0);
}

/// A program that uses its memory on several streams, on a device that knows what comes after what.
class StreamProgram {
 public:
  StreamProgram(std::shared_ptr<const PlanIndex> plan, unsigned seed, int streams, bool in_arena)
      : plan_(std::move(plan)), random_(seed), streams_(streams), watched_(device_, upstream_, plan_) {
    watched_.allocator.place_unplanned(in_arena);
    if (seed % 4 == 3) watched_.allocator.hold(kGiB);
  }

  void run(int calls) {
    for (int i = 0; i < calls; ++i) {
      if (!blocks_.empty() && chance(0.48)) {
        free_one();
      } else {
        allocate_one();
      }
      if (chance(0.1)) device_.finish(any_stream());
      if (chance(0.01)) begin_step();
      if (chance(0.002)) watched_.allocator.drop_plan();
      if (chance(0.01)) watched_.allocator.adopt(plan_);
    }
    while (!blocks_.empty()) free_one();
    device_.finish();
    watched_.allocator.empty_cache();
    watched_.expect_all_returned();
  }

  [[nodiscard]] RuntimeStatistics statistics() const { return watched_.allocator.statistics(); }

 private:
  struct Used {
    void* memory = nullptr;
    Bytes size = 0;
    Stream stream = 0;
  };

  bool chance(double of) { return std::uniform_real_distribution<>(0, 1)(random_) < of; }
  std::size_t any(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(random_); }
  Stream any_stream() { return any(static_cast<std::size_t>(streams_) - 1) * 7; }

  void begin_step() {
    watched_.begin_step();
    cursor_ = plan_->plan().prologue;
  }

  void allocate_one() {
    Asked wish = {static_cast<Bytes>(any(262144)) + 1, any_stream()};
    if (chance(0.8)) {
      const std::vector<Slot>& slots = plan_->plan().slots;
      cursor_ = cursor_ + 1 < slots.size() ? cursor_ + 1 : plan_->plan().prologue;
      wish = {slots[cursor_].size, slots[cursor_].stream};
    }
    const Used block = {watched_.allocate(wish.size, wish.stream), wish.size, wish.stream};
    races_.expect_done(address(block), block.size, block.stream);
    use(block, block.stream);
    blocks_.push_back(block);
  }

  void free_one() {
    const std::size_t which = chance(0.5) ? blocks_.size() - 1 : any(blocks_.size() - 1);
    const Used block = blocks_[which];
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(which));
    use(block, block.stream);
    if (chance(0.2)) {
      for (std::size_t i = any(7); i-- > 0;) lend(block, any_stream());
    }
    watched_.free(block.memory);
  }

  /// Another stream works with the block, after what its own has done so far.
  void lend(const Used& block, Stream stream) {
    const DeviceEvent event = device_.record(block.stream);
    device_.wait(stream, event);
    device_.forget(event);
    watched_.allocator.record_stream(block.memory, stream);
    use(block, stream);
  }

  void use(const Used& block, Stream stream) {
    races_.used(address(block), block.size, device_.work(stream));
  }
  static std::uintptr_t address(const Used& block) { return reinterpret_cast<std::uintptr_t>(block.memory); }

  ClockedDevice device_;
  CachingUpstream upstream_{AllocatorSettings(), device_};
  RaceDetector races_{device_};
  std::shared_ptr<const PlanIndex> plan_;
  std::mt19937 random_;
  int streams_;
  Watched watched_;
  std::vector<Used> blocks_;
  std::size_t cursor_ = 0;
};

TEST(RuntimeAllocator, NeverHandsMemoryToAStreamBeforeItsLastUsersAreDone) {
  const std::shared_ptr<const PlanIndex> plan = training_on_two_streams().plan;
  std::int64_t waits = 0;
  for (const int streams : {2, 8, 90}) {
    for (unsigned seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE(text(streams, " streams, seed ", seed));
      StreamProgram program(plan, seed, streams, seed % 2 == 1);
      program.run(1500);
      EXPECT_GT(program.statistics().served.planned, 30);
      waits += program.statistics().waits;
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(waits, 0);
}

TEST(RuntimeAllocator, ServesMoreStreamsThanHaveNumbersFromTheFallback) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings(), device};
  Watched watched(device, upstream, plan_of({44 * kMiB}, 4 * kMiB));
  watched.free(watched.allocate(44 * kMiB));  // puts memory there, and behind it
  for (Stream stream = 1; stream <= 64; ++stream) watched.free(watched.allocate(512, stream));
  EXPECT_FALSE(watched.hits(512, 1000));
  void* const block = watched.allocate(512, 1);
  const Work work = device.work(1000);
  watched.allocator.record_stream(block, 1000);
  watched.free(block);
  void* const other = watched.allocate(512, 1);
  EXPECT_TRUE(other != block || device.is_behind(1, work));
  device.finish(1000);
  watched.allocator.empty_cache();
  EXPECT_EQ(watched.allocate(512, 1), block);
}

}  // namespace
}  // namespace stweaver
