// What a request that failed is told: what is held, what of it is idle and why, what lives, what would help.
#pragma once

#include <limits>
#include <string>

#include "device/device.h"
#include "runtime/runtime_allocator.h"

namespace stweaver {

/// A request that failed. Sizes in bytes.
struct Shortage {
  Bytes size = 0;
  /// What the process may hold of the device.
  Bytes allowed = std::numeric_limits<Bytes>::max();
  /// Whether `device` counts what others hold: not so on a host.
  bool sees_others = true;
  DeviceMemory device = {};
  std::string stage = {};        ///< Session::stage()
  std::string why_no_plan = {};  ///< Session::why_no_plan()
};

/// A few lines, without a line break at the end. Claims only what is known; looks at every living block.
std::string explain(const RuntimeAllocator& allocator, const Shortage& shortage);

}  // namespace stweaver
