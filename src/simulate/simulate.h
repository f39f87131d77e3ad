// Layer simulate: PyTorch's caching allocator, event by event; replay of a trace against any allocator.
// Includes base and trace.
#pragma once

#include "simulate/allocator.h"          // IWYU pragma: export
#include "simulate/caching_allocator.h"  // IWYU pragma: export
#include "simulate/replay.h"             // IWYU pragma: export
#include "simulate/settings.h"           // IWYU pragma: export
