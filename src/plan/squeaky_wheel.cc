#include "plan/squeaky_wheel.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace stweaver {
namespace {

/// Moves what sticks out above `bound` one class ahead, and two where it sticks out by more than half of the
/// worst: about half as many rounds are needed then. False when nothing could move.
bool promote(const Instance& instance, const Placement& placement, Bytes bound, Classes& classes) {
  const Bytes worst = peak_of(instance, placement) - bound;
  bool promoted = false;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const Item& item = instance.items[i];
    const Bytes excess = placement[i] + item.size + item.above - bound;
    if (excess <= 0 || classes[i] == 0) continue;
    classes[i] = std::max(0, classes[i] - (excess > worst / 2 ? 2 : 1));
    promoted = true;
  }
  return promoted;
}

}  // namespace

SqueakyWheel::SqueakyWheel(const Instance& instance, std::shared_ptr<const BirthOrder> order, Classes classes,
                           const Sweep& options, Bytes bound, Placement fixed)
    : instance_(instance),
      order_(std::move(order)),
      classes_(std::move(classes)),
      options_(options),
      bound_(bound),
      fixed_(std::move(fixed)) {}

std::optional<Placement> SqueakyWheel::step(const Budget& budget) {
  if (exhausted_) return std::nullopt;
  // The peak is no limit here: the whole placement is needed to see what sticks out.
  const Budget own{.deadline = budget.deadline, .stop = budget.stop};
  std::optional<Placement> placement =
      fixed_.empty() ? class_sweep(instance_, *order_, classes_, options_, own)
                     : class_sweep_around(instance_, fixed_, *order_, classes_, options_, own);
  exhausted_ = !placement || !promote(instance_, *placement, bound_, classes_);
  return placement;
}

}  // namespace stweaver
