// Micro-batches of one step, each with a length of its own.
#pragma once

#include "profile/pattern.h"

namespace stweaver {

/// Where sizes follow lengths, as few as tell them, gives micro-batches that make the same requests the same
/// sizes, the largest of any: the next step may draw its longest batch for another of them. Micro-batches are
/// told apart by what varies in size, hardly any of which lives between two of them; they are alike if all
/// but a tenth of such requests are the same, in one proportion. What is one's alone grows with it:
/// fit_to_longest() of scale.h.
void level_micro_batches(Pattern& pattern, const Trace& trace);

}  // namespace stweaver
