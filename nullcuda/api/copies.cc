// Copies and fills.

#include "api/abi.h"

namespace nullcuda {
namespace {

void fill_rows(const char* what, StreamId stream, void* at, std::size_t pitch, int value, std::size_t width,
               std::size_t height) {
  for (std::size_t row = 0; row < height; ++row)
    fill(what, stream, static_cast<char*>(at) + row * pitch, value, width);
}

void copy_rows(const char* what, StreamId stream, void* to, std::size_t to_pitch, const void* from,
               std::size_t from_pitch, std::size_t width, std::size_t height) {
  for (std::size_t row = 0; row < height; ++row)
    copy(what, stream, static_cast<char*>(to) + row * to_pitch,
         static_cast<const char*>(from) + row * from_pitch, width);
}

constexpr StreamId kLegacy = 0;

/// Copies that the host waits for, as far as a caller can tell.
int copy_rows_and_wait(const char* what, void* to, std::size_t to_pitch, const void* from,
                       std::size_t from_pitch, std::size_t width, std::size_t height) {
  if (const int error = machine().streams.synchronize(kLegacy); error != 0) return error;
  copy_rows(what, kLegacy, to, to_pitch, from, from_pitch, width, height);
  machine().streams.finish(kLegacy);
  return 0;
}

int copy_and_wait(const char* what, void* to, const void* from, std::size_t size) {
  return copy_rows_and_wait(what, to, size, from, size, size, 1);
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

NULLCUDA_API cudaError_t cudaMemcpy(void* to, const void* from, std::size_t size, cudaMemcpyKind) {
  NULLCUDA_RUNTIME_CALL();
  return ended(copy_and_wait("cudaMemcpy", to, from, size));
}

NULLCUDA_API cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind,
                                         cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  copy("cudaMemcpyAsync", id_of(stream), to, from, size);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t size,
                                             cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  copy("cudaMemcpyPeerAsync", id_of(stream), to, from, size);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t size) {
  NULLCUDA_RUNTIME_CALL();
  copy("cudaMemcpyPeer", 0, to, from, size);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from,
                                      std::size_t from_pitch, std::size_t width, std::size_t height,
                                      cudaMemcpyKind) {
  NULLCUDA_RUNTIME_CALL();
  return ended(copy_rows_and_wait("cudaMemcpy2D", to, to_pitch, from, from_pitch, width, height));
}

NULLCUDA_API cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                                           std::size_t from_pitch, std::size_t width, std::size_t height,
                                           cudaMemcpyKind, cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  copy_rows("cudaMemcpy2DAsync", id_of(stream), to, to_pitch, from, from_pitch, width, height);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaMemset(void* at, int value, std::size_t size) {
  NULLCUDA_RUNTIME_CALL();
  fill("cudaMemset", 0, at, value, size);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaMemsetAsync(void* at, int value, std::size_t size, cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  fill("cudaMemsetAsync", id_of(stream), at, value, size);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaMemset2D(void* at, std::size_t pitch, int value, std::size_t width,
                                      std::size_t height) {
  NULLCUDA_RUNTIME_CALL();
  fill_rows("cudaMemset2D", 0, at, pitch, value, width, height);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaMemset2DAsync(void* at, std::size_t pitch, int value, std::size_t width,
                                           std::size_t height, cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  fill_rows("cudaMemset2DAsync", id_of(stream), at, pitch, value, width, height);
  return cudaSuccess;
}

NULLCUDA_API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t size) {
  NULLCUDA_DRIVER_CALL();
  return driver(copy_and_wait("cuMemcpy", as_pointer<void*>(to), as_pointer<void*>(from), size));
}

NULLCUDA_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  copy("cuMemcpyAsync", id_of(stream), as_pointer<void*>(to), as_pointer<void*>(from), size);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t size) {
  NULLCUDA_DRIVER_CALL();
  return driver(copy_and_wait("cuMemcpyHtoD", as_pointer<void*>(to), from, size));
}

NULLCUDA_API CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t size) {
  NULLCUDA_DRIVER_CALL();
  return driver(copy_and_wait("cuMemcpyDtoH", to, as_pointer<void*>(from), size));
}

NULLCUDA_API CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, std::size_t size) {
  NULLCUDA_DRIVER_CALL();
  copy("cuMemcpyDtoD", 0, as_pointer<void*>(to), as_pointer<void*>(from), size);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t size, CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  copy("cuMemcpyHtoDAsync", id_of(stream), as_pointer<void*>(to), from, size);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t size, CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  copy("cuMemcpyDtoHAsync", id_of(stream), to, as_pointer<void*>(from), size);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  copy("cuMemcpyDtoDAsync", id_of(stream), as_pointer<void*>(to), as_pointer<void*>(from), size);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, std::size_t count,
                                      CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  fill("cuMemsetD8Async", id_of(stream), as_pointer<void*>(at), value, count);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemsetD8(CUdeviceptr at, unsigned char value, std::size_t count) {
  NULLCUDA_DRIVER_CALL();
  fill("cuMemsetD8", 0, as_pointer<void*>(at), value, count);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemsetD16Async(CUdeviceptr at, unsigned short value, std::size_t count,
                                       CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  fill("cuMemsetD16Async", id_of(stream), as_pointer<void*>(at), value, count * sizeof value, sizeof value);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemsetD16(CUdeviceptr at, unsigned short value, std::size_t count) {
  NULLCUDA_DRIVER_CALL();
  fill("cuMemsetD16", 0, as_pointer<void*>(at), value, count * sizeof value, sizeof value);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, std::size_t count, CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  fill("cuMemsetD32Async", id_of(stream), as_pointer<void*>(at), static_cast<int>(value),
       count * sizeof value, sizeof value);
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuMemsetD32(CUdeviceptr at, unsigned value, std::size_t count) {
  NULLCUDA_DRIVER_CALL();
  fill("cuMemsetD32", 0, as_pointer<void*>(at), static_cast<int>(value), count * sizeof value, sizeof value);
  return CUDA_SUCCESS;
}
