// The hot path does not touch the heap: global new and delete of this test program count.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "device/device.h"
#include "runtime/runtime.h"
#include "simulate/caching_upstream.h"
#include "support/planned_training.h"

namespace {

thread_local std::int64_t heap_calls = 0;

void* counted(std::size_t size) {
  ++heap_calls;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

void* counted(std::size_t size, std::align_val_t alignment) {
  ++heap_calls;
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* const memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}

void counted_free(void* memory) {
  ++heap_calls;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new[](std::size_t size) {
  return counted(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, alignment);
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, alignment);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++heap_calls;
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  ++heap_calls;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept {
  counted_free(memory);
}
void operator delete[](void* memory) noexcept {
  counted_free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  counted_free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  counted_free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  counted_free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  counted_free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  counted_free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  counted_free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  counted_free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  counted_free(memory);
}

namespace stweaver {
namespace {

/// Heap calls of each step of the job; of calls of the allocator alone.
std::vector<std::int64_t> heap_calls_by_step(const PlannedTraining& job, bool shared) {
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  RuntimeAllocator allocator(device, upstream);
  EXPECT_TRUE(allocator.adopt(job.plan));
  std::vector<void*> blocks(job.script.requests.size());
  std::vector<std::int64_t> by_step;
  for (const Call& call : job.script.calls) {
    const Asked& asked = job.script.requests[call.request];
    const std::int64_t before = heap_calls;
    if (call.kind == Call::Kind::kStep) allocator.begin_step();
    if (call.kind == Call::Kind::kFree) allocator.free(blocks[call.request]);
    if (call.kind == Call::Kind::kAllocate) {
      blocks[call.request] = allocator.allocate(asked.size, asked.stream);
      if (shared && call.request % 3 == 0) allocator.record_stream(blocks[call.request], 99);
    }
    const std::int64_t made = heap_calls - before;
    if (call.kind == Call::Kind::kStep) by_step.push_back(0);
    if (!by_step.empty()) by_step.back() += made;
  }
  EXPECT_EQ(allocator.statistics().served.beside_plan(), 0);
  return by_step;
}

void expect_quiet_after_two_steps(const std::vector<std::int64_t>& by_step) {
  ASSERT_GT(by_step.size(), 4U);
  for (std::size_t step = 2; step < by_step.size(); ++step) EXPECT_EQ(by_step[step], 0) << "step " << step;
}

TEST(Heap, IsSeenByThisProgram) {
  const std::int64_t before = heap_calls;
  auto number = std::make_unique<int>(1);
  number.reset();
  EXPECT_EQ(heap_calls, before + 2);
}

TEST(Heap, IsNotTouchedByAStepThatIsServedFromThePlan) {
  expect_quiet_after_two_steps(heap_calls_by_step(plain_training(), false));
}

TEST(Heap, IsNotTouchedWhereStreamsHandOverMemory) {
  expect_quiet_after_two_steps(heap_calls_by_step(training_on_two_streams(), false));
}

TEST(Heap, IsNotTouchedWhereBlocksAreUsedOnOtherStreams) {
  expect_quiet_after_two_steps(heap_calls_by_step(plain_training(), true));
}

}  // namespace
}  // namespace stweaver
