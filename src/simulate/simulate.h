// Layer simulate: PyTorch's caching allocator, event by event; replay of a trace against any allocator; one
// job under PyTorch's allocators and under a plan, side by side.
#pragma once

#include "simulate/allocator.h"          // IWYU pragma: export
#include "simulate/caching_allocator.h"  // IWYU pragma: export
#include "simulate/caching_upstream.h"   // IWYU pragma: export
#include "simulate/comparison.h"         // IWYU pragma: export
#include "simulate/live_allocator.h"     // IWYU pragma: export
#include "simulate/live_ranges.h"        // IWYU pragma: export
#include "simulate/logged_host.h"        // IWYU pragma: export
#include "simulate/one_stream.h"         // IWYU pragma: export
#include "simulate/replay.h"             // IWYU pragma: export
#include "simulate/segment_log.h"        // IWYU pragma: export
#include "simulate/segments.h"           // IWYU pragma: export
#include "simulate/serving.h"            // IWYU pragma: export
#include "simulate/settings.h"           // IWYU pragma: export
#include "simulate/stamps.h"             // IWYU pragma: export
#include "simulate/witness.h"            // IWYU pragma: export
