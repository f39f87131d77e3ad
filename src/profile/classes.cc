#include "profile/classes.h"

#include <algorithm>
#include <cstddef>

namespace stweaver {
namespace {

/// True when a whole step passes while the request lives.
bool outlives_a_step(const Lifespan& life, const std::vector<Lifespan>& steps) {
  const auto next = std::lower_bound(steps.begin(), steps.end(), life.lower,
                                     [](const Lifespan& step, Time time) { return step.lower < time; });
  return next != steps.end() && next->upper <= life.upper;
}

}  // namespace

std::vector<LifeClass> classify(const Trace& trace, const Steps& steps, const Phases& phases) {
  std::vector<LifeClass> classes;
  classes.reserve(trace.requests.size());
  for (const Request& request : trace.requests) {
    const Lifespan& life = request.life;
    if (life.upper == kForever || outlives_a_step(life, steps.spans)) {
      classes.push_back(LifeClass::kPersistent);
    } else if (phase_at(phases, life.lower) != phase_at(phases, life.upper - 1)) {
      classes.push_back(LifeClass::kScoped);
    } else {
      classes.push_back(LifeClass::kTransient);
    }
  }
  return classes;
}

}  // namespace stweaver
