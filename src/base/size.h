// Sizes in bytes and their alignment.
#pragma once

#include <cstdint>

namespace stweaver {

/// A number of bytes, or an offset into an arena. Signed, so that a difference is a plain number.
using Bytes = std::int64_t;

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kGiB = 1024 * kMiB;

/// No memory is so large, and sums of a few sizes that are no larger cannot overflow.
inline constexpr Bytes kMostMemory = Bytes{1} << 60U;

/// What every offset of a plan is a multiple of unless the caller says otherwise: PyTorch's kMinBlockSize
/// (c10/core/AllocatorConfig.h), so a planned block is aligned like one of PyTorch's own.
inline constexpr Bytes kAlignment = 512;

/// Larger requests go to PyTorch's large pool (c10/core/AllocatorConfig.h).
inline constexpr Bytes kSmallSize = kMiB;

/// Beside what it uses, a job may hold this share of it idle (arena/policy.h). What a plan costs or saves is
/// measured by it, too.
inline constexpr Bytes kSlackShare = 300;
/// Or, in small jobs, so much.
inline constexpr Bytes kLeastSlack = 8 * kMiB;

/// The smallest multiple of `alignment` that is >= `size`. Wants size >= 0, alignment >= 1 and no overflow;
/// for numbers from a stranger use checked_align_up (base/checked.h).
constexpr Bytes align_up(Bytes size, Bytes alignment) {
  // A division takes longer than the rest of what many callers do.
  if ((alignment & (alignment - 1)) == 0) return (size + alignment - 1) & ~(alignment - 1);
  return (size + alignment - 1) / alignment * alignment;
}

constexpr double to_gib(double bytes) {
  return bytes / static_cast<double>(kGiB);
}
constexpr double to_gib(Bytes size) {
  return to_gib(static_cast<double>(size));
}

}  // namespace stweaver
