// cuBLAS: versions, settings that are read back, and an algorithm for every product. None needs a workspace
// beyond the one that the program gives.

#include <cstring>
#include <cublasLt.h>
#include <cublas_v2.h>

#include "api/abi.h"

namespace nullcuda {
namespace {

constexpr int kVersion = CUBLAS_VERSION;

void choose(cublasLtMatmulHeuristicResult_t& result) {
  result = {};
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1;
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

NULLCUDA_API cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  *version = kVersion;
  return CUBLAS_STATUS_SUCCESS;
}

NULLCUDA_API cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION   ? CUBLAS_VER_MAJOR
           : type == MINOR_VERSION ? CUBLAS_VER_MINOR
                                   : CUBLAS_VER_PATCH;
  return CUBLAS_STATUS_SUCCESS;
}

NULLCUDA_API const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "an error of cuBLAS";
}

NULLCUDA_API const char* cublasGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INTERNAL_ERROR";
}

NULLCUDA_API std::size_t cublasLtGetVersion() {
  return static_cast<std::size_t>(kVersion);
}
NULLCUDA_API std::size_t cublasLtGetCudartVersion() {
  return CUDART_VERSION;
}

NULLCUDA_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                           cublasLtMatmulPreference_t, int wanted,
                                                           cublasLtMatmulHeuristicResult_t* results,
                                                           int* found) {
  *found = wanted > 0 ? 1 : 0;
  if (wanted > 0) choose(*results);
  return CUBLAS_STATUS_SUCCESS;
}

NULLCUDA_API cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                    const cublasLtMatmulAlgo_t*,
                                                    cublasLtMatmulHeuristicResult_t* result) {
  choose(*result);
  return CUBLAS_STATUS_SUCCESS;
}

NULLCUDA_API cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*,
                                                                 cublasLtMatmulAlgoConfigAttributes_t,
                                                                 void* value, std::size_t size,
                                                                 std::size_t* written) {
  std::memset(value, 0, size);
  if (written != nullptr) *written = size;
  return CUBLAS_STATUS_SUCCESS;
}
