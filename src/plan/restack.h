// The places of a plan for requests of other sizes: the same order, one upon the other.
#pragma once

#include <vector>

#include "plan/static_plan.h"

namespace stweaver {

/// What every slot takes in steps whose lengths are these shares of those that the plan was made for, in
/// whole tiles, a multiple of the alignment. Slots of the prologue and those of one size stay as they are.
std::vector<Bytes> sizes_at(const Plan& plan, const std::vector<double>& shares);

/// An offset for every slot of `plan` when slot i takes sizes[i] bytes (multiples of the plan's alignment).
/// Each slot of the step goes down, or up, to the highest end of those that lie below it in the plan and that
/// it must lie apart from: those alive with it and, on other streams, those within the stream gap. So slots
/// of the plan's own sizes end no higher than they did. Slots of the prologue keep their offsets, and the
/// step lies upon those of them that live for ever. kUnplanned stays. O(slots * log^2 slots * streams).
std::vector<Bytes> restacked(const Plan& plan, const std::vector<Bytes>& sizes);

}  // namespace stweaver
