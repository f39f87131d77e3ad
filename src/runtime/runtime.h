// Layer runtime: the Runtime Allocator, which follows a plan inside a live process. Includes plan and device.
#pragma once

#include "runtime/upstream.h"  // IWYU pragma: export
