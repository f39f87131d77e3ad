// Layer profile: from events to knowledge. Steps, phases, classes, and the pattern that repeats.
#pragma once

#include <iterator>
#include <utility>

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

/// Whether the pattern tells what steps ask for: they are alike, or lengths foretell their sizes.
inline bool foretells_steps(const Trace& trace, const Pattern& pattern) {
  return !steps_differ(trace, pattern) || lengths_foretell_sizes(pattern);
}

/// Fewer whole steps do not tell whether steps differ.
inline constexpr int kStepsToDiffer = 3;

/// The pattern is that of all steps. Where it leaves some out, or foretells none, it is that of the longest
/// run without odd ones, if that is long enough to tell.
inline Profile profile_of(const Trace& trace, Steps steps) {
  Profile profile;
  profile.steps = std::move(steps);
  profile.phases = find_phases(trace, profile.steps);
  profile.classes = classify(trace, profile.steps, profile.phases);
  const auto pattern_of = [&](const Steps& those) {
    Pattern pattern = find_pattern(trace, those, profile.classes);
    level_micro_batches(pattern, trace);
    return pattern;
  };
  profile.pattern = pattern_of(profile.steps);
  if (profile.pattern.left_out == 0 && foretells_steps(trace, profile.pattern)) return profile;
  Pattern of_run = pattern_of(longest_run_alike(trace, profile.steps));
  if (std::ssize(of_run.steps) >= kStepsToDiffer && foretells_steps(trace, of_run))
    profile.pattern = std::move(of_run);
  return profile;
}

inline Profile profile_of(const Trace& trace) {
  return profile_of(trace, find_steps(trace));
}

}  // namespace stweaver
