// What we use of the CUDA driver API, found at run time: nothing of CUDA is needed to build or to link.
//
// The functions are those of the CUDA Driver API reference with their `cu` taken off. Addresses are declared
// as pointers and streams as numbers: on the 64-bit systems that CUDA has, both are passed alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "trace/model.h"

namespace stweaver {

struct CudaContext;
struct CudaEvent;
struct CudaModule;
struct CudaFunction;

using CudaResult = int;  ///< 0 is success
inline constexpr CudaResult kCudaSuccess = 0;
inline constexpr CudaResult kCudaNotReady = 600;

using CudaPages = std::uint64_t;  ///< physical memory, CUmemGenericAllocationHandle

/// CUmemLocation
struct CudaLocation {
  int type = 1;  ///< CU_MEM_LOCATION_TYPE_DEVICE
  int device = 0;
};

/// CUmemAllocationProp
struct CudaPageProperties {
  int type = 1;  ///< CU_MEM_ALLOCATION_TYPE_PINNED
  int handle_types = 0;
  CudaLocation location;
  void* windows_only = nullptr;
  std::uint8_t compression = 0;
  std::uint8_t gpu_direct_rdma = 0;
  std::uint16_t usage = 0;
  std::uint8_t reserved[4] = {};
};

/// CUmemAccessDesc
struct CudaAccess {
  CudaLocation location;
  int flags = 3;  ///< CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};

struct CudaDriver {
  CudaResult (*init)(unsigned flags);
  CudaResult (*driver_get_version)(int* version);
  CudaResult (*get_error_string)(CudaResult result, const char** words);
  CudaResult (*device_get_count)(int* count);
  CudaResult (*device_get)(int* device, int ordinal);
  CudaResult (*device_get_name)(char* name, int size, int device);
  CudaResult (*device_get_attribute)(int* value, int attribute, int device);
  CudaResult (*device_primary_ctx_retain)(CudaContext** context, int device);
  CudaResult (*device_primary_ctx_release)(int device);
  CudaResult (*ctx_push_current)(CudaContext* context);
  CudaResult (*ctx_pop_current)(CudaContext** context);
  CudaResult (*ctx_synchronize)();
  CudaResult (*mem_get_info)(std::size_t* free, std::size_t* total);
  CudaResult (*mem_alloc)(std::byte** memory, std::size_t size);
  CudaResult (*mem_free)(std::byte* memory);
  CudaResult (*mem_address_reserve)(std::byte** addresses, std::size_t size, std::size_t alignment,
                                    std::byte* wish, std::uint64_t flags);
  CudaResult (*mem_address_free)(std::byte* addresses, std::size_t size);
  CudaResult (*mem_create)(CudaPages* pages, std::size_t size, const CudaPageProperties* properties,
                           std::uint64_t flags);
  CudaResult (*mem_release)(CudaPages pages);
  CudaResult (*mem_map)(std::byte* at, std::size_t size, std::size_t offset, CudaPages pages,
                        std::uint64_t flags);
  CudaResult (*mem_unmap)(std::byte* at, std::size_t size);
  CudaResult (*mem_retain_allocation_handle)(CudaPages* pages, std::byte* at);
  CudaResult (*mem_export_to_shareable_handle)(void* handle, CudaPages pages, int type, std::uint64_t flags);
  CudaResult (*mem_import_from_shareable_handle)(CudaPages* pages, void* handle, int type);
  CudaResult (*mem_set_access)(std::byte* at, std::size_t size, const CudaAccess* access, std::size_t count);
  CudaResult (*mem_get_allocation_granularity)(std::size_t* size, const CudaPageProperties* properties,
                                               int option);
  CudaResult (*event_create)(CudaEvent** event, unsigned flags);
  CudaResult (*event_record)(CudaEvent* event, Stream stream);
  CudaResult (*event_query)(CudaEvent* event);
  CudaResult (*event_synchronize)(CudaEvent* event);
  CudaResult (*event_destroy)(CudaEvent* event);
  CudaResult (*stream_wait_event)(Stream stream, CudaEvent* event, unsigned flags);
  CudaResult (*stream_synchronize)(Stream stream);
  CudaResult (*thread_exchange_stream_capture_mode)(int* mode);
  CudaResult (*memset_d32_async)(std::byte* at, unsigned value, std::size_t words, Stream stream);
  CudaResult (*memcpy_dtoh_async)(void* to, const std::byte* from, std::size_t size, Stream stream);
  CudaResult (*module_load_data)(CudaModule** module, const void* image);
  CudaResult (*module_get_function)(CudaFunction** function, CudaModule* module, const char* name);
  CudaResult (*module_unload)(CudaModule* module);
  CudaResult (*launch_kernel)(CudaFunction* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_size,
                              Stream stream, void** arguments, void** extra);

  /// What a result means, in the driver's words.
  [[nodiscard]] std::string words(CudaResult result) const;
};

/// The driver of this machine, started. Error in one line when there is none, or it is too old or shows no
/// device.
CudaDriver load_cuda_driver();

}  // namespace stweaver
