// What the conformance suite asks of an allocator, and the allocators it asks.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "runtime/runtime.h"
#include "simulate/caching_upstream.h"
#include "simulate/settings.h"

namespace stweaver {

/// An allocator behind one interface, whatever its own is. Any thread may call it.
class UnderTest {
 public:
  UnderTest() = default;
  UnderTest(const UnderTest&) = delete;
  UnderTest& operator=(const UnderTest&) = delete;
  UnderTest(UnderTest&&) = delete;
  UnderTest& operator=(UnderTest&&) = delete;
  virtual ~UnderTest() = default;

  /// The address of a block; nothing for no bytes and when out of memory.
  virtual std::optional<Address> allocate(Bytes size, Stream stream) = 0;
  virtual void free(Address address) = 0;
  virtual void empty_cache() = 0;
  [[nodiscard]] virtual Bytes reserved() const = 0;
};

inline std::unique_ptr<Device> open_host(Bytes capacity) {
  return std::make_unique<HostDevice>(capacity);
}
inline std::unique_ptr<Device> open_first_cuda(Bytes /*capacity*/) {
  return open_cuda(0);
}

/// Whether this machine has a CUDA device, or something that is as good (nullcuda).
inline bool has_cuda() {
  try {
    return open_cuda(0) != nullptr;
  } catch (const Error&) {
    return false;
  }
}

/// One allocator, and what it promises.
struct Candidate {
  std::string name;                                         ///< letters only: part of the tests' names
  std::function<std::unique_ptr<UnderTest>(Device&)> make;  ///< a fresh one, on all of this device
  bool real_memory = false;  ///< it serves the device's memory; else numbers, and knows only its capacity
  Bytes keeps = 0;           ///< bytes reserved when nothing is in use and the cache is empty
  std::function<std::unique_ptr<Device>(Bytes)> open = open_host;  ///< a device with so much memory, or more
};

inline std::ostream& operator<<(std::ostream& out, const Candidate& candidate) {
  return out << candidate.name;
}

/// PyTorch's caching allocator, on numbers or on memory.
class CachingUnderTest final : public UnderTest {
 public:
  explicit CachingUnderTest(std::unique_ptr<CachingUpstream> allocator) : allocator_(std::move(allocator)) {}

  std::optional<Address> allocate(Bytes size, Stream stream) override {
    void* block = allocator_->allocate(size, stream, 0);
    return block == nullptr ? std::nullopt : std::optional(std::bit_cast<Address>(block));
  }
  void free(Address address) override { allocator_->free(std::bit_cast<void*>(address)); }
  void empty_cache() override { allocator_->empty_cache(); }
  [[nodiscard]] Bytes reserved() const override { return allocator_->reserved(); }

 private:
  std::unique_ptr<CachingUpstream> allocator_;
};

inline Candidate simulated(std::string name, const std::string& settings) {
  const auto make = [settings](const Device& device) {
    return std::make_unique<CachingUnderTest>(
        std::make_unique<CachingUpstream>(parse_settings(settings), device.memory().total));
  };
  return {.name = std::move(name), .make = make};
}

inline Candidate on_memory(std::string name, const std::string& settings) {
  const auto make = [settings](Device& device) {
    return std::make_unique<CachingUnderTest>(
        std::make_unique<CachingUpstream>(parse_settings(settings), device));
  };
  return {.name = std::move(name), .make = make, .real_memory = true};
}

/// A plan of requests of many sizes on two streams, one beside the other: some of whatever is asked for is in
/// it, and most is not.
inline Plan some_plan(Bytes arena) {
  constexpr std::array<Bytes, 5> kSizes = {3 * kMiB, 512, 64 * kKiB, kMiB, 5 * kMiB};
  Plan plan;
  plan.arena = plan.lower_bound = arena;
  Bytes offset = 0;
  for (std::size_t number = 0; offset + kSizes[number % kSizes.size()] <= arena; ++number) {
    const Bytes size = kSizes[number % kSizes.size()];
    plan.slots.push_back({.size = size,
                          .offset = offset,
                          .stream = number % 3 == 0 ? 1U : 0U,
                          .death = static_cast<Time>(number) + 3,
                          .varying = number % 2 == 0});
    offset += size;
  }
  return plan;
}

/// The allocator that follows a plan, with PyTorch's as its fallback; without a plan, as it records.
class PlannedUnderTest final : public UnderTest {
 public:
  PlannedUnderTest(Device& device, Plan plan, bool place_unplanned)
      : fallback_({}, device), allocator_(device, fallback_) {
    allocator_.place_unplanned(place_unplanned);
    if (plan.slots.empty()) return;
    if (!allocator_.adopt(std::make_shared<PlanIndex>(std::move(plan)))) fail("the plan was not adopted");
  }

  std::optional<Address> allocate(Bytes size, Stream stream) override {
    if (++requests_ % kStep == 0) allocator_.begin_step();
    void* block = allocator_.allocate(size, stream);
    return block == nullptr ? std::nullopt : std::optional(std::bit_cast<Address>(block));
  }
  void free(Address address) override { allocator_.free(std::bit_cast<void*>(address)); }
  void empty_cache() override { allocator_.empty_cache(); }
  [[nodiscard]] Bytes reserved() const override { return allocator_.statistics().reserved(); }

 private:
  static constexpr int kStep = 50;

  CachingUpstream fallback_;
  RuntimeAllocator allocator_;
  std::atomic<int> requests_ = 0;
};

inline Candidate planned_on_memory(std::string name, Bytes arena, bool place_unplanned) {
  const auto make = [arena, place_unplanned](Device& device) {
    return std::make_unique<PlannedUnderTest>(device, some_plan(arena), place_unplanned);
  };
  return {.name = std::move(name), .make = make, .real_memory = true, .keeps = arena};
}

/// The same allocator on the memory of the first CUDA device.
inline Candidate on_cuda(Candidate candidate) {
  candidate.name = "Cuda" + candidate.name;
  candidate.open = open_first_cuda;
  return candidate;
}

/// Every allocator of the project, those of real memory on each kind of it.
inline std::vector<Candidate> candidates(bool cuda) {
  const std::vector<Candidate> on_real_memory = {
      on_memory("Native", ""),
      on_memory("Expandable", "expandable_segments:True"),
      planned_on_memory("Planned", 32 * kMiB, false),
      planned_on_memory("PlannedFreeForm", 32 * kMiB, true),
      planned_on_memory("Recording", 0, true),
  };
  std::vector<Candidate> all = {
      simulated("SimulatedNative", ""),
      simulated("SimulatedExpandable", "expandable_segments:True"),
  };
  for (const Candidate& candidate : on_real_memory) {
    all.push_back(candidate);
    if (cuda) all.push_back(on_cuda(candidate));
  }
  return all;
}

}  // namespace stweaver
