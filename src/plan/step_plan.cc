#include "plan/step_plan.h"

#include <iterator>
#include <string>
#include <vector>

#include "plan/checker.h"
#include "plan/synthesize.h"

namespace stweaver {

Plan plan_step(const Trace& trace, const Gaps& gaps, int enough) {
  const Profile profile = profile_of(trace);
  const Pattern& pattern = profile.pattern;
  if (pattern.positions.empty()) return {};
  if (pattern.lengths.size() > 1) enough *= 2;
  const bool is_enough = std::ssize(pattern.steps) >= enough && !last_step_is_new(pattern);
  if (steps_differ(trace, pattern) && !is_enough) return {};
  if (!foretells_steps(trace, pattern)) {
    Plan none;
    none.shape = StepShape::kDynamic;
    return none;
  }
  // One thread: the job needs the others.
  Plan plan =
      synthesize(trace, profile, {.threads = 1, .step_only = true, .gaps = gaps, .page = kDevicePage}).plan;
  const std::vector<std::string> violations = check_plan(plan, trace);
  if (!violations.empty()) fail("the checker refuses the plan: ", violations.front());
  return plan;
}

}  // namespace stweaver
