#include "device/cuda_driver.h"

#include <dlfcn.h>

#include "base/base.h"

namespace stweaver {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

/// The driver counts 12.4 as 12040.
std::string version_text(int version) {
  constexpr int kMajor = 1000;
  constexpr int kMinor = 10;
  return text(version / kMajor, ".", version % kMajor / kMinor);
}

class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <typename Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }

  /// The first name that was not found, or nullptr.
  [[nodiscard]] const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

// The names are those that cuda.h defines its functions to; the old ones without _v2 mean 32-bit sizes.
const char* find_functions(void* library, CudaDriver& driver) {
  Symbols symbols(library);
  symbols.find(driver.init, "cuInit");
  symbols.find(driver.driver_get_version, "cuDriverGetVersion");
  symbols.find(driver.get_error_string, "cuGetErrorString");
  symbols.find(driver.device_get_count, "cuDeviceGetCount");
  symbols.find(driver.device_get, "cuDeviceGet");
  symbols.find(driver.device_get_name, "cuDeviceGetName");
  symbols.find(driver.device_get_attribute, "cuDeviceGetAttribute");
  symbols.find(driver.device_primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  symbols.find(driver.device_primary_ctx_release, "cuDevicePrimaryCtxRelease_v2");
  symbols.find(driver.ctx_push_current, "cuCtxPushCurrent_v2");
  symbols.find(driver.ctx_pop_current, "cuCtxPopCurrent_v2");
  symbols.find(driver.ctx_synchronize, "cuCtxSynchronize");
  symbols.find(driver.mem_get_info, "cuMemGetInfo_v2");
  symbols.find(driver.mem_alloc, "cuMemAlloc_v2");
  symbols.find(driver.mem_free, "cuMemFree_v2");
  symbols.find(driver.mem_address_reserve, "cuMemAddressReserve");
  symbols.find(driver.mem_address_free, "cuMemAddressFree");
  symbols.find(driver.mem_create, "cuMemCreate");
  symbols.find(driver.mem_release, "cuMemRelease");
  symbols.find(driver.mem_map, "cuMemMap");
  symbols.find(driver.mem_unmap, "cuMemUnmap");
  symbols.find(driver.mem_set_access, "cuMemSetAccess");
  symbols.find(driver.mem_retain_allocation_handle, "cuMemRetainAllocationHandle");
  symbols.find(driver.mem_export_to_shareable_handle, "cuMemExportToShareableHandle");
  symbols.find(driver.mem_import_from_shareable_handle, "cuMemImportFromShareableHandle");
  symbols.find(driver.mem_get_allocation_granularity, "cuMemGetAllocationGranularity");
  symbols.find(driver.event_create, "cuEventCreate");
  symbols.find(driver.event_record, "cuEventRecord");
  symbols.find(driver.event_query, "cuEventQuery");
  symbols.find(driver.event_synchronize, "cuEventSynchronize");
  symbols.find(driver.event_destroy, "cuEventDestroy_v2");
  symbols.find(driver.stream_wait_event, "cuStreamWaitEvent");
  symbols.find(driver.stream_synchronize, "cuStreamSynchronize");
  symbols.find(driver.thread_exchange_stream_capture_mode, "cuThreadExchangeStreamCaptureMode");
  symbols.find(driver.memset_d32_async, "cuMemsetD32Async");
  symbols.find(driver.memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2");
  symbols.find(driver.module_load_data, "cuModuleLoadData");
  symbols.find(driver.module_get_function, "cuModuleGetFunction");
  symbols.find(driver.module_unload, "cuModuleUnload");
  symbols.find(driver.launch_kernel, "cuLaunchKernel");
  return symbols.missing();
}

[[noreturn]] void refuse_old(const CudaDriver& driver, const char* missing) {
  int version = 0;
  if (driver.driver_get_version != nullptr) driver.driver_get_version(&version);
  fail("the NVIDIA driver is too old (CUDA ", version_text(version), ", without ", missing,
       "): update it to one of CUDA 10.2 or later");
}

}  // namespace

std::string CudaDriver::words(CudaResult result) const {
  const char* words = nullptr;
  if (get_error_string(result, &words) != kCudaSuccess || words == nullptr) words = "unknown error";
  return text(words, " (CUDA error ", result, ")");
}

CudaDriver load_cuda_driver() {
  // Never unloaded: the driver has threads of its own, and others in the process use it.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) fail("no NVIDIA driver (", dlerror(), "): install one, or use host memory");
  CudaDriver driver{};
  if (const char* missing = find_functions(library, driver)) refuse_old(driver, missing);
  if (const CudaResult result = driver.init(0); result != kCudaSuccess) {
    fail("the NVIDIA driver does not start: ", driver.words(result), ": see what nvidia-smi says");
  }
  return driver;
}

}  // namespace stweaver
