// The independent checker: shares no code with the planner, only the data model.
#pragma once

#include <string>
#include <vector>

#include "plan/static_plan.h"
#include "trace/model.h"

namespace stweaver {

/// One line per offence, at most `most` of them; empty when the plan is sound for the trace.
///
/// Checked: the slots are the prologue's and those of a whole number of steps, alike where they take turns;
/// sizes are multiples of the alignment; offsets are aligned and inside the arena, which ends with the last
/// slot unless lengths vary, and is no smaller than the lower bound; no two slots whose lifespans meet share
/// bytes, from the prologue into the step and from each step into the next; slots of different streams that
/// share bytes lie at least stream_gap apart; where lengths vary, the step lies above what lives for ever;
/// the trace is the one that the plan was made from; runs ascend; each slot stands for a request, one of the
/// prologue for no more than one; every request that a slot stands for fits it, is on its stream, lives no
/// longer than it, and shares no byte with another one while both live in the trace.
std::vector<std::string> check_plan(const Plan& plan, const Trace& trace, std::size_t most = 20);

/// The same as far as it can be told without the trace: the slots alone.
std::vector<std::string> check_plan(const Plan& plan, std::size_t most = 20);

/// The same for bare rectangles: `offsets[i]` is the place of a request of `sizes[i]` bytes in `lives[i]`,
/// which is called `names[i]`, or by its number where there are no names.
std::vector<std::string> check_placement(const std::vector<Lifespan>& lives, const std::vector<Bytes>& sizes,
                                         const std::vector<Bytes>& offsets,
                                         const std::vector<std::string>& names = {}, std::size_t most = 20);

}  // namespace stweaver
