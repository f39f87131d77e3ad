// One job under three allocators: PyTorch's default, its expandable segments, and ours.
#pragma once

#include <optional>
#include <string>

#include "plan/synthesize.h"
#include "simulate/serving.h"
#include "simulate/settings.h"

namespace stweaver {

/// What one of PyTorch's allocators makes of a job, with the job's own settings where they are known.
struct Reserved {
  Bytes peak = 0;
  double efficiency = 0;     ///< peak requested / peak reserved
  bool measured = false;     ///< these are from the trace's own segment events, not simulated
  ReplayResult replay = {};  ///< of the simulation
};

struct Comparison {
  std::string trace;
  std::size_t requests = 0;
  std::size_t steps = 0;
  Bytes requested_peak = 0;
  Bytes lower_bound = 0;  ///< of the whole trace, sizes rounded up to the alignment
  Reserved native;
  Reserved expandable;
  Serving stweaver;               ///< with a plan that was made before
  std::size_t planned_steps = 0;  ///< steps of the trace that this plan was made from
  std::optional<Serving> online;  ///< planned inside the job

  /// Fragmentation reduction by the plan: 1 - (1 - E_ours) / (1 - E_theirs); 0 when there was nothing to
  /// reduce.
  [[nodiscard]] double reduction(const Reserved& theirs) const;
};

/// Serves a trace by PyTorch's allocator, on numbers, and logs its segments. Error when the trace asks for
/// more than any device has.
ReplayResult simulate(const Trace& trace, const AllocatorSettings& settings);

/// The trace from which a fair plan is made: without the last step, or, for a job whose steps differ, the
/// first third of its steps (three at least). The whole trace when it has fewer than two steps.
Trace planning_part(const Trace& trace, const Profile& profile);

/// Plans from planning_part() and serves the whole trace from its first request with that plan, as a job that
/// is started again would be; if `online`, serves it once more without, as a job that runs for the first
/// time. On host memory, every block watched: Error when two share some.
Comparison compare(const Trace& trace, const SynthesizeOptions& options, bool online = false);

}  // namespace stweaver
