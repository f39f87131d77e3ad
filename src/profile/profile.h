// Layer profile: from events to knowledge. Steps, phases, classes, and the pattern that repeats.
#pragma once

#include "profile/classes.h"        // IWYU pragma: export
#include "profile/micro_batches.h"  // IWYU pragma: export
#include "profile/pattern.h"        // IWYU pragma: export
#include "profile/phases.h"         // IWYU pragma: export
#include "profile/scale.h"          // IWYU pragma: export
#include "profile/steps.h"          // IWYU pragma: export
#include "profile/summary.h"        // IWYU pragma: export
#include "profile/timeline.h"       // IWYU pragma: export

namespace stweaver {

/// All that is known about a trace.
struct Profile {
  Steps steps;
  Phases phases;
  std::vector<LifeClass> classes;  ///< by request
  Pattern pattern;
};

inline Profile profile_of(const Trace& trace) {
  Profile profile;
  profile.steps = find_steps(trace);
  profile.phases = find_phases(trace, profile.steps);
  profile.classes = classify(trace, profile.steps, profile.phases);
  profile.pattern = find_pattern(trace, profile.steps, profile.classes);
  level_micro_batches(profile.pattern, trace);
  return profile;
}

}  // namespace stweaver
