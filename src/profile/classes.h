// How long a request lives, in the paper's terms.
#pragma once

#include <cstdint>
#include <vector>

#include "profile/phases.h"

namespace stweaver {

enum class LifeClass : std::uint8_t {
  kPersistent,  ///< never freed, or outlives a whole step: weights, optimizer states
  kScoped,      ///< crosses phases: activations kept for the backward
  kTransient,   ///< born and dead inside one phase
};

/// The class of every request of the trace.
std::vector<LifeClass> classify(const Trace& trace, const Steps& steps, const Phases& phases);

}  // namespace stweaver
