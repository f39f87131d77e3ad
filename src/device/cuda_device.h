// An NVIDIA GPU, through its driver.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "device/model.h"

namespace stweaver {

/// Who is asked and told about memory behind reserved addresses, in bytes. Each may be empty; they are called
/// from any thread, inside map() and unmap().
struct MapWatch {
  std::function<bool(Bytes held)> allows;                         ///< false: map() is out of memory
  std::function<void(Bytes held)> holds;                          ///< that much from now on
  std::function<void(const std::byte* at, Bytes size)> unmapped;  ///< what was there is there no more
};

/// The GPU that CUDA counts as `ordinal`. Works in the device's primary context, which it shares with
/// PyTorch, from any thread, and leaves the thread's current context as it was. A stream is a CUstream; 0 is
/// the legacy default stream. Error in one line when there is no driver, no such device, or either is too
/// old.
///
/// free(), release() and unmap() refuse what this object did not hand out. fill() and count_other() take any
/// memory of the device: the wrong address in count_other() breaks the context of the whole process, as it
/// does in every kernel. On destruction everything is given back, also what nobody freed.
std::unique_ptr<Device> open_cuda(int ordinal, MapWatch watch = {});

}  // namespace stweaver
