// cuFFT: plans are handles, and what a plan works in.

#include <cufftXt.h>

#include "api/abi.h"

namespace nullcuda {
namespace {

std::size_t element(cudaDataType type) {
  switch (type) {
    case CUDA_C_64F:
      return 16;
    case CUDA_C_32F:
    case CUDA_R_64F:
      return 8;
    case CUDA_C_16F:
    case CUDA_R_32F:
      return 4;
    default:
      return 2;
  }
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

NULLCUDA_API cufftResult cufftCreate(cufftHandle* plan) {
  static std::atomic<cufftHandle> next = 1;
  *plan = next++;
  return CUFFT_SUCCESS;
}

// A transform works in as many bytes as its input has.
NULLCUDA_API cufftResult cufftXtMakePlanMany(cufftHandle, int rank, long long* sizes, long long*, long long,
                                             long long, cudaDataType, long long*, long long, long long,
                                             cudaDataType, long long batch, std::size_t* workspace,
                                             cudaDataType type) {
  std::size_t elements = static_cast<std::size_t>(batch);
  for (int place = 0; place < rank; ++place) elements *= static_cast<std::size_t>(sizes[place]);
  *workspace = elements * element(type);
  return CUFFT_SUCCESS;
}
