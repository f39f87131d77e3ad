// What all files of this folder need: CUDA's own headers, and how a function of CUDA begins and ends.
#pragma once

#include <bit>
#include <cstdint>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "model/machine.h"

// What the headers of CUDA 12.1 (torch 2.1 to 2.4) lack: names, and the file that those of small floats
// include.
#if CUDA_VERSION < 12030
constexpr auto CU_MEM_LOCATION_TYPE_HOST = static_cast<CUmemLocationType>(2);
constexpr auto CU_MEM_HANDLE_TYPE_FABRIC = static_cast<CUmemAllocationHandleType>(8);
constexpr auto CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = static_cast<CUdevice_attribute>(128);
struct CUgraphEdgeData;
#define __CUDA_FP16_H__
#define __CUDA_BF16_H__
#define __CUDA_BF16_TYPES_EXIST__
struct __half;
struct __nv_bfloat16;
#endif

/// A function that programs see.
#define NULLCUDA_API extern "C" __attribute__((visibility("default")))

namespace nullcuda {

/// What cudaGetLastError of this thread answers next.
cudaError_t& last_error();

/// Ends a function of the run time: remembers the error.
inline cudaError_t ended(int error) {
  if (error != 0) last_error() = static_cast<cudaError_t>(error);
  return static_cast<cudaError_t>(error);
}
inline CUresult driver(int error) {
  return static_cast<CUresult>(error);
}

/// The same numbers mean the same in cudaError_t and CUresult, where both have them.
inline int error_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return 0;
    case Outcome::kOutOfMemory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case Outcome::kUnsupported:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

inline std::uint64_t address_of(const void* pointer) {
  return std::bit_cast<std::uint64_t>(pointer);
}
template <typename Pointer>
Pointer as_pointer(std::uint64_t address) {
  return std::bit_cast<Pointer>(address);
}
/// A stream's number. cudaStreamLegacy is another name of stream 0.
inline StreamId id_of(cudaStream_t stream) {
  return stream == cudaStreamLegacy ? 0 : std::bit_cast<StreamId>(stream);
}

/// Whether a device number is one that this process sees.
inline bool is_device_number(int number) {
  return number >= 0 && static_cast<std::size_t>(number) < visible_devices().size();
}

/// Where a device of the machine, whether this process sees it or not, is on its bus.
std::string bus_of(int device);

/// Gives a thread that calls the run time the primary context of its device, unless it has a context.
void enter_primary_context();

/// What the program may ask of the device, by the numbers of cudaDeviceAttr and CUdevice_attribute, which
/// agree.
int attribute(int number, int device);

}  // namespace nullcuda

/// Counts the call; where it must fail, ends the function with that error.
#define NULLCUDA_RUNTIME_CALL()      \
  nullcuda::enter_primary_context(); \
  if (const int injected = NULLCUDA_CALLED(); injected != 0) return nullcuda::ended(injected)
#define NULLCUDA_DRIVER_CALL() \
  if (const int injected = NULLCUDA_CALLED(); injected != 0) return nullcuda::driver(injected)
