// Layer runtime: the Runtime Allocator, which follows a plan inside a live process. Includes plan and device.
#pragma once

#include "runtime/block_table.h"        // IWYU pragma: export
#include "runtime/free_space.h"         // IWYU pragma: export
#include "runtime/life_cycle.h"         // IWYU pragma: export
#include "runtime/matcher.h"            // IWYU pragma: export
#include "runtime/memory.h"             // IWYU pragma: export
#include "runtime/meters.h"             // IWYU pragma: export
#include "runtime/pending_frees.h"      // IWYU pragma: export
#include "runtime/placer.h"             // IWYU pragma: export
#include "runtime/plan_fit.h"           // IWYU pragma: export
#include "runtime/plan_follower.h"      // IWYU pragma: export
#include "runtime/plan_index.h"         // IWYU pragma: export
#include "runtime/policy.h"             // IWYU pragma: export
#include "runtime/recorder.h"           // IWYU pragma: export
#include "runtime/runtime_allocator.h"  // IWYU pragma: export
#include "runtime/statistics.h"         // IWYU pragma: export
#include "runtime/stream_order.h"       // IWYU pragma: export
#include "runtime/upstream.h"           // IWYU pragma: export
