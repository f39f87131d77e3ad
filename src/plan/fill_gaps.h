// Planned requests in gaps among what outlives the plan.
#pragma once

#include <vector>

#include "plan/instance.h"

namespace stweaver {

/// What a job allocates before a plan is made lives among blocks that are gone by then, and keeps the memory
/// around it from moving. Puts items into those gaps for as long as that lowers the most that is alive
/// together outside of them: the largest that live at the fullest time first, each into the smallest gap that
/// has room while it lives. A gap serves one lane, so that none waits for another there.
///
/// `gaps` are disjoint. `may` says by item whether it can be put there. By item: where it lies; empty for
/// those that are still to be packed. O(items * (items + gaps * items in a gap)), hardly ever reached.
std::vector<Interval> fill_gaps(const Instance& instance, const std::vector<bool>& may,
                                std::vector<Interval> gaps);

}  // namespace stweaver
