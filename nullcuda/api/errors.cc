// Errors: the last one of each thread, and what they are called.

#include <array>
#include <utility>

#include "api/abi.h"

namespace nullcuda {
namespace {

struct Words {
  int number;
  const char* runtime;
  const char* driver;
  const char* text;
};

// CUDA's reference manual, cudaError and CUresult: those that null CUDA, or a rule of NULLCUDA_FAIL, is
// likely to give.
constexpr std::array kWords = {
    Words{0, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    Words{1, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    Words{2, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    Words{3, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    Words{4, "cudaErrorCudartUnloading", "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    Words{46, "cudaErrorDevicesUnavailable", "CUDA_ERROR_DEVICE_UNAVAILABLE",
          "CUDA-capable device(s) is/are busy or unavailable"},
    Words{100, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    Words{101, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    Words{201, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    Words{214, "cudaErrorECCUncorrectable", "CUDA_ERROR_ECC_UNCORRECTABLE",
          "uncorrectable ECC error encountered"},
    Words{400, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    Words{401, "cudaErrorIllegalState", "CUDA_ERROR_ILLEGAL_STATE",
          "the operation cannot be performed in the present state"},
    Words{500, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    Words{600, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    Words{700, "cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS",
          "an illegal memory access was encountered"},
    Words{704, "cudaErrorPeerAccessAlreadyEnabled", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
          "peer access is already enabled"},
    Words{719, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    Words{801, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    Words{900, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
          "operation not permitted when stream is capturing"},
    Words{901, "cudaErrorStreamCaptureInvalidated", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
          "operation failed due to a previous error during capture"},
    Words{903, "cudaErrorStreamCaptureUnmatched", "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
          "capture was not ended in the same stream as it began"},
    Words{904, "cudaErrorStreamCaptureUnjoined", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
          "capturing stream has unjoined work"},
    Words{999, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const Words& words(int number) {
  for (const Words& each : kWords)
    if (each.number == number) return each;
  return kWords.back();
}

}  // namespace

cudaError_t& last_error() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

}  // namespace nullcuda

using nullcuda::words;

NULLCUDA_API cudaError_t cudaGetLastError() {
  return std::exchange(nullcuda::last_error(), cudaSuccess);
}
NULLCUDA_API cudaError_t cudaPeekAtLastError() {
  return nullcuda::last_error();
}
NULLCUDA_API const char* cudaGetErrorString(cudaError_t error) {
  return words(error).text;
}
NULLCUDA_API const char* cudaGetErrorName(cudaError_t error) {
  return words(error).runtime;
}

NULLCUDA_API CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = words(error).text;
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = words(error).driver;
  return CUDA_SUCCESS;
}
