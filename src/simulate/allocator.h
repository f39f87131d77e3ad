// What an allocator must offer so that a trace can be replayed against it.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "base/base.h"
#include "trace/model.h"

namespace stweaver {

/// Where a block lies. Numbers only: nothing in this layer touches the memory.
using Address = std::uint64_t;

/// What an allocator holds and what befell it. Sizes in bytes.
struct AllocatorStatistics {
  Bytes reserved = 0;         ///< held from the device
  Bytes reserved_peak = 0;    ///< the most it ever held
  Bytes allocated = 0;        ///< in blocks that are in use, after rounding
  Bytes allocated_peak = 0;   ///< the most of that at one time
  Bytes requested = 0;        ///< what was asked for in those blocks
  Bytes requested_peak = 0;   ///< the most that was ever asked for at one time
  std::int64_t segments = 0;  ///< cudaMalloc'ed and not yet given back; 0 with expandable segments
  std::int64_t retries = 0;   ///< times the device was asked again after the cache was flushed
  std::int64_t ooms = 0;      ///< requests that failed
};

/// `allocate` gives the address of a block that nobody else has until it is freed, or nothing when out of
/// memory. `free` gives it back for use on the stream it was allocated on.
template <typename A>
concept Allocator = requires(A allocator, const A& constant, Bytes size, Stream stream, Pool pool,
                             Address address) {
  { allocator.allocate(size, stream, pool) } -> std::same_as<std::optional<Address>>;
  { allocator.free(address) } -> std::same_as<void>;
  { constant.statistics() } -> std::convertible_to<AllocatorStatistics>;
};

}  // namespace stweaver
