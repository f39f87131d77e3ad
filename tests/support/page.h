// The page of the devices in these tests.
#pragma once

#include "base/base.h"

namespace stweaver {

inline constexpr Bytes kPage = 2 * kMiB;

/// Pages [first, last).
inline Interval pages(Bytes first, Bytes last) {
  return {first * kPage, last * kPage};
}

}  // namespace stweaver
