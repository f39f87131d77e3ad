// Layer runtime: the Runtime Allocator, which follows a plan inside a live process. Includes plan and arena.
#pragma once

#include "arena/arena.h"                // IWYU pragma: export
#include "runtime/life_cycle.h"         // IWYU pragma: export
#include "runtime/matcher.h"            // IWYU pragma: export
#include "runtime/meters.h"             // IWYU pragma: export
#include "runtime/plan_fit.h"           // IWYU pragma: export
#include "runtime/plan_follower.h"      // IWYU pragma: export
#include "runtime/plan_index.h"         // IWYU pragma: export
#include "runtime/policy.h"             // IWYU pragma: export
#include "runtime/recorder.h"           // IWYU pragma: export
#include "runtime/runtime_allocator.h"  // IWYU pragma: export
#include "runtime/statistics.h"         // IWYU pragma: export
#include "runtime/upstream.h"           // IWYU pragma: export
