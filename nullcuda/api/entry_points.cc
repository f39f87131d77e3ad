// How programs find functions of the driver by their names.

#include <array>
#include <dlfcn.h>
#include <string>

#include "api/abi.h"

namespace nullcuda {
namespace {

/// This library, so that it is found whether the loader put it before all others or a program opened it.
void* own_library() {
  static void* const kLibrary = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&own_library), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return kLibrary;
}

/// A form of a function that programs built for a version of CUDA, or a later one, expect.
struct Form {
  const char* name;
  int since;
  const char* symbol;
};

/// The functions whose forms programs of these releases tell apart, newest first.
constexpr std::array kForms = {
    Form{"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
    Form{"cuStreamGetCaptureInfo", 0, "cuStreamGetCaptureInfo_v2"},
    Form{"cuCtxCreate", 12050, "cuCtxCreate_v4"},
    Form{"cuCtxCreate", 11040, "cuCtxCreate_v3"},
    Form{"cuCtxCreate", 0, "cuCtxCreate_v2"},
};

/// Of others the newest form that these headers have: cuMemAlloc is cuMemAlloc_v2 since CUDA 3.2.
void* find(const std::string& name, int version) {
  for (const Form& form : kForms)
    if (name == form.name && version >= form.since) return dlsym(own_library(), form.symbol);
  for (const char* suffix : {"_v4", "_v3", "_v2", ""})
    if (void* function = dlsym(own_library(), (name + suffix).c_str()); function != nullptr) return function;
  return nullptr;
}

cudaError_t entry(const char* name, void** function, int version, cudaDriverEntryPointQueryResult* result) {
  *function = find(name, version);
  if (result != nullptr)
    *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return *function == nullptr ? ended(cudaErrorSymbolNotFound) : cudaSuccess;
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

NULLCUDA_API cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                                          unsigned long long,
                                                          cudaDriverEntryPointQueryResult* result) {
  return entry(name, function, static_cast<int>(version), result);
}

#if CUDART_VERSION < 13000
NULLCUDA_API cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long,
                                                 cudaDriverEntryPointQueryResult* result) {
  return entry(name, function, CUDART_VERSION, result);
}
#endif

NULLCUDA_API CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t,
                                       CUdriverProcAddressQueryResult* result) {
  *function = find(name, version);
  if (result != nullptr)
    *result = *function == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
