// Errors: the last one of each thread, and what they are called.

#include <algorithm>
#include <array>
#include <utility>

#include "api/abi.h"

namespace nullcuda {
namespace {

struct Words {
  int number;
  const char* runtime;
  const char* driver;  ///< null: the run time alone has it
  const char* text;
};

// CUDA's reference manual, cudaError and CUresult, and what driver 580 says: those that null CUDA, or a rule
// of NULLCUDA_FAIL, is likely to give.
constexpr std::array kWords = {
    Words{0, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    Words{1, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    Words{2, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    Words{3, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    Words{4, "cudaErrorCudartUnloading", "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    Words{35, "cudaErrorInsufficientDriver", nullptr,
          "CUDA driver version is insufficient for CUDA runtime version"},
    Words{46, "cudaErrorDevicesUnavailable", "CUDA_ERROR_DEVICE_UNAVAILABLE",
          "CUDA-capable device(s) is/are busy or unavailable"},
    Words{98, "cudaErrorInvalidDeviceFunction", nullptr, "invalid device function"},
    Words{100, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    Words{101, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    Words{201, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    Words{209, "cudaErrorNoKernelImageForDevice", "CUDA_ERROR_NO_BINARY_FOR_GPU",
          "no kernel image is available for execution on the device"},
    Words{214, "cudaErrorECCUncorrectable", "CUDA_ERROR_ECC_UNCORRECTABLE",
          "uncorrectable ECC error encountered"},
    Words{217, "cudaErrorPeerAccessUnsupported", "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
          "peer access is not supported between these two devices"},
    Words{400, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    Words{401, "cudaErrorIllegalState", "CUDA_ERROR_ILLEGAL_STATE",
          "the operation cannot be performed in the present state"},
    Words{500, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    Words{600, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    Words{700, "cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS",
          "an illegal memory access was encountered"},
    Words{704, "cudaErrorPeerAccessAlreadyEnabled", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
          "peer access is already enabled"},
    Words{705, "cudaErrorPeerAccessNotEnabled", "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
          "peer access has not been enabled"},
    Words{709, "cudaErrorContextIsDestroyed", "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    Words{710, "cudaErrorAssert", "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    Words{712, "cudaErrorHostMemoryAlreadyRegistered", "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
          "part or all of the requested memory range is already mapped"},
    Words{713, "cudaErrorHostMemoryNotRegistered", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
          "pointer does not correspond to a registered memory region"},
    Words{719, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    Words{800, "cudaErrorNotPermitted", "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    Words{801, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    Words{802, "cudaErrorSystemNotReady", "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    Words{900, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
          "operation not permitted when stream is capturing"},
    Words{901, "cudaErrorStreamCaptureInvalidated", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
          "operation failed due to a previous error during capture"},
    Words{902, "cudaErrorStreamCaptureMerge", "CUDA_ERROR_STREAM_CAPTURE_MERGE",
          "operation would result in a merge of separate capture sequences"},
    Words{903, "cudaErrorStreamCaptureUnmatched", "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
          "capture was not ended in the same stream as it began"},
    Words{904, "cudaErrorStreamCaptureUnjoined", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
          "capturing stream has unjoined work"},
    Words{905, "cudaErrorStreamCaptureIsolation", "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
          "dependency created on uncaptured work in another stream"},
    Words{906, "cudaErrorStreamCaptureImplicit", "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
          "operation would make the legacy stream depend on a capturing blocking stream"},
    Words{907, "cudaErrorCapturedEvent", "CUDA_ERROR_CAPTURED_EVENT",
          "operation not permitted on an event last recorded in a capturing stream"},
    Words{908, "cudaErrorStreamCaptureWrongThread", "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
          "attempt to terminate a thread-local capture sequence from another thread"},
    Words{999, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const Words* words(int number) {
  const auto* const found = std::ranges::find(kWords, number, &Words::number);
  return found == kWords.end() ? nullptr : found;
}

/// As the driver answers: of a number that it does not know there is no text.
CUresult tell(const Words* words, const char* Words::*which, const char** text) {
  *text = words == nullptr ? nullptr : words->*which;
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
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
  const auto* const found = words(error);
  return found == nullptr ? "unrecognized error code" : found->text;
}
NULLCUDA_API const char* cudaGetErrorName(cudaError_t error) {
  const auto* const found = words(error);
  return found == nullptr ? "unrecognized error code" : found->runtime;
}

NULLCUDA_API CUresult cuGetErrorString(CUresult error, const char** text) {
  return nullcuda::tell(words(error), &nullcuda::Words::text, text);
}

NULLCUDA_API CUresult cuGetErrorName(CUresult error, const char** name) {
  return nullcuda::tell(words(error), &nullcuda::Words::driver, name);
}
