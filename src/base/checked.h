// Arithmetic on numbers from strangers: refuses to overflow instead of wrapping.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/size.h"

namespace stweaver {

/// a + b; Error naming `what` when it does not fit.
inline std::int64_t checked_add(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail(what, " is out of range");
  return sum;
}

/// align_up for a size that was not validated; Error naming `what` when negative or too large.
inline Bytes checked_align_up(Bytes size, Bytes alignment, std::string_view what) {
  if (size < 0) fail(what, " is negative");
  return checked_add(size, alignment - 1, what) / alignment * alignment;
}

}  // namespace stweaver
