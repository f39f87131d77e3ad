// The Plan Synthesizer: from a profiled trace to a plan.
#pragma once

#include <optional>
#include <stop_token>

#include "plan/search.h"
#include "plan/static_plan.h"
#include "profile/profile.h"

namespace stweaver {

struct SynthesizeOptions {
  Bytes alignment = kAlignment;
  int threads = 0;                      ///< 0: as many as the machine has
  double timeout = 1;                   ///< seconds for the search
  bool step_only = false;               ///< leave out the prologue, persistent requests included
  std::optional<Time> stream_gap = {};  ///< requests; chosen when not given
  Gaps gaps = {};                       ///< see fill_gaps()
  bool anytime = false;                 ///< see SearchOptions, these four
  Bytes page = 1;
  std::stop_token stop = {};
  SearchWatch improved = {};
};

struct Synthesis {
  Plan plan;
  double seconds = 0;
  int threads = 0;
};

/// Plans the prologue and the step that repeats in one instance. Unplanned (the run time places them) are
/// dynamic positions, requests of private pools, and what outlives the step after its own without having been
/// born in the prologue.
///
/// Streams: memory passes from one stream to another only behind an event wait, and a wait for work that lies
/// far back is over before anyone waits. Without a given stream_gap that is a sixteenth of the step's
/// requests, halved for as long as it raises the lower bound by more than the slack.
///
/// Two steps repeat where requests that outlive their own hold more than the slack; if the plan of them takes
/// too much (takes_too_much()), one does, and is searched for as long again.
Synthesis synthesize(const Trace& trace, const Profile& profile, const SynthesizeOptions& options);

/// The instance that synthesize() plans first, for whoever studies constructors.
Instance job_instance(const Trace& trace, const Profile& profile, const SynthesizeOptions& options);

}  // namespace stweaver
