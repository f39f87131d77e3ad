// Whatever several threads ask for on several streams, and whatever becomes of the plan meanwhile: no living
// byte is shared, no block is lost, every byte is accounted for.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "device/device.h"
#include "plan/plan.h"
#include "runtime/runtime.h"
#include "simulate/caching_upstream.h"
#include "support/job.h"
#include "support/ledger.h"

namespace stweaver {
namespace {

constexpr Bytes kLargest = 96 * kKiB;
constexpr std::size_t kStreams = 3;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  template <typename Number>
  Number any(Number low, Number high) {
    return std::uniform_int_distribution<Number>(low, high)(engine_);
  }
  bool chance(double of) { return std::uniform_real_distribution<>(0, 1)(engine_) < of; }
  Stream stream() { return any<Stream>(0, kStreams - 1) * 7; }

 private:
  std::mt19937_64 engine_;
};

/// The plan of a job whose steps are one and the same random step.
std::shared_ptr<const PlanIndex> random_plan(unsigned seed) {
  Random random(seed);
  struct Act {
    Bytes size = 0;
    Stream stream = 0;
    int life = 0;  ///< freed when so many more requests were made
  };
  std::vector<Act> step(120);
  for (Act& act : step) act = {random.any<Bytes>(8, kLargest), random.stream(), random.any(0, 60)};
  Job job;
  for (int i = 0; i < 10; ++i) job.allocate(random.any<Bytes>(8, kLargest));
  for (int number = 0; number < 4; ++number) {
    job.mark(text("iteration ", number));
    std::vector<std::vector<RequestId>> ends(step.size() + 1);
    for (std::size_t i = 0; i < step.size(); ++i) {
      job.free_all(ends[i]);
      const auto end = std::min(i + 1 + static_cast<std::size_t>(step[i].life), step.size());
      ends[end].push_back(job.allocate(step[i].size, step[i].stream));
    }
    job.free_all(ends.back());
  }
  const Trace trace = job.trace();
  Plan plan = synthesize(trace, profile_of(trace), {.timeout = 0.05}).plan;
  EXPECT_GT(plan.slots.size(), plan.prologue) << "no step was found";
  return std::make_shared<PlanIndex>(std::move(plan));
}

/// Blocks that anyone may free.
class Exchange {
 public:
  void give(const Tenant& block) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(block);
  }
  std::optional<Tenant> take() {
    const std::lock_guard lock(mutex_);
    if (blocks_.empty()) return std::nullopt;
    const Tenant block = blocks_.back();
    blocks_.pop_back();
    return block;
  }

 private:
  std::mutex mutex_;
  std::vector<Tenant> blocks_;
};

struct Weather {
  unsigned seed = 0;
  double foreign = 0;  ///< share of requests that the plan does not have
  int threads = 0;
  Bytes spare = 0;  ///< memory of the device beside the arena
  bool in_arena = false;
};

class Storm {
 public:
  explicit Storm(const Weather& weather)
      : weather_(weather),
        plans_{random_plan(weather.seed), random_plan(weather.seed + 1000)},
        capacity_(align_up(plans_[0]->plan().arena, 2 * kMiB) + weather.spare),
        device_(capacity_),
        upstream_(AllocatorSettings(), device_),
        allocator_(device_, upstream_) {
    allocator_.place_unplanned(weather.in_arena);
    EXPECT_TRUE(allocator_.adopt(plans_[0]));
  }

  void blow(int calls) {
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(weather_.threads));
    for (int i = 0; i < weather_.threads; ++i)
      threads.emplace_back([this, i, calls] { work(static_cast<std::uint64_t>(i), calls); });
    std::atomic<bool> over = false;
    std::thread manager([&] { manage(over); });
    for (std::thread& thread : threads) thread.join();
    over = true;
    manager.join();
    while (const std::optional<Tenant> block = exchange_.take()) free(*block);
    expect_nothing_left();
  }

  /// One thread alone: the plan is followed request by request, and memory runs out and recovers. Threads and
  /// the manager meet by chance, so that a storm itself promises neither.
  void expect_calm() {
    ASSERT_TRUE(allocator_.adopt(plans_[0]));
    allocator_.begin_step();
    const std::vector<Slot>& slots = plans_[0]->plan().slots;
    const std::size_t prologue = plans_[0]->plan().prologue;
    const auto requests = static_cast<std::int64_t>(slots.size() - prologue);
    const Served before = allocator_.statistics().served;
    for (std::size_t i = prologue; i < slots.size(); ++i)
      free(grant(slots[i].size, slots[i].stream, i).value());
    const Served after = allocator_.statistics().served;
    // The first of a stream that has no default handle is a guess, and there is no idle memory for it yet.
    EXPECT_GE(after.in_plan() - before.in_plan(), requests - 1);
    EXPECT_GT(after.planned - before.planned, requests / 2);  // a place may wait for another stream
    std::vector<Tenant> blocks;
    const std::int64_t refused = refused_;
    for (Bytes asked = 0; asked <= capacity_ && refused_ == refused; asked += kLargest) {
      if (const std::optional<Tenant> block = grant(kLargest, 0, blocks.size())) blocks.push_back(*block);
    }
    EXPECT_EQ(refused_, refused + 1) << "the device was to run out of memory";
    for (const Tenant& block : blocks) free(block);
    blocks.assign(1, grant(kLargest, 0, 0).value());
    free(blocks.front());
    expect_nothing_left();
  }

 private:
  /// A thread of the job, on its own way through the step.
  void work(std::uint64_t number, int calls) {
    Random random(std::uint64_t{100} * weather_.seed + number);
    std::vector<Tenant> blocks;
    std::size_t cursor = 0;
    for (int i = 0; i < calls; ++i) {
      if (blocks.size() > 60 || (!blocks.empty() && random.chance(0.45))) {
        const std::size_t which =
            random.chance(0.5) ? blocks.size() - 1 : random.any<std::size_t>(0, blocks.size() - 1);
        std::swap(blocks[which], blocks.back());
        free(blocks.back());
        blocks.pop_back();
      } else if (const std::optional<Tenant> block =
                     allocate(random, cursor, number << 40U | static_cast<std::uint64_t>(i))) {
        if (random.chance(0.1))
          allocator_.record_stream(std::bit_cast<void*>(block->address), random.stream());
        random.chance(0.2) ? exchange_.give(*block) : blocks.push_back(*block);
      }
      if (random.chance(0.15)) {
        if (const std::optional<Tenant> block = exchange_.take()) free(*block);
      }
      if (random.chance(0.01)) {
        allocator_.begin_step();
        cursor = plans_[0]->plan().prologue;
      }
    }
    for (const Tenant& block : blocks) free(block);
  }

  /// Somebody who changes plans and asks questions, whatever the job does.
  void manage(const std::atomic<bool>& over) {
    Random random(weather_.seed + 7);
    while (!over) {
      if (random.chance(0.3)) allocator_.adopt(plans_[random.any<std::size_t>(0, 1)]);
      if (random.chance(0.1)) allocator_.drop_plan();
      if (random.chance(0.1)) allocator_.empty_cache();
      if (random.chance(0.1)) allocator_.hold(random.any<Bytes>(0, capacity_));
      const RuntimeStatistics now = allocator_.statistics();
      EXPECT_EQ(now.planned + now.reused + now.unplanned + now.fallback, now.requested);
      EXPECT_GE(std::min({now.planned, now.reused, now.unplanned, now.fallback, now.allocated}), 0);
      EXPECT_GE(now.arena, now.allocated);
      EXPECT_LE(now.arena, capacity_);
      std::this_thread::yield();
    }
    allocator_.adopt(plans_[0]);
  }

  std::optional<Tenant> allocate(Random& random, std::size_t& cursor, std::uint64_t identity) {
    const std::vector<Slot>& slots = plans_[0]->plan().slots;
    auto size = random.any<Bytes>(1, kLargest);
    Stream stream = random.stream();
    if (!random.chance(weather_.foreign)) {
      size = slots[cursor].size;
      stream = slots[cursor].stream;
    }
    cursor = cursor + 1 < slots.size() ? cursor + 1 : plans_[0]->plan().prologue;
    return grant(size, stream, identity);
  }

  std::optional<Tenant> grant(Bytes size, Stream stream, std::uint64_t identity) {
    void* const memory = allocator_.allocate(size, stream);
    if (memory == nullptr) {
      ++refused_;
      return std::nullopt;
    }
    ++granted_;
    const Tenant block = {std::bit_cast<Address>(memory), size, stream, static_cast<std::uint32_t>(identity)};
    EXPECT_TRUE(stamp(device_, block)) << device_.failure();
    return block;
  }

  void free(const Tenant& block) {
    EXPECT_TRUE(stamped(device_, block))
        << block.size << " bytes of block " << block.identity << " are somebody else's";
    allocator_.free(std::bit_cast<void*>(block.address));
  }

  void expect_nothing_left() {
    allocator_.empty_cache();
    const RuntimeStatistics end = allocator_.statistics();
    EXPECT_EQ(end.blocks, 0);
    EXPECT_EQ(end.requested, 0);
    EXPECT_EQ(end.planned, 0);
    EXPECT_EQ(end.reused, 0);
    EXPECT_EQ(end.unplanned, 0);
    EXPECT_EQ(end.fallback, 0);
    EXPECT_EQ(end.allocated, 0);
    EXPECT_EQ(end.served.in_plan() + end.served.beside_plan(), granted_);
    EXPECT_EQ(end.ooms, refused_);
    EXPECT_EQ(upstream_.allocated(), 0);
    EXPECT_EQ(capacity_ - device_.memory().free, end.arena + upstream_.reserved());
    allocator_.drop_plan();
    allocator_.empty_cache();
    EXPECT_EQ(upstream_.reserved(), 0);
    EXPECT_EQ(device_.memory().free, capacity_);
  }

  Weather weather_;
  std::vector<std::shared_ptr<const PlanIndex>> plans_;
  Bytes capacity_;
  HostDevice device_;
  CachingUpstream upstream_;
  RuntimeAllocator allocator_;
  Exchange exchange_;
  std::atomic<std::int64_t> granted_ = 0;
  std::atomic<std::int64_t> refused_ = 0;
};

class AnyStorm : public testing::TestWithParam<Weather> {};

TEST_P(AnyStorm, SharesNoLivingByteAndLosesNoBlock) {
  Storm storm(GetParam());
  storm.blow(1200);
  storm.expect_calm();
}

std::vector<Weather> weathers() {
  std::vector<Weather> all;
  unsigned seed = 1;
  for (const bool in_arena : {false, true}) {
    for (const double foreign : {0.0, 0.5, 1.0}) {
      for (const int threads : {2, 4}) {
        for (const Bytes spare : {2 * kMiB, 64 * kMiB})
          all.push_back({seed++, foreign, threads, spare, in_arena});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Property, AnyStorm, testing::ValuesIn(weathers()), [](const auto& weather) {
  const Weather& w = weather.param;
  return text("Seed", w.seed,
              w.foreign == 0  ? "Fits"
              : w.foreign < 1 ? "HalfFits"
                              : "DoesNotFit",
              w.threads, "Threads", w.spare < 8 * kMiB ? "Tight" : "Ample", w.in_arena ? "InArena" : "");
});

}  // namespace
}  // namespace stweaver
