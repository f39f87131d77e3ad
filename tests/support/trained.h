// Traces of training loops, for tests that simulate and serve them.
#pragma once

#include <cstddef>
#include <vector>

#include "support/job.h"

namespace stweaver {

/// One step for each scale.
inline Trace trained(const std::vector<Bytes>& scales, const Training::Shape& shape = {}) {
  Training training(shape);
  for (const Bytes scale : scales) training.step(scale);
  return training.job.trace();
}

/// Steps that are alike.
inline Trace fixed(std::size_t steps, const Training::Shape& shape = {}) {
  return trained(std::vector<Bytes>(steps, 8), shape);
}

/// Steps whose batch lives until the next one is there, as a loop's variable does, and three times of which
/// is computed with.
inline Trace keeping_its_batch(Bytes batch, int steps) {
  Job job;
  const RequestId weights = job.allocate(400 * kKiB);
  std::vector<RequestId> before;
  for (int step = 0; step < steps; ++step) {
    job.mark(text("step ", step));
    const RequestId fetched = job.allocate(batch);
    job.free_all(before);
    before = {fetched};
    for (Bytes layer = 1; layer <= 20; ++layer) {
      std::vector<RequestId> computed = {job.allocate(3 * batch), job.allocate(layer * 100 * kKiB)};
      job.free_all(computed);
    }
  }
  job.mark("end");
  job.free(weights);
  return job.trace();
}

}  // namespace stweaver
