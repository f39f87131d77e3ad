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

}  // namespace stweaver
