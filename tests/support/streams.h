// Streams and settings for tests of PyTorch's simulated allocators.
#pragma once

#include "simulate/settings.h"
#include "trace/model.h"

namespace stweaver {

inline constexpr Stream kMain = 0;
inline constexpr Stream kSide = 7;

inline AllocatorSettings expandable() {
  return parse_settings("expandable_segments:True");
}

}  // namespace stweaver
