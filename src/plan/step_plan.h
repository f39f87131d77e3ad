// The plan of the step that repeats, as a running job follows it.
#pragma once

#include "plan/static_plan.h"
#include "profile/profile.h"

namespace stweaver {

/// What devices map memory in (cuMemGetAllocationGranularity()): a plan that is better by less saves nothing.
inline constexpr Bytes kDevicePage = 2 * kMiB;

/// A plan for the step that repeats, by synthesize(), proven by the independent checker. Without slots when
/// nothing repeats, when steps differ otherwise than by lengths (its shape says so), or when they differ and
/// fewer than `enough` were recorded, or than twice as many where their sizes follow several lengths: of a
/// few steps, two lengths are soon in the same order by chance. Error when the checker refuses it. It may use
/// `gaps` (fill_gaps()).
Plan plan_step(const Trace& trace, const Gaps& gaps = {}, int enough = kStepsToDiffer);

}  // namespace stweaver
