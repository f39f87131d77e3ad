// Living blocks as torch.cuda.memory_stats() counts them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/base.h"

namespace stweaver {

/// One quantity over time: PyTorch's Stat (c10/core/CachingDeviceAllocator.h).
struct Meter {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;  ///< all that was ever added
  std::int64_t freed = 0;      ///< all that was ever taken away

  void add(std::int64_t amount) {
    current += amount;
    allocated += amount;
    peak = std::max(peak, current);
  }
  void remove(std::int64_t amount) {
    current -= amount;
    freed += amount;
  }
};

/// Blocks of one kind.
struct BlockMeters {
  Meter blocks;
  Meter bytes;      ///< after rounding
  Meter requested;  ///< bytes as asked for

  void add(Bytes size, Bytes rounded) {
    blocks.add(1);
    bytes.add(rounded);
    requested.add(size);
  }
  void remove(Bytes size, Bytes rounded) {
    blocks.remove(1);
    bytes.remove(rounded);
    requested.remove(size);
  }
  template <typename Change>
  void change_each(Change change) {
    for (Meter* const meter : {&blocks, &bytes, &requested}) change(*meter);
  }
};

/// Larger requests go to PyTorch's large pool (c10/core/AllocatorConfig.h).
inline constexpr Bytes kSmallSize = kMiB;

/// By pool.
enum class SizeClass : std::uint8_t { kAll, kSmall, kLarge };

struct Meters {
  using Kinds = std::array<BlockMeters, 3>;  ///< by SizeClass
  Kinds arena;                               ///< blocks in the arena
  Kinds served;                              ///< those and the fallback's
  Bytes reserved_peak = 0;                   ///< arena and fallback

  /// Adds a block to what lives, or takes it away again.
  void count(Bytes size, Bytes rounded, bool in_arena, bool lives) {
    const auto kind = static_cast<std::size_t>(rounded <= kSmallSize ? SizeClass::kSmall : SizeClass::kLarge);
    for (const std::size_t which : {std::size_t{0}, kind}) {
      if (in_arena) change(arena[which], size, rounded, lives);
      change(served[which], size, rounded, lives);
    }
  }

  void reset_peaks(Bytes reserved) {
    reserved_peak = reserved;
    change_each([](Meter& meter) { meter.peak = meter.current; });
  }
  void reset_accumulated() {
    change_each([](Meter& meter) { meter.allocated = meter.freed = 0; });
  }

 private:
  static void change(BlockMeters& meters, Bytes size, Bytes rounded, bool lives) {
    if (lives) {
      meters.add(size, rounded);
    } else {
      meters.remove(size, rounded);
    }
  }
  template <typename Change>
  void change_each(Change change) {
    for (Kinds* const kinds : {&arena, &served})
      for (BlockMeters& meters : *kinds) meters.change_each(change);
  }
};

}  // namespace stweaver
