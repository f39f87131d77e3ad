// How long a training step takes: FLOPs, bytes and links, with a few fitted constants.
//
// A layer's device time is products at a share of what the GPU sustains, attention, and what operators read
// and write at the memory's bandwidth: the tensors of the memory model (layers.h). The host's time to launch
// it runs beside that, and traffic that nothing hides comes on top. Layers make up stages, stages the 1F1B
// schedule or its interleaved form (Narayanan et al., arXiv 2104.04473, section 2.2); gradients are reduced
// and parameters gathered behind or after it, and the optimizer ends the step.
#pragma once

#include "advise/configuration.h"
#include "advise/constants.h"

namespace stweaver {

/// Seconds of one step of the slowest rank, and what they are spent on.
struct StepTime {
  double total = 0;
  double work = 0;       ///< layers and head, recomputation included
  double bubble = 0;     ///< waiting for other stages, and sending to them
  double traffic = 0;    ///< exposed traffic of tensor, expert and data parallelism
  double optimizer = 0;  ///< with what belongs to nothing else
};

/// Of a job for which why_not() is empty.
StepTime step_time(const Job& job, const Constants& constants);

/// Tokens of a step, all ranks.
double tokens_of(const Configuration& configuration);

}  // namespace stweaver
