// runtime: what one allocation and one free cost when served from a plan, and beside it in PyTorch's caching
// allocator (our model of it, on numbers, always with a block in its cache), in the same run; and what they
// cost unplanned, as while the first steps are recorded.
//
//   stack: every step allocates all blocks and then frees them, the last first, as forward and backward do
//   churn: all blocks live, and every step allocates and frees short-lived ones among them
#include "runtime/runtime.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "device/device.h"
#include "simulate/simulate.h"

namespace stweaver {
namespace {

constexpr int kSteps = 9;
constexpr std::size_t kCalls = 100'000;  // of each kind in a step, about
constexpr std::size_t kShortLived = 8;   // alive at one time in `churn`

/// What one thread does: the same in every step, on a stream of its own.
struct Work {
  Stream stream = 0;
  std::vector<Bytes> kept;   ///< allocated once
  std::vector<Bytes> sizes;  ///< allocated in a step
  std::size_t batch = 0;     ///< so many are alive before they are freed
};

std::vector<Bytes> sizes_of(std::size_t count, std::mt19937_64& random) {
  constexpr std::array<Bytes, 12> kSizes = {512,        2048,       8192,       32 * kKiB,
                                            64 * kKiB,  96 * kKiB,  128 * kKiB, 256 * kKiB,
                                            384 * kKiB, 512 * kKiB, 1 * kMiB,   2 * kMiB};
  std::vector<Bytes> sizes(count);
  for (Bytes& size : sizes) size = kSizes[random() % kSizes.size()];
  return sizes;
}

std::vector<Work> works_of(bool churn, std::size_t live, std::size_t threads) {
  std::mt19937_64 random(live);
  std::vector<Work> works(threads);
  for (std::size_t t = 0; t < threads; ++t) {
    works[t].stream = t;
    if (churn) {
      works[t].kept = sizes_of(live / threads, random);
      works[t].sizes = sizes_of(2000, random);
      works[t].batch = kShortLived;
    } else {
      works[t].sizes = sizes_of(live / threads, random);
      works[t].batch = live / threads;
    }
  }
  return works;
}

/// The kept blocks side by side, and behind them each thread's blocks of one batch in the same place as those
/// of the next.
Plan plan_of(const std::vector<Work>& works) {
  Plan plan;
  std::vector<Slot> step;
  const auto add = [&](std::vector<Slot>& slots, Bytes size, Stream stream, Bytes offset) {
    slots.push_back({.size = size, .offset = offset, .stream = stream});
    plan.arena = std::max(plan.arena, offset + size);
    return offset + size;
  };
  for (const Work& work : works) {
    for (const Bytes size : work.kept) add(plan.slots, size, work.stream, plan.arena);
  }
  for (Slot& slot : plan.slots) slot.death = kForever;
  plan.prologue = plan.slots.size();
  for (const Work& work : works) {
    const Bytes base = plan.arena;
    Bytes top = base;
    for (std::size_t i = 0; i < work.sizes.size(); ++i) {
      if (i % work.batch == 0) top = base;
      top = add(step, work.sizes[i], work.stream, top);
    }
  }
  for (std::size_t i = 0; i < step.size(); ++i) {
    step[i].death = static_cast<Time>(plan.prologue + i + 1);
    plan.slots.push_back(step[i]);
  }
  return plan;
}

struct Cost {
  double allocate = 0;  ///< nanoseconds per call
  double free = 0;
};

/// The median over the steps of what a call costs a thread.
template <typename Allocate, typename Free>
Cost measure(const Work& work, const Allocate& allocate, const Free& free) {
  using Clock = std::chrono::steady_clock;
  const auto rounds = std::max<std::size_t>(kCalls / work.sizes.size(), 1);
  std::vector<void*> blocks(work.batch);
  std::vector<double> allocating;
  std::vector<double> freeing;
  for (const Bytes size : work.kept) allocate(size, work.stream);
  for (int step = 0; step < kSteps; ++step) {
    Clock::duration in_allocate{};
    Clock::duration in_free{};
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t begin = 0; begin < work.sizes.size(); begin += work.batch) {
        const std::size_t count = std::min(work.batch, work.sizes.size() - begin);
        const Clock::time_point start = Clock::now();
        for (std::size_t i = 0; i < count; ++i) blocks[i] = allocate(work.sizes[begin + i], work.stream);
        const Clock::time_point middle = Clock::now();
        for (std::size_t i = count; i-- > 0;) free(blocks[i]);
        in_allocate += middle - start;
        in_free += Clock::now() - middle;
      }
    }
    const auto calls = static_cast<double>(rounds * work.sizes.size());
    allocating.push_back(std::chrono::duration<double, std::nano>(in_allocate).count() / calls);
    freeing.push_back(std::chrono::duration<double, std::nano>(in_free).count() / calls);
  }
  const auto median = [](std::vector<double>& values) {
    const auto middle = values.begin() + kSteps / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  };
  return {median(allocating), median(freeing)};
}

/// All threads at once; the mean of their costs.
template <typename Allocate, typename Free>
Cost measure_all(const std::vector<Work>& works, const Allocate& allocate, const Free& free) {
  std::vector<Cost> costs(works.size());
  {
    std::vector<std::jthread> threads;
    threads.reserve(works.size());
    for (std::size_t t = 0; t < works.size(); ++t)
      threads.emplace_back([&, t] { costs[t] = measure(works[t], allocate, free); });
  }
  Cost mean;
  for (const Cost& cost : costs) {
    mean.allocate += cost.allocate / static_cast<double>(costs.size());
    mean.free += cost.free / static_cast<double>(costs.size());
  }
  return mean;
}

Cost measure_unplanned(const std::vector<Work>& works) {
  HostDevice device(kAmpleCapacity);
  CachingUpstream fallback{AllocatorSettings()};
  RuntimeAllocator allocator(device, fallback);
  allocator.place_unplanned(true);
  const Cost cost = measure_all(
      works, [&](Bytes size, Stream stream) { return allocator.allocate(size, stream); },
      [&](void* block) { allocator.free(block); });
  if (allocator.statistics().peaks.fallback_reserved > 0) fail("no memory for the arena: ", device.failure());
  return cost;
}

void print_row(std::string_view name, bool churn, std::size_t live, std::size_t threads) {
  const std::vector<Work> works = works_of(churn, live, threads);
  HostDevice device(kAmpleCapacity);
  CachingUpstream fallback{AllocatorSettings()};
  RuntimeAllocator planned(device, fallback);
  if (!planned.adopt(std::make_shared<PlanIndex>(plan_of(works)))) fail("no arena: ", device.failure());
  const Cost ours = measure_all(
      works, [&](Bytes size, Stream stream) { return planned.allocate(size, stream); },
      [&](void* block) { planned.free(block); });
  const RuntimeStatistics statistics = planned.statistics();
  if (statistics.served.beside_plan() + statistics.served.reused > 0)
    fail(name, ": ", statistics.served.beside_plan() + statistics.served.reused,
         " requests were not as planned");
  CachingUpstream caching{AllocatorSettings()};
  const Cost theirs = measure_all(
      works, [&](Bytes size, Stream stream) { return caching.allocate(size, stream, 0); },
      [&](void* block) { caching.free(block); });
  const Cost unplanned = measure_unplanned(works);
  const double both = theirs.allocate + theirs.free;
  fmt::print("{:<8}{:>8}{:>9}{:>12.0f}{:>8.0f}{:>14.0f}{:>8.0f}{:>10.2f}{:>14.0f}{:>8.0f}{:>10.2f}\n", name,
             live, threads, ours.allocate, ours.free, theirs.allocate, theirs.free,
             (ours.allocate + ours.free) / both, unplanned.allocate, unplanned.free,
             (unplanned.allocate + unplanned.free) / both);
}

int run() {
  fmt::print("{:<25}{:>12}{:>8}{:>14}{:>8}{:>10}{:>14}\n", "nanoseconds per call", "planned:", "",
             "caching:", "", "ratio", "unplanned:");
  fmt::print("{:<8}{:>8}{:>9}{:>12}{:>8}{:>14}{:>8}{:>10}{:>14}{:>8}{:>10}\n", "", "live", "threads",
             "allocate", "free", "allocate", "free", "of both", "allocate", "free", "of both");
  for (const bool churn : {false, true}) {
    for (const std::size_t live : {1'000U, 10'000U, 100'000U}) {
      for (const std::size_t threads : {1U, 2U, 4U})
        print_row(churn ? "churn" : "stack", churn, live, threads);
    }
  }
  return 0;
}

}  // namespace
}  // namespace stweaver

int main() {
  try {
    return stweaver::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
