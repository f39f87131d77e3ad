// Layer arena: the memory of an allocator, with no plan in sight. What is mapped, what is idle, who has which
// block, which stream may use what, and where a request goes that no plan has a place for. Includes device.
#pragma once

#include "arena/block_table.h"     // IWYU pragma: export
#include "arena/extent_table.h"    // IWYU pragma: export
#include "arena/free_space.h"      // IWYU pragma: export
#include "arena/lasting_blocks.h"  // IWYU pragma: export
#include "arena/memory.h"          // IWYU pragma: export
#include "arena/pending_frees.h"   // IWYU pragma: export
#include "arena/placer.h"          // IWYU pragma: export
#include "arena/policy.h"          // IWYU pragma: export
#include "arena/stream_order.h"    // IWYU pragma: export
