// Layer runtime: the Runtime Allocator, which follows a plan inside a live process. Includes plan and device.
#pragma once

#include "runtime/arena.h"              // IWYU pragma: export
#include "runtime/backoff.h"            // IWYU pragma: export
#include "runtime/block_table.h"        // IWYU pragma: export
#include "runtime/free_form.h"          // IWYU pragma: export
#include "runtime/free_space.h"         // IWYU pragma: export
#include "runtime/life_cycle.h"         // IWYU pragma: export
#include "runtime/matcher.h"            // IWYU pragma: export
#include "runtime/meters.h"             // IWYU pragma: export
#include "runtime/plan_index.h"         // IWYU pragma: export
#include "runtime/recorder.h"           // IWYU pragma: export
#include "runtime/runtime_allocator.h"  // IWYU pragma: export
#include "runtime/statistics.h"         // IWYU pragma: export
#include "runtime/stream_order.h"       // IWYU pragma: export
#include "runtime/upstream.h"           // IWYU pragma: export
