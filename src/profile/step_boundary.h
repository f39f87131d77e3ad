// Steps by repetition, second half: where in each period one step ends and the next begins.
#pragma once

#include <vector>

#include "profile/step_period.h"
#include "trace/model.h"

namespace stweaver {

/// A step that holds fewer requests than this share of the usual was cut short.
inline constexpr double kWholeStep = 0.9;

/// Boundaries in order, of two or more anchors that lie in one step each; empty when no place is common to
/// all steps.
std::vector<Time> find_boundaries(const Trace& trace, const Tokens& structure, const Tokens& sizes,
                                  Occurrences anchors);

}  // namespace stweaver
