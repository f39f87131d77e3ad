// An NVIDIA GPU, through its driver.
#pragma once

#include <functional>
#include <memory>

#include "device/model.h"

namespace stweaver {

/// How much memory may lie behind reserved addresses, in bytes. Both may be empty, and are called from any
/// thread, inside map() and unmap().
struct MapLimit {
  std::function<bool(Bytes held)> allows;  ///< false: map() is out of memory
  std::function<void(Bytes held)> told;    ///< what it is from now on
};

/// The GPU that CUDA counts as `ordinal`. Works in the device's primary context, which it shares with
/// PyTorch, from any thread, and leaves the thread's current context as it was. A stream is a CUstream; 0 is
/// the legacy default stream. Error in one line when there is no driver, no such device, or either is too
/// old.
///
/// free(), release() and unmap() refuse what this object did not hand out. fill() and count_other() take any
/// memory of the device: the wrong address in count_other() breaks the context of the whole process, as it
/// does in every kernel. On destruction everything is given back, also what nobody freed.
std::unique_ptr<Device> open_cuda(int ordinal, MapLimit limit = {});

}  // namespace stweaver
