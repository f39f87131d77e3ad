// Layer device: where memory comes from. Host memory, CUDA through its driver, and a device that fails on
// demand.
#pragma once

#include "device/cuda_device.h"     // IWYU pragma: export
#include "device/failing_device.h"  // IWYU pragma: export
#include "device/host_device.h"     // IWYU pragma: export
#include "device/model.h"           // IWYU pragma: export
