// Steps: where one optimizer step of a job ends and the next begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/model.h"

namespace stweaver {

enum class StepSource : std::uint8_t {
  kMarks,       ///< the job (or its profiler) marked them
  kRepetition,  ///< found in the request stream itself
  kNone,        ///< there are none to be seen
};

/// The steps of a trace in order, each a span of events; they do not overlap. What comes before the first is
/// the prologue (weights, warm-up).
struct Steps {
  StepSource source = StepSource::kNone;
  std::vector<Lifespan> spans;
  std::string note;  ///< when there are none: why, and what to do
};

/// Steps from marks if there are any, else from repetition.
Steps find_steps(const Trace& trace);

/// Steps from labels like "iteration 3", "step 3" or "ProfilerStep#3"; the label "end" ends the last one. A
/// last step that was cut short is dropped.
Steps steps_from_marks(const Trace& trace);

/// Steps repeat that differ by no more than this share of their requests.
inline constexpr std::int64_t kMisfitShare = 64;

/// The longest run of steps that make about as many requests each, the last of equals, and the step before
/// it: what is left where odd ones (evaluations, checkpoints) are among the steps. No spans where not even
/// most make about as many.
Steps longest_run_alike(const Trace& trace, const Steps& steps);

}  // namespace stweaver
