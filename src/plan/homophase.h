// The paper's own planner: HomoPhase groups, HomoSize layers, gap insertion (STAlloc, arXiv 2507.16274,
// section "Plan Synthesizer"; reference flow as in the released plan generator).
#pragma once

#include <optional>

#include "plan/packer.h"

namespace stweaver {

/// 1. HomoPhase groups (Item::group) become blocks; groups that fill their rectangle badly are dissolved.
/// 2. Two groups that overlap partly in time are fused when the fused block's share of used time-memory
/// product
///    beats the geometric mean of theirs.
/// 3. Blocks and single items of one height, in descending order, form HomoSize layers by interval colouring;
/// a
///    block first looks for a gap in the time of a higher layer.
/// 4. Layers are stacked; what then hangs in the air is let down.
/// Without groups (phases unknown) only 3 and 4 remain. Wants a plain instance.
std::optional<Placement> homophase(const Instance& instance, const Budget& budget);

}  // namespace stweaver
