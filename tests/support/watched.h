// A runtime allocator that is watched.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "runtime/runtime.h"
#include "support/ledger.h"

namespace stweaver {

/// After every call no two living blocks may share a byte and the books must balance.
class Watched {
 public:
  /// Memory is mapped in large blocks even in a job as small as these.
  Watched(Device& device, Upstream& upstream)
      : allocator(device, upstream, {{.least_slack = 16 * kMiB, .block = 16 * kMiB}}) {}
  /// With a plan that was made in this process.
  Watched(Device& device, Upstream& upstream, std::shared_ptr<const PlanIndex> plan)
      : Watched(device, upstream) {
    EXPECT_TRUE(allocator.adopt(std::move(plan), true));
  }

  /// nullptr when out of memory or for no bytes.
  void* try_allocate(Bytes size, Stream stream = 0, Pool pool = 0) {
    void* const memory = allocator.allocate(size, stream, pool);
    if (memory != nullptr) {
      EXPECT_TRUE(living_.add({.address = std::bit_cast<Address>(memory), .size = size}));
      ++granted_;
    } else if (size > 0) {
      ++refused_;
    }
    peak_ = std::max(peak_, living_.bytes());
    expect_balanced_books();
    return memory;
  }

  void* allocate(Bytes size, Stream stream = 0, Pool pool = 0) {
    void* const memory = try_allocate(size, stream, pool);
    EXPECT_NE(memory, nullptr) << size << " bytes";
    return memory;
  }

  void free(void* memory) {
    EXPECT_TRUE(memory == nullptr || living_.remove_at(std::bit_cast<Address>(memory)));
    allocator.free(memory);
    expect_balanced_books();
  }

  void begin_step() {
    allocator.begin_step();
    expect_balanced_books();
  }

  /// Whether the next request is served by the plan.
  bool hits(Bytes size, Stream stream = 0, Pool pool = 0) {
    const std::int64_t before = allocator.statistics().served.in_plan();
    allocate(size, stream, pool);
    return allocator.statistics().served.in_plan() > before;
  }

  void expect_balanced_books() const {
    const RuntimeStatistics now = allocator.statistics();
    EXPECT_EQ(now.requested, living_.bytes());
    EXPECT_EQ(now.planned + now.reused + now.unplanned + now.fallback, now.requested);
    EXPECT_GE(std::min({now.planned, now.reused, now.unplanned, now.fallback}), 0);
    EXPECT_EQ(now.blocks, living_.count());
    EXPECT_EQ(now.served.in_plan() + now.served.beside_plan(), granted_);
    EXPECT_EQ(now.ooms, refused_);
    EXPECT_GE(now.allocated, now.planned + now.reused + now.unplanned);
    EXPECT_GE(now.arena, now.allocated);
    EXPECT_GE(now.fallback_reserved, 0);
    EXPECT_EQ(now.peaks.requested, peak_);
    EXPECT_GE(now.peaks.reserved, now.reserved());
    EXPECT_GE(now.peaks.reserved, now.peaks.fallback_reserved);
    EXPECT_GE(now.peaks.fallback_reserved, now.fallback_reserved);
  }

  /// Nothing lives any more, and nobody holds anything.
  void expect_all_returned() const {
    const RuntimeStatistics now = allocator.statistics();
    EXPECT_TRUE(living_.empty());
    EXPECT_EQ(now.planned, 0);
    EXPECT_EQ(now.reused, 0);
    EXPECT_EQ(now.unplanned, 0);
    EXPECT_EQ(now.fallback, 0);
    EXPECT_EQ(now.allocated, 0);
  }

  RuntimeAllocator allocator;

 private:
  Ledger living_;
  std::int64_t granted_ = 0;
  std::int64_t refused_ = 0;
  Bytes peak_ = 0;
};

}  // namespace stweaver
