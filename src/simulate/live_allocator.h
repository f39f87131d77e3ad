// The allocators of live processes as allocators that a trace can be replayed against.
#pragma once

#include <bit>
#include <functional>
#include <optional>
#include <utility>

#include "runtime/runtime_allocator.h"
#include "simulate/allocator.h"

namespace stweaver {

/// A RuntimeAllocator or a CachingUpstream, which must outlive this, in the words of this layer.
template <typename A>
class LiveAllocator {
 public:
  /// `begin_step` is what the beginning of a step means for it, `request` is called before each request;
  /// nothing if empty.
  explicit LiveAllocator(A& allocator, std::function<void()> begin_step = {},
                         std::function<void()> request = {})
      : allocator_(&allocator), begin_step_(std::move(begin_step)), request_(std::move(request)) {}

  std::optional<Address> allocate(Bytes size, Stream stream, Pool pool = 0) {
    if (request_) request_();
    void* const memory = allocator_->allocate(size, stream, pool);
    if (memory == nullptr && size > 0) return std::nullopt;
    return std::bit_cast<Address>(memory);
  }

  void free(Address address) { allocator_->free(std::bit_cast<void*>(address)); }

  void begin_step() {
    if (begin_step_) begin_step_();
  }

  [[nodiscard]] AllocatorStatistics statistics() const { return in_common(allocator_->statistics()); }

 private:
  static AllocatorStatistics in_common(const AllocatorStatistics& now) { return now; }
  static AllocatorStatistics in_common(const RuntimeStatistics& now) {
    return {.reserved = now.reserved(),
            .reserved_peak = now.peaks.reserved,
            .requested = now.requested,
            .requested_peak = now.peaks.requested,
            .ooms = now.ooms};
  }

  A* allocator_;
  std::function<void()> begin_step_;
  std::function<void()> request_;
};

}  // namespace stweaver
