// Devices, their properties, and contexts.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "api/abi.h"

namespace nullcuda {
namespace {

const Gpu& gpu() {
  return *machine().settings.gpu;
}

constexpr int kBusOfFirst = 0x10;

/// A device that this process sees, by the number that the machine has for it.
int on_machine(int device) {
  return visible_devices()[static_cast<std::size_t>(device)];
}

void name_bus(char* text, int size, int device) {
  std::snprintf(text, static_cast<std::size_t>(size), "%s", bus_of(on_machine(device)).c_str());
}

/// A context is the device that it is for.
struct Context {
  int device = 0;
};

CUcontext handle_of(Context& context) {
  return std::bit_cast<CUcontext>(&context);
}

/// All contexts of the process.
struct Contexts {
  std::array<Context, kMostDevices> primary{};
  std::mutex mutex;
  std::map<CUcontext, std::unique_ptr<Context>> created;

  Contexts() {
    for (std::size_t number = 0; number < primary.size(); ++number)
      primary[number].device = static_cast<int>(number);
  }
};

Contexts& contexts() {
  static auto* const kAll = new Contexts;
  return *kAll;
}

CUcontext primary_context(int device) {
  return handle_of(contexts().primary[static_cast<std::size_t>(device)]);
}

/// The device of a context; the current one where it is a kind of context that nobody tells apart here.
int device_for(CUcontext context) {
  Contexts& all = contexts();
  for (Context& primary : all.primary)
    if (context == handle_of(primary)) return primary.device;
  const std::scoped_lock lock(all.mutex);
  const auto found = all.created.find(context);
  return found == all.created.end() ? current_device() : found->second->device;
}

/// The context of the calling thread; null where it has none.
CUcontext& current_context() {
  static thread_local CUcontext context = nullptr;
  return context;
}

void make_current(CUcontext context) {
  current_context() = context;
  if (context != nullptr) current_device() = device_for(context);
}

/// A context that a thread has put aside for another.
struct Pushed {
  CUcontext context = nullptr;
  Pushed* below = nullptr;
};

/// The last of the calling thread's. Nothing here is destroyed with the thread: a program's last tensors go
/// in destructors that run behind those of the main thread.
Pushed*& top() {
  static thread_local Pushed* pushed = nullptr;
  return pushed;
}

void push(CUcontext context) {
  top() = new Pushed{context, top()};
}

/// Null where there is none.
CUcontext pop() {
  const std::unique_ptr<Pushed> pushed(top());
  if (pushed == nullptr) return nullptr;
  top() = pushed->below;
  return pushed->context;
}

int create_context(CUcontext* context, int device) {
  if (!is_device_number(device)) return CUDA_ERROR_INVALID_DEVICE;
  machine().memory.touch(device);
  auto made = std::make_unique<Context>(Context{device});
  *context = handle_of(*made);
  {
    const std::scoped_lock lock(contexts().mutex);
    contexts().created.emplace(*context, std::move(made));
  }
  push(current_context());
  make_current(*context);
  return 0;
}

}  // namespace

namespace {

/// Which devices reach the memory of which others.
bool is_peer(int device, int peer) {
  return gpu().fabric && device != peer;
}

int can_access_peer(int* can, int device, int peer) {
  if (!is_device_number(device) || !is_device_number(peer)) return cudaErrorInvalidDevice;
  *can = static_cast<int>(is_peer(device, peer));
  return 0;
}

/// What a link can do, or, by the first of the attributes, how it ranks among the others: all are alike.
int tell_of_link(int* value, CUdevice_P2PAttribute number, int device, int peer) {
  if (device == peer) return cudaErrorInvalidDevice;
  if (const int error = can_access_peer(value, device, peer); error != 0) return error;
  const bool is_ability = number == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                          number == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED ||
                          number == CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED;
  if (!is_ability) *value = 0;
  return 0;
}

/// Lets the calling thread's device use a peer's memory, or no more.
int set_peer_access(int peer, bool enabled) {
  static std::array<std::atomic<bool>, std::size_t{kMostDevices} * kMostDevices> all{};
  const int device = current_device();
  if (!is_device_number(peer)) return cudaErrorInvalidDevice;
  if (!is_peer(device, peer)) return cudaErrorPeerAccessUnsupported;
  if (all[static_cast<std::size_t>(device * kMostDevices + peer)].exchange(enabled) != enabled) return 0;
  return enabled ? cudaErrorPeerAccessAlreadyEnabled : cudaErrorPeerAccessNotEnabled;
}

}  // namespace

void enter_primary_context() {
  if (current_context() == nullptr) current_context() = primary_context(current_device());
}

std::string bus_of(int device) {
  char text[32];
  std::snprintf(text, sizeof text, "0000:%02X:00.0", kBusOfFirst + device);
  return text;
}

int attribute(int number, int device) {
  const Gpu& g = gpu();
  switch (number) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 49152;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return g.clock;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
      return 1;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
      return 100;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | (g.fabric ? CU_MEM_HANDLE_TYPE_FABRIC : 0);
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      return static_cast<int>(g.major >= 9);
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
      return g.l2_cache * 5 / 8;
    case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE:
      return 134217728;
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
      return device;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return g.multiprocessors;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
      return static_cast<int>(g.ecc);
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return kBusOfFirst + on_machine(device);
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return g.memory_clock;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return g.memory_bus;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return g.l2_cache;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return g.threads;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return g.copy_engines;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return g.major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return g.minor;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return g.shared_memory;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return g.shared_memory_optin;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return g.blocks;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
      return static_cast<int>(g.fabric);
    default:
      return 0;  // multicast and what else a machine without peers lacks
  }
}

namespace {

/// What the driver says of a device one by one, for the run time's callers.
void describe(cudaDeviceProp& properties, int device) {
  const auto of = [&](CUdevice_attribute number) { return attribute(number, device); };
  const auto bytes_of = [&](CUdevice_attribute number) { return static_cast<std::size_t>(of(number)); };
  properties = {};
  std::snprintf(properties.name, sizeof properties.name, "%s", std::string(gpu().name).c_str());
  std::memset(&properties.uuid, 'Z' + on_machine(device), sizeof properties.uuid);
  properties.totalGlobalMem = machine().memory.total();
  properties.major = of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  properties.minor = of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  properties.multiProcessorCount = of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  properties.l2CacheSize = of(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  properties.sharedMemPerBlock = bytes_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  properties.sharedMemPerMultiprocessor = bytes_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  properties.sharedMemPerBlockOptin = bytes_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  properties.reservedSharedMemPerBlock = bytes_of(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  properties.maxThreadsPerMultiProcessor = of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  properties.maxBlocksPerMultiProcessor = of(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  properties.memoryBusWidth = of(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  properties.asyncEngineCount = of(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  properties.ECCEnabled = of(CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  properties.pciBusID = of(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  properties.multiGpuBoardGroupID = of(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID);
  properties.regsPerBlock = of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  properties.regsPerMultiprocessor = of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  properties.warpSize = of(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  properties.memPitch = bytes_of(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  properties.maxThreadsPerBlock = of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  properties.maxThreadsDim[0] = of(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  properties.maxThreadsDim[1] = of(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  properties.maxThreadsDim[2] = of(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  properties.maxGridSize[0] = of(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  properties.maxGridSize[1] = of(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  properties.maxGridSize[2] = of(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  properties.totalConstMem = bytes_of(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  properties.textureAlignment = bytes_of(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  properties.surfaceAlignment = bytes_of(CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT);
  properties.texturePitchAlignment = bytes_of(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
  properties.persistingL2CacheMaxSize = of(CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
  properties.accessPolicyMaxWindowSize = of(CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);
  properties.canMapHostMemory = of(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  properties.concurrentKernels = of(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  properties.unifiedAddressing = of(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  properties.streamPrioritiesSupported = of(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  properties.globalL1CacheSupported = of(CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED);
  properties.localL1CacheSupported = of(CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED);
  properties.managedMemory = of(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  properties.concurrentManagedAccess = of(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  properties.computePreemptionSupported = of(CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED);
  properties.canUseHostPointerForRegisteredMem =
      of(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  properties.cooperativeLaunch = of(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  properties.hostRegisterSupported = of(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  properties.memoryPoolsSupported = of(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  properties.gpuDirectRDMASupported = of(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
  properties.gpuDirectRDMAFlushWritesOptions =
      static_cast<unsigned>(of(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS));
  properties.gpuDirectRDMAWritesOrdering = of(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
  properties.memoryPoolSupportedHandleTypes =
      static_cast<unsigned>(of(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES));
  properties.ipcEventSupported = of(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
  properties.unifiedFunctionPointers = of(CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS);
  properties.clusterLaunch = of(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
  properties.timelineSemaphoreInteropSupported = of(CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
#if CUDART_VERSION < 13000
  properties.clockRate = of(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  properties.memoryClockRate = of(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
#endif
}

}  // namespace

}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

NULLCUDA_API cudaError_t cudaGetDeviceCount(int* count) {
  NULLCUDA_RUNTIME_CALL();
  *count = static_cast<int>(visible_devices().size());
  return *count == 0 ? ended(cudaErrorNoDevice) : cudaSuccess;
}

NULLCUDA_API cudaError_t cudaGetDevice(int* device) {
  NULLCUDA_RUNTIME_CALL();
  *device = current_device();
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaSetDevice(int device) {
  NULLCUDA_RUNTIME_CALL();
  if (!is_device_number(device)) return ended(cudaErrorInvalidDevice);
  machine().memory.touch(device);  // from CUDA 12 on this makes the context
  make_current(primary_context(device));
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  NULLCUDA_RUNTIME_CALL();
  if (!is_device_number(device)) return ended(cudaErrorInvalidDevice);
  describe(*properties, device);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr number, int device) {
  NULLCUDA_RUNTIME_CALL();
  if (!is_device_number(device)) return ended(cudaErrorInvalidDevice);
  *value = attribute(number, device);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  NULLCUDA_RUNTIME_CALL();
  if (!is_device_number(device)) return ended(cudaErrorInvalidDevice);
  name_bus(text, size, device);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  NULLCUDA_RUNTIME_CALL();
  return ended(can_access_peer(can, device, peer));
}

NULLCUDA_API cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr number, int device,
                                                   int peer) {
  NULLCUDA_RUNTIME_CALL();
  return ended(tell_of_link(value, static_cast<CUdevice_P2PAttribute>(number), device, peer));
}

NULLCUDA_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  NULLCUDA_RUNTIME_CALL();
  return ended(set_peer_access(peer, true));
}

NULLCUDA_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  NULLCUDA_RUNTIME_CALL();
  return ended(set_peer_access(peer, false));
}

// ---- the driver's names for the same, and contexts ----

NULLCUDA_API CUresult cuInit(unsigned) {
  NULLCUDA_DRIVER_CALL();
  return visible_devices().empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuDeviceGetCount(int* count) {
  NULLCUDA_DRIVER_CALL();
  *count = static_cast<int>(visible_devices().size());
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  NULLCUDA_DRIVER_CALL();
  if (!is_device_number(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  NULLCUDA_DRIVER_CALL();
  std::snprintf(name, static_cast<std::size_t>(size), "%s", std::string(gpu().name).c_str());
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuDeviceTotalMem(std::size_t* size, CUdevice) {
  NULLCUDA_DRIVER_CALL();
  *size = machine().memory.total();
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute number, CUdevice device) {
  NULLCUDA_DRIVER_CALL();
  if (!is_device_number(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute(number, device);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  NULLCUDA_DRIVER_CALL();
  if (!is_device_number(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid, 'Z' + on_machine(device), sizeof *uuid);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuDeviceGetPCIBusId(char* text, int size, CUdevice device) {
  NULLCUDA_DRIVER_CALL();
  if (!is_device_number(device)) return CUDA_ERROR_INVALID_DEVICE;
  name_bus(text, size, device);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  NULLCUDA_DRIVER_CALL();
  if (!is_device_number(device)) return CUDA_ERROR_INVALID_DEVICE;
  machine().memory.touch(device);
  *context = primary_context(device);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  NULLCUDA_DRIVER_CALL();
  if (!is_device_number(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = static_cast<int>(machine().memory.in_use(device));
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  NULLCUDA_DRIVER_CALL();
  return driver(can_access_peer(can, device, peer));
}

NULLCUDA_API CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute number, CUdevice device,
                                              CUdevice peer) {
  NULLCUDA_DRIVER_CALL();
  return driver(tell_of_link(value, number, device, peer));
}

NULLCUDA_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned) {
  NULLCUDA_DRIVER_CALL();
  return driver(set_peer_access(device_for(peer), true));
}

NULLCUDA_API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  NULLCUDA_DRIVER_CALL();
  return driver(set_peer_access(device_for(peer), false));
}

NULLCUDA_API CUresult cuCtxGetCurrent(CUcontext* context) {
  NULLCUDA_DRIVER_CALL();
  *context = current_context();
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuCtxSetCurrent(CUcontext context) {
  NULLCUDA_DRIVER_CALL();
  make_current(context);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuCtxPushCurrent(CUcontext context) {
  NULLCUDA_DRIVER_CALL();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  push(current_context());
  make_current(context);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuCtxPopCurrent(CUcontext* context) {
  NULLCUDA_DRIVER_CALL();
  if (top() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = current_context();
  make_current(pop());
  return CUDA_SUCCESS;
}

// Contexts that are not primary, in all forms that programs of these releases ask for.
#undef cuCtxCreate
NULLCUDA_API CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  NULLCUDA_DRIVER_CALL();
  return driver(create_context(context, device));
}

NULLCUDA_API CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int, unsigned,
                                     CUdevice device) {
  NULLCUDA_DRIVER_CALL();
  return driver(create_context(context, device));
}
#if CUDA_VERSION >= 12050
NULLCUDA_API CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice device) {
  NULLCUDA_DRIVER_CALL();
  return driver(create_context(context, device));
}
#endif

NULLCUDA_API CUresult cuCtxDestroy(CUcontext context) {
  NULLCUDA_DRIVER_CALL();
  {
    const std::scoped_lock lock(contexts().mutex);
    if (contexts().created.erase(context) == 0) return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (current_context() == context) {
    make_current(pop());
  }
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuCtxGetDevice(CUdevice* device) {
  NULLCUDA_DRIVER_CALL();
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = current_device();
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  NULLCUDA_DRIVER_CALL();
  *context = primary_context(machine().streams.device(id_of(stream), current_device()));
  return CUDA_SUCCESS;
}
