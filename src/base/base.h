// Layer base: sizes, alignment, intervals, errors, checked arithmetic, checksums. Includes nothing of ours.
// Not in here: parallel_for.h, for adapters include this and start no threads.
#pragma once

#include "base/checked.h"   // IWYU pragma: export
#include "base/checksum.h"  // IWYU pragma: export
#include "base/error.h"     // IWYU pragma: export
#include "base/hash.h"      // IWYU pragma: export
#include "base/interval.h"  // IWYU pragma: export
#include "base/size.h"      // IWYU pragma: export
