// One allocation and free as C++ sees it, for cost.py: PyTorch's allocator of a device, called in a loop.
#include <c10/core/Allocator.h>
#include <chrono>
#include <cstddef>

/// Nanoseconds for one allocation and its free, the mean of `rounds`, on the current device and stream.
/// `device_type` is a c10::DeviceType.
extern "C" double allocate_and_free(int device_type, std::size_t size, int rounds) {
  c10::Allocator* allocator = c10::GetAllocator(static_cast<c10::DeviceType>(device_type));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) const c10::DataPtr block = allocator->allocate(size);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  return took.count() / rounds;
}
