// Kernels: they are registered, asked about and launched, and nothing of them is run. An exception are the
// kernels that a library named in NULLCUDA_KERNELS has functions for: these run on the host, in checking
// mode.

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <string>

#include "api/abi.h"

namespace nullcuda {
namespace {

/// What runs for a kernel: its grid and block, and the addresses of its arguments.
using HostKernel = void (*)(const unsigned grid[3], const unsigned block[3], void** arguments);

HostKernel host_kernel(const char* name) {
  const std::string& library = machine().settings.kernels;
  if (library.empty() || !machine().settings.checks) return nullptr;
  static void* const kLibrary = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (kLibrary == nullptr) stop("NULLCUDA_KERNELS: cannot load " + library + ": " + dlerror());
  return reinterpret_cast<HostKernel>(dlsym(kLibrary, name));  // POSIX: dlsym gives functions too
}

/// A function of a module: a kernel by its name.
struct Kernel {
  std::string name;
  HostKernel host = nullptr;
};

/// Functions that programs hold; never taken back, for modules are not known apart.
const Kernel* kernel_named(const char* name) {
  static std::mutex mutex;
  static auto* const kAll = new std::map<std::string, Kernel>;
  const std::scoped_lock lock(mutex);
  return &kAll->try_emplace(name, Kernel{.name = name, .host = host_kernel(name)}).first->second;
}

int launch(cudaStream_t stream) {
  use("a kernel", id_of(stream), {});
  return 0;
}

// What the register count of kernels, in their machine code, would tell. An unknown kernel is taken to
// use 32.
constexpr int kRegisters = 32;

int blocks_of_multiprocessor(int threads, std::size_t shared) {
  const Gpu& gpu = *machine().settings.gpu;
  constexpr int kReserved = 1024;
  int blocks = threads > 0 ? gpu.threads / threads : 1;
  if (shared > 0) blocks = std::min(blocks, gpu.shared_memory / (static_cast<int>(shared) + kReserved));
  return std::clamp(blocks, 1, gpu.blocks);
}

int capability() {
  return machine().settings.gpu->major * 10 + machine().settings.gpu->minor;
}

/// The launch that <<<...>>> stands for, until the call of its stub takes it back.
struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  void* stream = nullptr;
};

Configuration& configuration() {
  static thread_local Configuration pending;
  return pending;
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

// ---- what nvcc puts into programs ----

NULLCUDA_API void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
NULLCUDA_API void __cudaRegisterFatBinaryEnd(void**) {}
NULLCUDA_API void __cudaUnregisterFatBinary(void**) {}
NULLCUDA_API void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*,
                                         void*, int*) {}
NULLCUDA_API void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
NULLCUDA_API char __cudaInitModule(void**) {
  return 0;
}

NULLCUDA_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* stream) {
  configuration() = {.grid = grid, .block = block, .shared = shared, .stream = stream};
  return 0;
}

NULLCUDA_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared,
                                                    void* stream) {
  *grid = configuration().grid;
  *block = configuration().block;
  *shared = configuration().shared;
  *static_cast<void**>(stream) = configuration().stream;
  return cudaSuccess;
}

NULLCUDA_API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = as_pointer<cudaKernel_t>(address_of(function));
  return cudaSuccess;
}

NULLCUDA_API cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t,
                                            cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(launch(stream));
}

// ---- launches ----

NULLCUDA_API cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(launch(stream));
}

NULLCUDA_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void**) {
  NULLCUDA_RUNTIME_CALL();
  return ended(launch(config->stream));
}

NULLCUDA_API cudaError_t cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, std::size_t,
                                                     cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(launch(stream));
}

NULLCUDA_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                                     CUstream stream, void** arguments, void**) {
  NULLCUDA_DRIVER_CALL();
  const auto* kernel = std::bit_cast<const Kernel*>(function);
  const int error = launch(stream);
  if (error == 0 && kernel != nullptr && kernel->host != nullptr) {
    const unsigned grid[] = {grid_x, grid_y, grid_z};
    const unsigned block[] = {block_x, block_y, block_z};
    kernel->host(grid, block, arguments);
  }
  return driver(error);
}

NULLCUDA_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction, void**, void**) {
  NULLCUDA_DRIVER_CALL();
  return driver(launch(config->hStream));
}

// ---- questions ----

NULLCUDA_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  NULLCUDA_RUNTIME_CALL();
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = kRegisters;
  attributes->ptxVersion = attributes->binaryVersion = capability();
  attributes->maxDynamicSharedSizeBytes = 49152;
  attributes->preferredShmemCarveout = -1;
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                                       std::size_t shared) {
  NULLCUDA_RUNTIME_CALL();
  *blocks = blocks_of_multiprocessor(threads, shared);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                                int threads,
                                                                                std::size_t shared,
                                                                                unsigned) {
  NULLCUDA_RUNTIME_CALL();
  *blocks = blocks_of_multiprocessor(threads, shared);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*,
                                                        const cudaLaunchConfig_t*) {
  NULLCUDA_RUNTIME_CALL();
  *clusters = machine().settings.gpu->multiprocessors / 2;
  return cudaSuccess;
}

NULLCUDA_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads,
                                                                  std::size_t shared) {
  NULLCUDA_DRIVER_CALL();
  *blocks = blocks_of_multiprocessor(threads, shared);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute number, CUfunction) {
  NULLCUDA_DRIVER_CALL();
  switch (number) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = kRegisters;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = capability();
      break;
    default:
      *value = 0;
      break;
  }
  return CUDA_SUCCESS;
}

NULLCUDA_API cudaError_t cudaGetSymbolAddress(void** address, const void*) {
  NULLCUDA_RUNTIME_CALL();
  // One page of each device stands for all variables of all programs.
  static std::array<std::uint64_t, kMostDevices> pages{};
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  std::uint64_t& page = pages[static_cast<std::size_t>(current_device())];
  if (page == 0)
    if (const Outcome outcome = machine().memory.allocate(current_device(), kPage, page);
        outcome != Outcome::kOk)
      return ended(error_of(outcome));
  *address = as_pointer<void*>(page);
  return cudaSuccess;
}

// ---- modules ----

NULLCUDA_API CUresult cuModuleLoadData(CUmodule* module, const void*) {
  NULLCUDA_DRIVER_CALL();
  *module = as_pointer<CUmodule>(fresh_handle());
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuModuleLoadDataEx(CUmodule* module, const void*, unsigned, CUjit_option*, void**) {
  NULLCUDA_DRIVER_CALL();
  *module = as_pointer<CUmodule>(fresh_handle());
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  NULLCUDA_DRIVER_CALL();
  *function = std::bit_cast<CUfunction>(kernel_named(name));
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuModuleUnload(CUmodule) {
  NULLCUDA_DRIVER_CALL();
  return CUDA_SUCCESS;
}
