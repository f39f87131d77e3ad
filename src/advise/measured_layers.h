// How much longer kinds of layers take than the constants say.
#pragma once

#include <span>

#include "advise/constants.h"
#include "advise/measurements.h"

namespace stweaver {

/// The factors that rows tell, beside these constants. How fast a GPU's library of products is for one shape
/// no data sheet says, and the next shape tells little of it: kinds of layers are random effects (Searle,
/// Casella and McCulloch, Variance Components, chapters 3 and 7). The error of a row is that of its kind and
/// that of its own; an analysis of variance says how large either is, and a kind's factor is its mean error,
/// drawn towards none the more, the fewer rows tell it. None where no kind has two rows.
MeasuredLayers measure_layers(std::span<const Measurement> rows, const Constants& constants);

}  // namespace stweaver
