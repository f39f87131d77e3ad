// What tests of a plan's life need: a training job in real memory, and a life cycle that tells what it does.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "runtime/life_cycle.h"
#include "simulate/caching_upstream.h"

namespace stweaver {

inline constexpr Bytes kLifeCapacity = 4 * kGiB;

/// A training job in real memory: every tensor is filled with its number and looked at before it is freed.
/// All sizes are multiples of the unit; with a small one, many steps take little time.
class Program {
 public:
  explicit Program(RuntimeAllocator& allocator, Bytes unit = 16 * kKiB)
      : allocator_(&allocator), unit_(unit) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  Program(Program&&) = delete;
  Program& operator=(Program&&) = delete;
  ~Program() { free_all(weights_); }

  void build() {
    for (int i = 0; i < kLayers; ++i) weights_.push_back(make(16 * unit_));
  }

  /// Forward, backward and optimizer, whose states are made in the first step.
  void step(Bytes scale = 16) {
    std::vector<Tensor> activations;
    for (int i = 0; i < kLayers; ++i) {
      activations.push_back(make(scale * unit_));
      activations.push_back(make(scale * unit_ / 4 + Bytes{i} * 512));
      take(make(scale * 2 * unit_));
    }
    std::vector<Tensor> gradients;
    for (int i = kLayers; i-- > 0;) {
      gradients.push_back(make(16 * unit_));
      for (int j = 0; j < 2; ++j) {
        take(activations.back());
        activations.pop_back();
      }
    }
    if (!optimized_) {
      for (int i = 0; i < kLayers; ++i) weights_.push_back(make(32 * unit_));
    }
    optimized_ = true;
    free_all(gradients);
  }

  [[nodiscard]] std::vector<void*> weights() const {
    std::vector<void*> addresses;
    for (const Tensor& weight : weights_) addresses.push_back(weight.memory);
    return addresses;
  }

 private:
  static constexpr int kLayers = 12;

  struct Tensor {
    void* memory = nullptr;
    Bytes size = 0;
    unsigned char number = 0;
  };

  Tensor make(Bytes size) {
    const Tensor tensor = {allocator_->allocate(size), size, ++number_};
    EXPECT_NE(tensor.memory, nullptr);
    std::memset(tensor.memory, tensor.number, static_cast<std::size_t>(size));
    return tensor;
  }

  void take(const Tensor& tensor) {
    const auto* const bytes = static_cast<const unsigned char*>(tensor.memory);
    // All bytes are the number when the first is and each is like the one before it.
    const bool intact = bytes[0] == tensor.number &&
                        std::memcmp(bytes, bytes + 1, static_cast<std::size_t>(tensor.size) - 1) == 0;
    EXPECT_TRUE(intact) << "somebody else wrote into a tensor";
    allocator_->free(tensor.memory);
  }

  void free_all(std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) take(tensor);
    tensors.clear();
  }

  RuntimeAllocator* allocator_;
  Bytes unit_;
  std::vector<Tensor> weights_;
  bool optimized_ = false;
  unsigned char number_ = 0;
};

class LifeCycleTest : public ::testing::Test {
 protected:
  LifeCycleOptions options() {
    LifeCycleOptions options;
    options.log = [this](const std::string& line) { lines.push_back(line); };
    return options;
  }

  /// A planner to which nothing repeats; it notes how many requests it was shown.
  LifeCycleOptions finding_nothing(std::vector<std::size_t>& seen) {
    LifeCycleOptions how = options();
    how.plan = [&seen](const Trace& trace, const Gaps&) {
      seen.push_back(trace.requests.size());
      return Plan();
    };
    return how;
  }

  /// A planner that is not done before it may go on.
  LifeCycleOptions waiting_for(std::promise<void>& go) {
    LifeCycleOptions how = options();
    how.plan = [ready = go.get_future().share()](const Trace& trace, const Gaps&) {
      ready.wait();
      return plan_step(trace);
    };
    return how;
  }

  /// Steps as a job makes them, which is slower than a planner.
  void run(LifeCycle& life, int steps, Bytes scale = 16) {
    for (int i = 0; i < steps; ++i) {
      life.begin_step();
      program.step(scale);
      life.wait_for_planner();
    }
  }

  [[nodiscard]] Served last_step() const { return allocator.statistics().step.served; }

  HostDevice device{kLifeCapacity};
  CachingUpstream upstream{AllocatorSettings(), device};
  RuntimeAllocator allocator{device, upstream};
  Program program{allocator};
  Program small_program{allocator, 2 * kKiB};
  std::vector<std::string> lines;
};

/// A plan of the whole job, as an earlier run left it.
inline Plan saved_plan() {
  HostDevice device(kLifeCapacity);
  CachingUpstream upstream(AllocatorSettings(), device);
  RuntimeAllocator allocator(device, upstream);
  const auto recorder = std::make_shared<Recorder>(Recorder::Options{});
  allocator.record(recorder);
  {
    Program program(allocator);
    program.build();
    for (int i = 0; i < 4; ++i) {
      allocator.begin_step();
      program.step();
    }
    allocator.record(nullptr);
  }
  const Trace& trace = recorder->trace();
  Plan plan = synthesize(trace, profile_of(trace), {}).plan;
  EXPECT_THAT(check_plan(plan, trace), ::testing::IsEmpty());
  return plan;
}

/// The last is none of the longest.
inline constexpr std::array<Bytes, 20> kTwentyLengths = {16, 21, 12, 24, 19, 14, 23, 17, 22, 13,
                                                         20, 15, 25, 18, 11, 21, 16, 23, 12, 19};

/// A planner that finds sizes to follow no length.
inline Plan plan_of_no_length(const Trace&, const Gaps&) {
  Plan plan;
  plan.shape = StepShape::kDynamic;
  return plan;
}

}  // namespace stweaver
