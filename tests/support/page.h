// The page of the devices in these tests.
#pragma once

#include "base/base.h"

namespace stweaver {

inline constexpr Bytes kPage = 2 * kMiB;

}  // namespace stweaver
