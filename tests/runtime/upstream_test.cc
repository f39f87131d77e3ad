#include "runtime/upstream.h"

#include <cstddef>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "device/device.h"
#include "runtime/runtime_allocator.h"
#include "support/small_plans.h"

namespace stweaver {
namespace {

/// Keeps every block of its one size, and counts how often it is asked what it holds.
class Keeper final : public Upstream {
 public:
  static constexpr Bytes kSize = kMiB;

  void* allocate(Bytes /*size*/, Stream /*stream*/, Pool /*pool*/) override {
    has_grown_ = idle_.empty();
    if (has_grown_) {
      idle_.push_back(blocks_.emplace_back(std::make_unique<std::byte[]>(kSize)).get());
    }
    void* const block = idle_.back();
    idle_.pop_back();
    return block;
  }
  void free(void* memory) override { idle_.push_back(static_cast<std::byte*>(memory)); }
  void record_stream(void* /*memory*/, Stream /*stream*/) override {}
  void empty_cache() override { ++emptied; }
  [[nodiscard]] Bytes reserved() const override {
    ++questions;
    return static_cast<Bytes>(blocks_.size()) * kSize;
  }
  [[nodiscard]] Bytes allocated() const override {
    return static_cast<Bytes>(blocks_.size() - idle_.size()) * kSize;
  }
  [[nodiscard]] bool may_have_grown() const override { return has_grown_; }

  mutable int questions = 0;
  int emptied = 0;

 private:
  bool has_grown_ = false;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::vector<std::byte*> idle_;
};

TEST(Upstream, IsAskedWhatItHoldsWhenItMayHaveGrown) {
  HostDevice device(kGiB);
  Keeper upstream;
  RuntimeAllocator allocator(device, upstream);
  void* const first = allocator.allocate(Keeper::kSize);
  void* const second = allocator.allocate(Keeper::kSize);
  EXPECT_EQ(upstream.questions, 2);
  EXPECT_EQ(allocator.statistics().fallback_reserved, 2 * Keeper::kSize);
  allocator.free(first);
  for (int i = 0; i < 100; ++i) allocator.free(allocator.allocate(Keeper::kSize));
  EXPECT_EQ(upstream.questions, 2) << "what is served from its cache cannot have changed what it holds";
  void* const again = allocator.allocate(Keeper::kSize);
  void* const third = allocator.allocate(Keeper::kSize);
  EXPECT_EQ(allocator.statistics().peaks.fallback_reserved, 3 * Keeper::kSize);
  EXPECT_EQ(allocator.statistics().peaks.reserved, 3 * Keeper::kSize);
  EXPECT_EQ(allocator.meters().reserved_peak, 3 * Keeper::kSize);
  for (void* const block : {again, second, third}) allocator.free(block);
}

TEST(Upstream, GivesItsCacheBackOnceWhenStepsBecomeAsPlanned) {
  HostDevice device(kGiB);
  Keeper upstream;
  RuntimeAllocator allocator(device, upstream);
  ASSERT_TRUE(allocator.adopt(plan_of({8 * kMiB}), true));
  const auto run_step = [&](Pool pool) {
    allocator.begin_step();
    allocator.free(allocator.allocate(8 * kMiB));
    if (pool != 0) allocator.free(allocator.allocate(Keeper::kSize, 0, pool));
    return upstream.emptied;
  };
  const int before = run_step(1);
  EXPECT_EQ(run_step(0), before) << "the step before was not as planned";
  EXPECT_EQ(run_step(0), before + 1);
  EXPECT_EQ(run_step(0), before + 1) << "it holds the same as after the step before";
  run_step(1);
  run_step(0);
  EXPECT_EQ(run_step(0), before + 2);
}

}  // namespace
}  // namespace stweaver
