// cuFFT: plans are handles, and what a plan works in.

#include <algorithm>
#include <cufftXt.h>

#include "api/abi.h"
#include "api/cufft_plan.h"
#include "api/sizes.h"

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

// Made up where nobody recorded it: what fits into a multiprocessor works in place; else as many bytes as the
// complex values have, of which a real transform has half. Right for 1054 of the 1406 transforms that an H200
// was asked about (the sweep of `bench/gpu/library_sizes.py`).
NULLCUDA_API cufftResult cufftXtMakePlanMany(cufftHandle, int rank, long long* sizes, long long* inputs,
                                             long long input_stride, long long input_distance,
                                             cudaDataType input_type, long long* outputs,
                                             long long output_stride, long long output_distance,
                                             cudaDataType output_type, long long batch,
                                             std::size_t* workspace, cudaDataType type) {
  const FftLayout input{inputs, input_stride, input_distance, input_type};
  const FftLayout output{outputs, output_stride, output_distance, output_type};
  const std::string key = key_of(rank, sizes, input, output, batch, type);
  if (const auto* found = recorded("fft", key, "cuFFT workspace"); found != nullptr) {
    *workspace = (*found)[0];
    return CUFFT_SUCCESS;
  }
  constexpr long long kInPlace = 1024;
  const bool in_place = std::all_of(sizes, sizes + rank, [](long long size) { return size <= kInPlace; });
  const bool is_real = element(input_type) < element(type) || element(output_type) < element(type);
  std::size_t bytes = in_place ? 0 : static_cast<std::size_t>(batch) * element(type) / (is_real ? 2 : 1);
  for (int place = 0; place < rank; ++place) bytes *= static_cast<std::size_t>(sizes[place]);
  *workspace = bytes;
  return CUFFT_SUCCESS;
}
