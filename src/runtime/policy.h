// The table of rules: every number by which the run time, memory included, trades one thing for another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/policy.h"
#include "base/base.h"
#include "plan/step_plan.h"
#include "profile/steps.h"

namespace stweaver {

/// docs/runtime.md, section 6, says what each trades, and where that is measured. Benches may override any.
struct Policy : ArenaPolicy {
  // Memory behind a plan (plan_follower.h).
  /// Once a step was as planned, where steps have lengths, memory is mapped in blocks of this share of the
  /// plan's range: the device is slower in small extents (docs/results/driver.md).
  Bytes block_share = 1024;

  // Where nothing helps (runtime_allocator.h).
  /// After the device refused memory, none is mapped during so many calls.
  std::uint64_t refused_calls = 1000;

  // Following a plan (matcher.h, plan_follower.h).
  std::size_t near = 5;   ///< entries ahead in which a request of a slot's size is believed to be that slot's
  std::size_t far = 256;  ///< entries ahead in which it is taken for a guess
  /// A request of less than that share of a slot whose size varies, or of more than so many times its size,
  /// is another one; and a plan's range has so many times its addresses where there are as many, to grow with
  /// the length of steps.
  Bytes size_spread = 8;
  /// Sizes that follow one length agree with it but for so small a share: lengths are rounded to tiles and to
  /// whole rows.
  Bytes rounding = 256;
  std::size_t lost = 8;  ///< unmatched requests in a row: the stream does something else

  // Whether a plan fits (plan_fit.h).
  /// A step misfits when requests for more than this share of the plan's range are unplanned, and, where
  /// steps have lengths, the recorded step when the plan does not know this share of what it asks for. Steps
  /// repeat that differ by no more.
  Bytes misfit_share = kMisfitShare;
  std::int64_t astray_share = 2;  ///< a step is astray when fewer than this share of its slots were used
  int patience = 2;               ///< misfits, or steps astray, to bear
  int most_patience = 64;         ///< steps; doubled up to here each time that planning again did not help

  // Recording (life_cycle.h).
  /// No plan is followed before this step boundary, nor do steps repeat: a job builds its model, and then the
  /// states of its optimizer.
  std::int64_t first_adoption = 2;
  int steps_to_differ = kStepsToDiffer;  ///< fewer whole steps do not tell whether steps differ
  /// Recorded, or looked back at, to see whether steps repeat; where nobody marks them, so many times
  /// first_search.
  int most_steps = 12;
  std::int64_t first_search = 20'000;  ///< requests before a job is searched for steps that nobody marks
  std::uint32_t poll = 1024;           ///< requests between two calls of LifeCycle::poll()
};

}  // namespace stweaver
