// The text that tells one plan of cuFFT from another: shared by null CUDA and recorder/.
#pragma once

#include <cstdint>
#include <cufftXt.h>
#include <string>

namespace nullcuda {

/// One side of a transform.
struct FftLayout {
  const long long* sizes;  ///< null: packed
  long long stride, distance;
  cudaDataType type;
};

inline std::string joined(int rank, const long long* sizes) {
  if (sizes == nullptr) return "packed";
  std::string text;
  for (int place = 0; place < rank; ++place) text += (place == 0 ? "" : "x") + std::to_string(sizes[place]);
  return text;
}

inline std::string name_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return "f32";
    case CUDA_R_64F:
      return "f64";
    case CUDA_R_16F:
      return "f16";
    case CUDA_C_32F:
      return "c64";
    case CUDA_C_64F:
      return "c128";
    case CUDA_C_16F:
      return "c32";
    default:
      return "type" + std::to_string(static_cast<int>(type));
  }
}

inline std::string text_of(int rank, const FftLayout& layout) {
  std::string text = name_of(layout.type) + "{" + joined(rank, layout.sizes);
  if (layout.sizes != nullptr)  // without sizes cuFFT ignores the rest
    text += "," + std::to_string(layout.stride) + "," + std::to_string(layout.distance);
  return text + "}";
}

inline std::string key_of(int rank, const long long* sizes, const FftLayout& input, const FftLayout& output,
                          long long batch, cudaDataType compute) {
  return joined(rank, sizes) + ",batch" + std::to_string(batch) + "," + name_of(compute) + "," +
         text_of(rank, input) + "to" + text_of(rank, output);
}

}  // namespace nullcuda
