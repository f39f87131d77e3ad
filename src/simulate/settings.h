// PyTorch's allocator settings (PYTORCH_ALLOC_CONF), and the sizes they lead to.
#pragma once

#include <array>
#include <limits>
#include <string_view>

#include "base/base.h"

namespace stweaver {

// c10/core/AllocatorConfig.h
inline constexpr Bytes kMinBlockSize = 512;         ///< every block is a multiple of this
inline constexpr Bytes kSmallBuffer = 2 * kMiB;     ///< a segment (or page) of the small pool
inline constexpr Bytes kMinLargeAlloc = 10 * kMiB;  ///< from here on a request gets a segment of its own size
inline constexpr Bytes kRoundLarge = 2 * kMiB;      ///< ... rounded up to this
inline constexpr Bytes kLargeSegmentSize = 20 * kMiB;  ///< a segment (or page) of the large pool by default

/// "No limit", for a size.
inline constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

/// What a settings string says. The defaults are PyTorch's.
struct AllocatorSettings {
  Bytes max_split_size = kUnlimited;                 ///< blocks of at least this size are never split
  Bytes max_non_split_rounding = kLargeSegmentSize;  ///< what such a block may be larger than the request
  Bytes large_segment_size = kLargeSegmentSize;      ///< segment (or page) of the large pool
  std::array<Bytes, 16>
      roundup_power2_divisions{};           ///< for sizes from 1 MiB, 2 MiB, ... 32 GiB; 0 and 1 mean none
  double garbage_collection_threshold = 0;  ///< share of the allowed memory; 0 means never
  bool expandable_segments = false;
  double memory_fraction = 1;  ///< share of the device that may be reserved
  bool oldest_first = false;   ///< of equal free blocks that of the oldest segment is taken, not the lowest;
                               ///< no setting of PyTorch's, but what it does from 2.13 on (Trace::settings)
};

/// Reads PyTorch's syntax, e.g. "expandable_segments:True,roundup_power2_divisions:[256:1,>:4]". Other keys
/// are ignored: those that PyTorch 2.13 has beside these do not influence where a block lies. Error, naming
/// the key, for values that PyTorch refuses, and for a backend other than its own allocator.
/// (c10/core/AllocatorConfig.cpp, c10/cuda/CUDAAllocatorConfig.cpp)
AllocatorSettings parse_settings(std::string_view text);

/// The size of the block that a request of `size` > 0 bytes gets. (`round_size`, CUDACachingAllocator.cpp)
Bytes round_size(const AllocatorSettings& settings, Bytes size);

/// The size of the segment that is made for a block of `rounded` bytes. (`get_allocation_size`, same file)
Bytes allocation_size(const AllocatorSettings& settings, Bytes rounded);

}  // namespace stweaver
