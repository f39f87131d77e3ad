// Phases: the forward or the backward of one micro-batch, or the optimizer.
#pragma once

#include <string>
#include <vector>

#include "profile/steps.h"

namespace stweaver {

/// Phases cut time into pieces: phase i lasts from its time to the next one's. The first begins at time 0.
struct Phases {
  bool marked = false;       ///< from the job's marks; otherwise from the rise and fall of its memory
  std::vector<Time> begins;  ///< ascending, the first is 0
};

/// Phases from labels like "phase F chunk 0 mb 1", "forward", "backward" or "optimizer" (each step begins a
/// phase too). Without such marks a phase is a stretch in which the load of a step rises, or falls, by more
/// than a twentieth of its range: forwards pile activations up, backwards take them down.
Phases find_phases(const Trace& trace, const Steps& steps);

/// The index of the phase that a time belongs to.
std::size_t phase_at(const Phases& phases, Time time);

}  // namespace stweaver
