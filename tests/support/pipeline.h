// A job of four pipeline stages, for tests of the advisor.
#pragma once

#include "advise/memory.h"

namespace stweaver {

inline Job pipeline_job() {
  Job job{.model = known_model("llama2_7b"), .gpu = known_gpu("h100"), .configuration = {}};
  job.configuration.gpus = 16;
  job.configuration.pp = 4;
  job.configuration.global_batch = 64;
  job.configuration.sequence = 2048;
  return job;
}

}  // namespace stweaver
