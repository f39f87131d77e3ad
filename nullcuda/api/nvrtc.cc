// NVRTC: programs compile to nothing, since no kernel is run.

#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include "api/abi.h"

NULLCUDA_API nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = CUDART_VERSION / 1000;
  *minor = CUDART_VERSION % 1000 / 10;
  return NVRTC_SUCCESS;
}

NULLCUDA_API const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "success" : "an error of NVRTC";
}

NULLCUDA_API nvrtcResult nvrtcGetLoweredName(nvrtcProgram, const char* expression, const char** name) {
  *name = expression;
  return NVRTC_SUCCESS;
}
