// CUPTI: a profiler is told that it may, and that nothing happened.

#include <cupti.h>

#include "api/abi.h"

NULLCUDA_API CUptiResult cuptiGetVersion(std::uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

NULLCUDA_API CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_SUCCESS ? "success" : "an error of CUPTI";
  return CUPTI_SUCCESS;
}

NULLCUDA_API CUptiResult cuptiActivityGetNextRecord(std::uint8_t*, std::size_t, CUpti_Activity**) {
  return CUPTI_ERROR_MAX_LIMIT_REACHED;
}
