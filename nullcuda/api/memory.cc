// cudaMalloc and its kin, host memory that the device can see, and what is known of a pointer.

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <ranges>
#include <utility>
#include <vector>

#include "api/abi.h"

namespace nullcuda {
namespace {

/// Memory of a device that is handed out and taken back in the order of streams. A pool keeps nothing of what
/// comes back: what it has reserved is what is used.
struct Pool {
  int device = 0;
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> blocks;  ///< address to size
  std::uint64_t used = 0;
  std::uint64_t most = 0;

  void add(std::uint64_t address, std::uint64_t size) {
    const std::scoped_lock lock(mutex);
    blocks.emplace(address, size);
    used += size;
    most = std::max(most, used);
  }
  void remove(std::uint64_t address) {
    const std::scoped_lock lock(mutex);
    const auto block = blocks.find(address);
    if (block == blocks.end()) return;
    used -= block->second;
    blocks.erase(block);
  }
};

/// All pools: each device's own, and those that the program has made.
class Pools {
 public:
  Pools() {
    for (int device = 0; device < kMostDevices; ++device) create(device);
  }
  std::shared_ptr<Pool> of(int device) {
    const std::scoped_lock lock(mutex_);
    return pools_[static_cast<std::size_t>(device)];
  }
  std::shared_ptr<Pool> create(int device) {
    auto pool = std::make_shared<Pool>();
    pool->device = device;
    const std::scoped_lock lock(mutex_);
    return pools_.emplace_back(std::move(pool));
  }
  /// Null where there is none.
  std::shared_ptr<Pool> find(cudaMemPool_t handle) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find(pools_, std::bit_cast<Pool*>(handle), &std::shared_ptr<Pool>::get);
    return found == pools_.end() ? nullptr : *found;
  }
  /// Whether the program had made it; its blocks live on.
  bool destroy(cudaMemPool_t handle) {
    const std::scoped_lock lock(mutex_);
    const auto made = std::ranges::subrange(pools_.begin() + kMostDevices, pools_.end());
    const auto found = std::ranges::find(made, std::bit_cast<Pool*>(handle), &std::shared_ptr<Pool>::get);
    if (found == pools_.end()) return false;
    pools_.erase(found);
    return true;
  }
  /// A block of any of them is freed.
  void remove(std::uint64_t address) {
    const std::scoped_lock lock(mutex_);
    for (const auto& pool : pools_) pool->remove(address);
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Pool>> pools_;
};

Pools& pools() {
  static auto* const kAll = new Pools;
  return *kAll;
}

cudaMemPool_t handle_of(const std::shared_ptr<Pool>& pool) {
  return std::bit_cast<cudaMemPool_t>(pool.get());
}

/// The pool that a stream's device has.
std::shared_ptr<Pool> pool_of(cudaStream_t stream) {
  return pools().of(machine().streams.device(id_of(stream), current_device()));
}

int allocate_on(int device, void** memory, std::size_t size) {
  *memory = nullptr;
  if (size == 0) return 0;
  std::uint64_t address = 0;
  const Outcome outcome = machine().memory.allocate(device, size, address);
  if (outcome == Outcome::kOk) *memory = as_pointer<void*>(address);
  return error_of(outcome);
}

int allocate(void** memory, std::size_t size) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  *memory = nullptr;
  if (size == 0) return 0;
  if (const int error = machine().streams.unsafe(); error != 0) return error;
  return allocate_on(current_device(), memory, size);
}

int allocate_rows(void** memory, std::size_t* pitch, std::size_t width, std::size_t height) {
  constexpr std::size_t kPitch = 512;
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return allocate(memory, *pitch * height);
}

/// As a capture may do it, too.
int allocate_in_order(const char* what, void** memory, std::size_t size, const std::shared_ptr<Pool>& pool,
                      cudaStream_t stream) {
  if (memory == nullptr || pool == nullptr) return cudaErrorInvalidValue;
  use(what, id_of(stream), {});
  const int error = allocate_on(pool->device, memory, size);
  if (*memory != nullptr) pool->add(address_of(*memory), size);
  return error;
}

int release_device(std::uint64_t address) {
  pools().remove(address);
  return error_of(machine().memory.free(address));
}

/// The allocation that begins at an address; nothing where none does.
std::unique_ptr<Mapping> allocation_at(const void* memory) {
  auto mapping = machine().memory.find(address_of(memory));
  const bool begins = mapping != nullptr && mapping->whole && mapping->begin == address_of(memory);
  return begins ? std::move(mapping) : nullptr;
}

int release_host(void* memory, HostKind kind) {
  if (memory == nullptr) return 0;
  if (machine().host.kind_of(memory) != kind) return cudaErrorInvalidValue;
  machine().streams.synchronize_all();  // before the memory is gone: work may use it
  return machine().host.free(memory, kind) ? 0 : cudaErrorInvalidValue;
}

int release(const char* what, void* memory) {
  if (memory == nullptr) return 0;
  if (const int error = machine().streams.unsafe(); error != 0) return error;
  if (!is_device(address_of(memory))) return release_host(memory, HostKind::kManaged);
  const auto mapping = allocation_at(memory);
  if (mapping == nullptr) return cudaErrorInvalidValue;
  machine().streams.synchronize_all();  // as the real one does
  forget(what, mapping->begin, mapping->size);
  return release_device(mapping->begin);
}

int release_in_order(const char* what, void* memory, cudaStream_t stream) {
  const auto mapping = allocation_at(memory);
  if (mapping == nullptr) return cudaErrorInvalidValue;
  // It goes with this piece of work: at once, or with the graph, which uses it again whenever it is launched.
  const std::shared_ptr<void> released(memory, [begin = mapping->begin, size = mapping->size](void*) {
    forget_in_order(begin, size);
    release_device(begin);
  });
  perform(what, id_of(stream), {{.begin = mapping->begin, .size = mapping->size, .writes = true}},
          [released, begin = mapping->begin, size = mapping->size] { machine().known.remove(begin, size); });
  return 0;
}

int allocate_host(void** memory, std::size_t size, HostKind kind) {
  *memory = nullptr;
  if (size == 0) return 0;
  // What the real one hands out is not zero; programs that read it unwritten get the same every time here.
  *memory = machine().host.allocate(size, kind);
  return *memory == nullptr ? cudaErrorMemoryAllocation : 0;
}

int register_host(void* memory, std::size_t size) {
  if (memory == nullptr || size == 0) return cudaErrorInvalidValue;
  const auto before = machine().host.enlist(memory, size);
  if (!before) return 0;
  return before == HostKind::kRegistered ? cudaErrorHostMemoryAlreadyRegistered : cudaErrorInvalidValue;
}

int unregister_host(void* memory) {
  if (machine().host.strike(memory)) return 0;
  return machine().host.kind_of(memory) ? cudaErrorInvalidValue : cudaErrorHostMemoryNotRegistered;
}

int device_pointer(void** device, void* host) {
  if (!machine().host.kind_of(host)) return cudaErrorInvalidValue;
  *device = host;
  return 0;
}

int memory_info(std::size_t* free, std::size_t* total) {
  Memory& memory = machine().memory;
  memory.touch(current_device());
  *total = memory.total();
  *free = *total - std::min(*total, memory.used(current_device()));
  return 0;
}

}  // namespace

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

NULLCUDA_API cudaError_t cudaMallocAsync(void** memory, std::size_t size, cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate_in_order("cudaMallocAsync", memory, size, pool_of(stream), stream));
}

NULLCUDA_API cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t size, cudaMemPool_t pool,
                                                 cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate_in_order("cudaMallocFromPoolAsync", memory, size, pools().find(pool), stream));
}

NULLCUDA_API cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(release_in_order("cudaFreeAsync", memory, stream));
}

NULLCUDA_API cudaError_t cudaMallocPitch(void** memory, std::size_t* pitch, std::size_t width,
                                         std::size_t height) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate_rows(memory, pitch, width, height));
}

NULLCUDA_API cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  NULLCUDA_RUNTIME_CALL();
  return ended(memory_info(free, total));
}

NULLCUDA_API cudaError_t cudaHostAlloc(void** memory, std::size_t size, unsigned) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate_host(memory, size, HostKind::kPinned));
}

NULLCUDA_API cudaError_t cudaMallocHost(void** memory, std::size_t size) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate_host(memory, size, HostKind::kPinned));
}

NULLCUDA_API cudaError_t cudaMallocManaged(void** memory, std::size_t size, unsigned) {
  NULLCUDA_RUNTIME_CALL();
  return ended(allocate_host(memory, size, HostKind::kManaged));
}

NULLCUDA_API cudaError_t cudaFreeHost(void* memory) {
  NULLCUDA_RUNTIME_CALL();
  return ended(release_host(memory, HostKind::kPinned));
}

NULLCUDA_API cudaError_t cudaHostRegister(void* memory, std::size_t size, unsigned) {
  NULLCUDA_RUNTIME_CALL();
  return ended(register_host(memory, size));
}

NULLCUDA_API cudaError_t cudaHostUnregister(void* memory) {
  NULLCUDA_RUNTIME_CALL();
  return ended(unregister_host(memory));
}

NULLCUDA_API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  NULLCUDA_RUNTIME_CALL();
  return ended(device_pointer(device, host));
}

NULLCUDA_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  NULLCUDA_RUNTIME_CALL();
  if (attributes == nullptr) return ended(cudaErrorInvalidValue);
  *attributes = {};
  auto* address =
      const_cast<void*>(pointer);  // NOLINT(cppcoreguidelines-pro-type-const-cast): as CUDA has it
  if (const auto mapping = machine().memory.find(address_of(pointer)); mapping != nullptr) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = mapping->chunk->device;
    attributes->devicePointer = address;
  } else if (const auto kind = machine().host.kind_of(pointer)) {
    attributes->type = kind == HostKind::kManaged ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
    attributes->device = current_device();
    attributes->devicePointer = attributes->hostPointer = address;
  } else {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
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

NULLCUDA_API CUresult cuMemAllocPitch(CUdeviceptr* memory, std::size_t* pitch, std::size_t width,
                                      std::size_t height, unsigned) {
  NULLCUDA_DRIVER_CALL();
  if (width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  const int error = allocate_rows(&pointer, pitch, width, height);
  *memory = address_of(pointer);
  return driver(error);
}

NULLCUDA_API CUresult cuMemAllocManaged(CUdeviceptr* memory, std::size_t size, unsigned) {
  NULLCUDA_DRIVER_CALL();
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  const int error = allocate_host(&pointer, size, HostKind::kManaged);
  *memory = address_of(pointer);
  return driver(error);
}

NULLCUDA_API CUresult cuMemFree(CUdeviceptr memory) {
  NULLCUDA_DRIVER_CALL();
  return driver(release("cuMemFree", as_pointer<void*>(memory)));
}

NULLCUDA_API CUresult cuMemAllocAsync(CUdeviceptr* memory, std::size_t size, CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  const int error = allocate_in_order("cuMemAllocAsync", &pointer, size, pool_of(stream), stream);
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
  return driver(allocate_host(memory, size, HostKind::kPinned));
}

NULLCUDA_API CUresult cuMemAllocHost(void** memory, std::size_t size) {
  NULLCUDA_DRIVER_CALL();
  return driver(allocate_host(memory, size, HostKind::kPinned));
}

NULLCUDA_API CUresult cuMemFreeHost(void* memory) {
  NULLCUDA_DRIVER_CALL();
  return driver(release_host(memory, HostKind::kPinned));
}

NULLCUDA_API CUresult cuMemHostRegister(void* memory, std::size_t size, unsigned) {
  NULLCUDA_DRIVER_CALL();
  return driver(register_host(memory, size));
}

NULLCUDA_API CUresult cuMemHostUnregister(void* memory) {
  NULLCUDA_DRIVER_CALL();
  return driver(unregister_host(memory));
}

NULLCUDA_API CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned) {
  NULLCUDA_DRIVER_CALL();
  void* pointer = nullptr;
  const int error = device_pointer(&pointer, host);
  *device = address_of(pointer);
  return driver(error);
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
  const auto kind = machine().host.kind_of(as_pointer<void*>(pointer));
  if (mapping == nullptr && !kind) return CUDA_ERROR_INVALID_VALUE;
  const int device = mapping == nullptr ? current_device() : mapping->chunk->device;
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
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<int*>(data) = static_cast<int>(kind == HostKind::kManaged);
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

// ---- pools of the run time ----

NULLCUDA_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  NULLCUDA_RUNTIME_CALL();
  if (!is_device_number(device)) return ended(cudaErrorInvalidDevice);
  *pool = handle_of(pools().of(device));
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  NULLCUDA_RUNTIME_CALL();
  if (!is_device_number(device)) return ended(cudaErrorInvalidDevice);
  *pool = handle_of(pools().of(device));  // no other can be set
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  NULLCUDA_RUNTIME_CALL();
  if (properties->location.type != cudaMemLocationTypeDevice) return ended(cudaErrorNotSupported);
  if (!is_device_number(properties->location.id)) return ended(cudaErrorInvalidDevice);
  *pool = handle_of(pools().create(properties->location.id));
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  NULLCUDA_RUNTIME_CALL();
  return ended(pools().destroy(pool) ? cudaSuccess : cudaErrorInvalidValue);
}

NULLCUDA_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, std::size_t) {
  NULLCUDA_RUNTIME_CALL();
  return cudaSuccess;  // every device reaches all memory
}

NULLCUDA_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  NULLCUDA_RUNTIME_CALL();
  return cudaSuccess;  // nothing is kept
}

NULLCUDA_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute,
                                                 void* value) {
  NULLCUDA_RUNTIME_CALL();
  const auto pool = pools().find(handle);
  if (pool == nullptr) return ended(cudaErrorInvalidValue);
  const std::scoped_lock lock(pool->mutex);
  switch (attribute) {
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrUsedMemCurrent:
      *static_cast<std::uint64_t*>(value) = pool->used;
      break;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      *static_cast<std::uint64_t*>(value) = pool->most;
      break;
    case cudaMemPoolAttrReleaseThreshold:
      *static_cast<std::uint64_t*>(value) = 0;
      break;
    default:
      *static_cast<int*>(value) = 0;
      break;
  }
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void*) {
  NULLCUDA_RUNTIME_CALL();
  const auto pool = pools().find(handle);
  if (pool == nullptr) return ended(cudaErrorInvalidValue);
  const std::scoped_lock lock(pool->mutex);
  if (attribute == cudaMemPoolAttrReservedMemHigh || attribute == cudaMemPoolAttrUsedMemHigh)
    pool->most = pool->used;
  return cudaSuccess;
}
