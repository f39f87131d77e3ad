// One job under three allocators: PyTorch's default, its expandable segments, and ours.
#pragma once

#include <cstdint>
#include <string>

#include "plan/synthesize.h"
#include "simulate/replay.h"

namespace stweaver {

/// What one allocator made of a job.
struct Reserved {
  Bytes peak = 0;
  double efficiency = 0;  ///< peak requested / peak reserved
  bool measured = false;  ///< from the trace's own segment events, not simulated
};

/// What STWeaver made of it.
struct Woven {
  Bytes reserved_peak = 0;
  double efficiency = 0;
  Bytes arena = 0;
  Bytes fallback_reserved_peak = 0;
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  double plan_seconds = 0;
  std::size_t planned_steps = 0;  ///< steps of the trace that the plan was made from
};

struct Comparison {
  std::string trace;
  std::size_t requests = 0;
  std::size_t steps = 0;
  Bytes requested_peak = 0;
  Bytes lower_bound = 0;  ///< of the whole trace, sizes rounded up to the alignment
  Reserved native;
  Reserved expandable;
  Woven stweaver;

  /// Fragmentation reduction: 1 - (1 - E_ours) / (1 - E_theirs); 0 when there was nothing to reduce.
  [[nodiscard]] double reduction(const Reserved& theirs) const;
};

/// The trace from which a fair plan is made: without the last step, or, for a job whose steps differ, the
/// first third of its steps (three at least). The whole trace when it has fewer than two steps.
Trace planning_part(const Trace& trace, const Profile& profile);

/// Plans from planning_part() and serves the whole trace from its first request with that plan, as a job that
/// is started again would be.
Comparison compare(const Trace& trace, const SynthesizeOptions& options);

}  // namespace stweaver
