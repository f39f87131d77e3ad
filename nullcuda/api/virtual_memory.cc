// Virtual memory: addresses, physical memory and mappings apart from each other.

#include <span>
#include <unistd.h>

#include "api/abi.h"

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

NULLCUDA_API CUresult cuMemGetAllocationGranularity(std::size_t* size, const CUmemAllocationProp* properties,
                                                    CUmemAllocationGranularity_flags) {
  NULLCUDA_DRIVER_CALL();
  if (size == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *size = kPage;
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemAddressReserve(CUdeviceptr* addresses, std::size_t size, std::size_t alignment,
                                          CUdeviceptr wish, unsigned long long flags) {
  NULLCUDA_DRIVER_CALL();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t address = 0;
  const Outcome outcome = machine().memory.reserve(size, alignment, wish, address);
  if (outcome == Outcome::kOk) *addresses = address;
  return driver(error_of(outcome));
}

NULLCUDA_API CUresult cuMemAddressFree(CUdeviceptr addresses, std::size_t size) {
  NULLCUDA_DRIVER_CALL();
  return driver(error_of(machine().memory.unreserve(addresses, size)));
}

NULLCUDA_API CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size,
                                  const CUmemAllocationProp* properties, unsigned long long flags) {
  NULLCUDA_DRIVER_CALL();
  if (properties == nullptr || flags != 0 || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  // As where the program may use no channel to other machines (IMEX).
  if ((properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) != 0)
    return machine().settings.gpu->fabric ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_NOT_SUPPORTED;
  const bool on_host = properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
  const int device = on_host ? 0 : properties->location.id;
  if (!is_device_number(device)) return CUDA_ERROR_INVALID_DEVICE;
  Chunk* chunk = nullptr;
  const Outcome outcome = machine().memory.create(device, size, on_host, chunk);
  if (outcome == Outcome::kOk) *handle = address_of(chunk);
  return driver(error_of(outcome));
}

NULLCUDA_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  NULLCUDA_DRIVER_CALL();
  return driver(error_of(machine().memory.release(as_pointer<Chunk*>(handle))));
}

NULLCUDA_API CUresult cuMemMap(CUdeviceptr at, std::size_t size, std::size_t offset,
                               CUmemGenericAllocationHandle handle, unsigned long long flags) {
  NULLCUDA_DRIVER_CALL();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Outcome outcome = machine().memory.map(at, size, offset, as_pointer<Chunk*>(handle));
  const auto chunk = machine().memory.describe(as_pointer<Chunk*>(handle));
  if (outcome == Outcome::kOk && chunk && chunk->imported) know_imported(at, size);
  return driver(error_of(outcome));
}

NULLCUDA_API CUresult cuMemUnmap(CUdeviceptr at, std::size_t size) {
  NULLCUDA_DRIVER_CALL();
  const Outcome outcome = machine().memory.unmap(at, size);
  if (outcome == Outcome::kOk) forget("cuMemUnmap", at, size);
  return driver(error_of(outcome));
}

NULLCUDA_API CUresult cuMemSetAccess(CUdeviceptr at, std::size_t size, const CUmemAccessDesc* access,
                                     std::size_t count) {
  NULLCUDA_DRIVER_CALL();
  if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (const CUmemAccessDesc& one : std::span(access, count)) {
    if (one.location.type != CU_MEM_LOCATION_TYPE_DEVICE) continue;  // the host's is no matter here
    if (!is_device_number(one.location.id)) return CUDA_ERROR_INVALID_DEVICE;
    const bool accessible = one.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const Outcome outcome = machine().memory.set_access(at, size, one.location.id, accessible);
    if (outcome != Outcome::kOk) return driver(error_of(outcome));
  }
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                     CUdeviceptr at) {
  NULLCUDA_DRIVER_CALL();
  const auto mapping = machine().memory.find(at);
  if (mapping == nullptr || !is_device_number(location->id)) return CUDA_ERROR_INVALID_VALUE;
  *flags = mapping->access[static_cast<std::size_t>(location->id)] ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                                   : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* at) {
  NULLCUDA_DRIVER_CALL();
  Chunk* chunk = nullptr;
  const Outcome outcome = machine().memory.retain(address_of(at), chunk);
  if (outcome == Outcome::kOk) *handle = address_of(chunk);
  return driver(error_of(outcome));
}

NULLCUDA_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                             CUmemGenericAllocationHandle handle) {
  NULLCUDA_DRIVER_CALL();
  const auto chunk = machine().memory.describe(as_pointer<Chunk*>(handle));
  if (!chunk) return CUDA_ERROR_INVALID_VALUE;
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties->location.type = chunk->on_host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = chunk->device;
  return CUDA_SUCCESS;
}

// ---- between processes: a handle is a descriptor of a file, which holds the bytes in checking mode ----

NULLCUDA_API CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                                   CUmemAllocationHandleType type, unsigned long long) {
  NULLCUDA_DRIVER_CALL();
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (!machine().memory.describe(as_pointer<Chunk*>(handle))) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int*>(shareable) = dup(machine().memory.share(as_pointer<Chunk*>(handle)));
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                                     CUmemAllocationHandleType type) {
  NULLCUDA_DRIVER_CALL();
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int file = dup(static_cast<int>(address_of(shareable)));
  const off_t size = lseek(file, 0, SEEK_END);
  if (file < 0 || size <= 0) return CUDA_ERROR_INVALID_VALUE;
  Chunk* chunk = nullptr;
  const Outcome outcome =
      machine().memory.adopt(current_device(), file, static_cast<std::uint64_t>(size), chunk);
  *handle = address_of(chunk);
  return driver(error_of(outcome));
}
