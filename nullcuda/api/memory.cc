// cudaMalloc and its kin, host memory that the device can see, and what is known of a pointer.

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "api/abi.h"

namespace nullcuda {
namespace {

/// Host memory that the program made or registered with CUDA: begin to size.
struct Pinned {
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> ranges;
};

Pinned& pinned() {
  static auto* const kPinned = new Pinned;
  return *kPinned;
}

constexpr std::size_t kHostPage = 4096;

int allocate(void** memory, std::size_t size) {
  *memory = nullptr;
  if (size == 0) return 0;
  if (const int error = machine().streams.unsafe(); error != 0) return error;
  std::uint64_t address = 0;
  const Outcome outcome = machine().memory.allocate(current_device(), size, address);
  if (outcome == Outcome::kOk) *memory = as_pointer<void*>(address);
  return error_of(outcome);
}

int release(const char* what, void* memory) {
  if (memory == nullptr) return 0;
  if (const int error = machine().streams.unsafe(); error != 0) return error;
  const auto mapping = machine().memory.find(address_of(memory));
  if (mapping == nullptr || mapping->begin != address_of(memory) || !mapping->whole)
    return cudaErrorInvalidValue;
  machine().streams.synchronize_all();  // as the real one does
  forget(what, mapping->begin, mapping->size);
  return error_of(machine().memory.free(address_of(memory)));
}

/// Allocations in the order of a stream: what the pool holds is at once given back.
int release_in_order(const char* what, void* memory, cudaStream_t stream) {
  const auto mapping = machine().memory.find(address_of(memory));
  if (mapping == nullptr || !mapping->whole) return cudaErrorInvalidValue;
  use(what, id_of(stream), mapping->begin, mapping->size, true);
  machine().streams.finish(id_of(stream));
  forget(what, mapping->begin, mapping->size);
  return error_of(machine().memory.free(mapping->begin));
}

int allocate_pinned(void** memory, std::size_t size) {
  // Real pinned memory is not zeroed; programs that read it unwritten get the same every time here.
  *memory =
      std::aligned_alloc(kHostPage, (size + kHostPage - 1) / kHostPage * kHostPage + kHostPage * (size == 0));
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0, size);
  const std::scoped_lock lock(pinned().mutex);
  pinned().ranges[address_of(*memory)] = size;
  return 0;
}

int release_pinned(void* memory) {
  if (memory == nullptr) return 0;
  {
    const std::scoped_lock lock(pinned().mutex);
    if (pinned().ranges.erase(address_of(memory)) == 0) return cudaErrorInvalidValue;
  }
  machine().streams.synchronize_all();
  std::free(memory);
  return 0;
}

int register_pinned(void* memory, std::size_t size) {
  const std::scoped_lock lock(pinned().mutex);
  return pinned().ranges.emplace(address_of(memory), size).second ? 0 : cudaErrorHostMemoryAlreadyRegistered;
}

int unregister_pinned(void* memory) {
  const std::scoped_lock lock(pinned().mutex);
  return pinned().ranges.erase(address_of(memory)) == 1 ? 0 : cudaErrorHostMemoryNotRegistered;
}

int memory_info(std::size_t* free, std::size_t* total) {
  Memory& memory = machine().memory;
  memory.touch(current_device());
  *total = memory.total();
  *free = *total - std::min(*total, memory.used(current_device()));
  return 0;
}

}  // namespace

bool is_pinned(const void* address) {
  const std::scoped_lock lock(pinned().mutex);
  auto range = pinned().ranges.upper_bound(address_of(address));
  if (range == pinned().ranges.begin()) return false;
  --range;
  return address_of(address) < range->first + range->second;
}

}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace): the functions below are nobody's namespace

NULLCUDA_API cudaError_t cudaMalloc(void** memory, std::size_t size) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate(memory, size));
}

NULLCUDA_API cudaError_t cudaFree(void* memory) {
  NULLCUDA_RUNTIME_CALL();
  machine().memory.touch(current_device());  // cudaFree(nullptr) is how programs start a device
  return ended(release("cudaFree", memory));
}

NULLCUDA_API cudaError_t cudaMallocAsync(void** memory, std::size_t size, cudaStream_t) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate(memory, size));
}

NULLCUDA_API cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t size, cudaMemPool_t,
                                                 cudaStream_t) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate(memory, size));
}

NULLCUDA_API cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(release_in_order("cudaFreeAsync", memory, stream));
}

NULLCUDA_API cudaError_t cudaMallocPitch(void** memory, std::size_t* pitch, std::size_t width,
                                         std::size_t height) {
  NULLCUDA_RUNTIME_CALL();
  constexpr std::size_t kPitch = 512;
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return ended(allocate(memory, *pitch * height));
}

NULLCUDA_API cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  NULLCUDA_RUNTIME_CALL();
  return ended(memory_info(free, total));
}

NULLCUDA_API cudaError_t cudaHostAlloc(void** memory, std::size_t size, unsigned) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate_pinned(memory, size));
}

NULLCUDA_API cudaError_t cudaMallocHost(void** memory, std::size_t size) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate_pinned(memory, size));
}

NULLCUDA_API cudaError_t cudaMallocManaged(void** memory, std::size_t size, unsigned) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate_pinned(memory, size));
}

NULLCUDA_API cudaError_t cudaFreeHost(void* memory) {
  NULLCUDA_RUNTIME_CALL();
  return ended(release_pinned(memory));
}

NULLCUDA_API cudaError_t cudaHostRegister(void* memory, std::size_t size, unsigned) {
  NULLCUDA_RUNTIME_CALL();
  return ended(register_pinned(memory, size));
}

NULLCUDA_API cudaError_t cudaHostUnregister(void* memory) {
  NULLCUDA_RUNTIME_CALL();
  return ended(unregister_pinned(memory));
}

NULLCUDA_API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  NULLCUDA_RUNTIME_CALL();
  *device = host;
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  NULLCUDA_RUNTIME_CALL();
  *attributes = {};
  auto* address =
      const_cast<void*>(pointer);  // NOLINT(cppcoreguidelines-pro-type-const-cast): as CUDA has it
  if (is_device(address_of(pointer))) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = device_of(address_of(pointer));
    attributes->devicePointer = address;
  } else if (is_pinned(pointer)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = current_device();
    attributes->devicePointer = attributes->hostPointer = address;
  } else {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -1;
  }
  return cudaSuccess;
}

// ---- the driver's names for the same ----

NULLCUDA_API CUresult cuMemAlloc(CUdeviceptr* memory, std::size_t size) {
  NULLCUDA_DRIVER_CALL();
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  const int error = allocate(&pointer, size);
  *memory = address_of(pointer);
  return driver(error);
}

NULLCUDA_API CUresult cuMemFree(CUdeviceptr memory) {
  NULLCUDA_DRIVER_CALL();
  return driver(release("cuMemFree", as_pointer<void*>(memory)));
}

NULLCUDA_API CUresult cuMemAllocAsync(CUdeviceptr* memory, std::size_t size, CUstream) {
  NULLCUDA_DRIVER_CALL();
  void* pointer = nullptr;
  const int error = allocate(&pointer, size);
  *memory = address_of(pointer);
  return driver(error);
}

NULLCUDA_API CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  return driver(release_in_order("cuMemFreeAsync", as_pointer<void*>(memory), stream));
}

NULLCUDA_API CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  NULLCUDA_DRIVER_CALL();
  return driver(memory_info(free, total));
}

NULLCUDA_API CUresult cuMemHostAlloc(void** memory, std::size_t size, unsigned) {
  NULLCUDA_DRIVER_CALL();
  return driver(allocate_pinned(memory, size));
}

NULLCUDA_API CUresult cuMemAllocHost(void** memory, std::size_t size) {
  NULLCUDA_DRIVER_CALL();
  return driver(allocate_pinned(memory, size));
}

NULLCUDA_API CUresult cuMemFreeHost(void* memory) {
  NULLCUDA_DRIVER_CALL();
  return driver(release_pinned(memory));
}

NULLCUDA_API CUresult cuMemHostRegister(void* memory, std::size_t size, unsigned) {
  NULLCUDA_DRIVER_CALL();
  return driver(register_pinned(memory, size));
}

NULLCUDA_API CUresult cuMemHostUnregister(void* memory) {
  NULLCUDA_DRIVER_CALL();
  return driver(unregister_pinned(memory));
}

NULLCUDA_API CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned) {
  NULLCUDA_DRIVER_CALL();
  *device = address_of(host);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) {
  NULLCUDA_DRIVER_CALL();
  const auto mapping = machine().memory.find(address);
  if (mapping == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = mapping->begin;
  if (size != nullptr) *size = mapping->size;
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  NULLCUDA_DRIVER_CALL();
  const auto mapping = machine().memory.find(pointer);
  if (mapping == nullptr && !is_pinned(as_pointer<void*>(pointer))) return CUDA_ERROR_INVALID_VALUE;
  const int device = mapping == nullptr ? current_device() : device_of(pointer);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
      CUcontext context = nullptr;
      cuDevicePrimaryCtxRetain(&context, device);
      *static_cast<CUcontext*>(data) = context;
      break;
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = mapping == nullptr ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *static_cast<std::uint64_t*>(data) = pointer;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = device;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<std::uint64_t*>(data) = mapping == nullptr ? pointer : mapping->begin;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(data) = mapping == nullptr ? 0 : mapping->size;
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<std::uint64_t*>(data) = pointer / kPage;
      break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<int*>(data) = 1;
      break;
    default:
      *static_cast<int*>(data) = 0;
      break;
  }
  return CUDA_SUCCESS;
}

// ---- pools of the run time: they keep nothing ----

NULLCUDA_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  NULLCUDA_RUNTIME_CALL();
  static const std::uint64_t kPools = fresh_handle();
  *pool = as_pointer<cudaMemPool_t>(kPools + static_cast<std::uint64_t>(device));
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void* value) {
  NULLCUDA_RUNTIME_CALL();
  const bool is_switch = attribute <= cudaMemPoolReuseAllowInternalDependencies;
  std::memset(value, 0, is_switch ? sizeof(int) : sizeof(std::uint64_t));
  return cudaSuccess;
}
