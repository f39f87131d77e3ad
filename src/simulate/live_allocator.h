// The Runtime Allocator as an allocator that a trace can be replayed against.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/runtime_allocator.h"
#include "simulate/allocator.h"

namespace stweaver {

/// A RuntimeAllocator, which must outlive this, in the words of this layer.
class LiveAllocator {
 public:
  explicit LiveAllocator(RuntimeAllocator& allocator) : allocator_(&allocator) {}

  std::optional<Address> allocate(Bytes size, Stream stream, Pool pool = 0) {
    void* const memory = allocator_->allocate(size, stream, pool);
    if (memory == nullptr && size > 0) return std::nullopt;
    return reinterpret_cast<Address>(memory);
  }

  void free(Address address) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses are numbers in this layer
    allocator_->free(reinterpret_cast<void*>(address));
  }

  void begin_step() { allocator_->begin_step(); }

  [[nodiscard]] AllocatorStatistics statistics() const {
    const RuntimeStatistics now = allocator_->statistics();
    return {.reserved = now.reserved(),
            .reserved_peak = now.peaks.reserved,
            .requested = now.requested,
            .requested_peak = now.peaks.requested,
            .ooms = now.ooms};
  }

 private:
  RuntimeAllocator* allocator_;
};

}  // namespace stweaver
