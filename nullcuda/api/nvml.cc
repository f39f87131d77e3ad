// NVML: which devices there are and what of them is in use. Declared here: no wheel that PyTorch needs has
// nvml.h.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "api/abi.h"

namespace {

// nvmlReturn_t, nvmlMemory_t, nvmlMemory_v2_t: NVML API Reference.
using Result = int;
constexpr Result kSuccess = 0;
constexpr Result kInvalidArgument = 2;
constexpr Result kNotSupported = 3;
constexpr Result kNotFound = 6;

struct MemoryInfo {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct MemoryInfo2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

/// A device's handle is its number and one, as a pointer.
int number_of(void* device) {
  return static_cast<int>(nullcuda::address_of(device)) - 1;
}

}  // namespace

NULLCUDA_API Result nvmlInit_v2() {
  return kSuccess;
}
NULLCUDA_API Result nvmlInit() {  // what torch.cuda.device_count() calls
  return kSuccess;
}
NULLCUDA_API Result nvmlInitWithFlags(unsigned) {
  return kSuccess;
}
NULLCUDA_API Result nvmlShutdown() {
  return kSuccess;
}
NULLCUDA_API const char* nvmlErrorString(Result result) {
  switch (result) {
    case kSuccess:
      return "Success";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    default:
      return "Invalid Argument";
  }
}

NULLCUDA_API Result nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = CUDA_VERSION;
  return kSuccess;
}

NULLCUDA_API Result nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(nullcuda::machine().settings.devices);
  return kSuccess;
}

NULLCUDA_API Result nvmlDeviceGetCount(unsigned* count) {
  return nvmlDeviceGetCount_v2(count);
}

NULLCUDA_API Result nvmlDeviceGetHandleByIndex_v2(unsigned number, void** device) {
  if (number >= static_cast<unsigned>(nullcuda::machine().settings.devices)) return kInvalidArgument;
  *device = nullcuda::as_pointer<void*>(number + 1);
  return kSuccess;
}

NULLCUDA_API Result nvmlDeviceGetHandleByIndex(unsigned number, void** device) {
  return nvmlDeviceGetHandleByIndex_v2(number, device);
}

NULLCUDA_API Result nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  for (int number = 0; number < nullcuda::machine().settings.devices; ++number)
    if (nullcuda::uuid_of(number) == uuid)
      return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(number), device);
  return kNotFound;
}

NULLCUDA_API Result nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  for (int number = 0; number < nullcuda::machine().settings.devices; ++number) {
    // Programs write the domain with four or with eight digits.
    if (!std::string(bus).ends_with(nullcuda::bus_of(number).substr(4))) continue;
    return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(number), device);
  }
  return kInvalidArgument;
}

NULLCUDA_API Result nvmlDeviceGetIndex(void* device, unsigned* number) {
  *number = static_cast<unsigned>(number_of(device));
  return kSuccess;
}

NULLCUDA_API Result nvmlDeviceGetMinorNumber(void* device, unsigned* number) {
  return nvmlDeviceGetIndex(device, number);
}

NULLCUDA_API Result nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = nullcuda::machine().settings.gpu->major;
  *minor = nullcuda::machine().settings.gpu->minor;
  return kSuccess;
}

NULLCUDA_API Result nvmlDeviceGetName(void*, char* name, unsigned size) {
  std::snprintf(name, size, "%s", std::string(nullcuda::machine().settings.gpu->name).c_str());
  return kSuccess;
}

NULLCUDA_API Result nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  std::snprintf(uuid, size, "%s", nullcuda::uuid_of(number_of(device)).c_str());
  return kSuccess;
}

NULLCUDA_API Result nvmlDeviceGetMemoryInfo(void* device, MemoryInfo* memory) {
  const nullcuda::Memory& own = nullcuda::machine().memory;
  memory->total = own.total();
  memory->used = 0;
  const std::vector<int>& visible = nullcuda::visible_devices();
  if (const auto at = std::ranges::find(visible, number_of(device)); at != visible.end())
    memory->used = own.used(static_cast<int>(at - visible.begin()));
  memory->free = memory->total - std::min<unsigned long long>(memory->total, memory->used);
  return kSuccess;
}

NULLCUDA_API Result nvmlDeviceGetMemoryInfo_v2(void* device, MemoryInfo2* memory) {
  MemoryInfo found{};
  nvmlDeviceGetMemoryInfo(device, &found);
  *memory = {.version = memory->version,
             .total = found.total,
             .reserved = 0,
             .free = found.free,
             .used = found.used};
  return kSuccess;
}

NULLCUDA_API Result nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return kSuccess;
}
NULLCUDA_API Result nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
  *count = 0;
  return kSuccess;
}

NULLCUDA_API Result nvmlDeviceGetUtilizationRates(void*, void* rates) {
  std::memset(rates, 0, 2 * sizeof(unsigned));
  return kSuccess;
}

// No NVLink leads anywhere.
NULLCUDA_API Result nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int*) {
  return kNotSupported;
}
NULLCUDA_API Result nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) {
  return kNotSupported;
}
