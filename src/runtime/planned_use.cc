#include "runtime/planned_use.h"

#include <algorithm>
#include <bit>

namespace stweaver {
namespace {

/// Sorts ranges and joins those that touch.
void merge(std::vector<Interval>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Interval& a, const Interval& b) { return a.lower < b.lower; });
  std::size_t kept = 0;
  for (const Interval& range : ranges) {
    if (kept > 0 && range.lower <= ranges[kept - 1].upper) {
      ranges[kept - 1].upper = std::max(ranges[kept - 1].upper, range.upper);
    } else {
      ranges[kept++] = range;
    }
  }
  ranges.resize(kept);
}

}  // namespace

PlannedUse::PlannedUse(const Plan& plan) : plan_(&plan) {
  leaves_ = std::bit_ceil(std::max<std::size_t>((plan.slots.size() + kLeaf - 1) / kLeaf, 1));
  nodes_.resize(2 * leaves_);
  for (std::size_t leaf = 0; leaf * kLeaf < plan.slots.size(); ++leaf) {
    std::vector<Interval>& ranges = nodes_[leaves_ + leaf];
    add_slots(leaf * kLeaf, std::min((leaf + 1) * kLeaf, plan.slots.size()), ranges);
    merge(ranges);
  }
  for (std::size_t node = leaves_ - 1; node > 0; --node) {
    std::vector<Interval>& ranges = nodes_[node];
    ranges = nodes_[2 * node];
    ranges.insert(ranges.end(), nodes_[2 * node + 1].begin(), nodes_[2 * node + 1].end());
    merge(ranges);
  }
}

void PlannedUse::between(std::size_t slot, Time death, std::vector<Interval>& ranges) const {
  ranges.clear();
  const std::size_t end = plan_->slots.size();
  const std::size_t step = end - plan_->prologue;
  // A whole step holds all that will ever be used again.
  const Time until = std::min<Time>(death, static_cast<Time>(std::max(slot + 1, plan_->prologue) + step));
  const auto last = static_cast<std::size_t>(std::max<Time>(until, static_cast<Time>(slot) + 1));
  add_nodes(slot + 1, std::min(last, end), ranges);
  if (last > end) add_nodes(plan_->prologue, plan_->prologue + std::min(last - end, step), ranges);
  merge(ranges);
}

void PlannedUse::add_slots(std::size_t begin, std::size_t end, std::vector<Interval>& ranges) const {
  for (std::size_t i = begin; i < end; ++i) {
    const Slot& slot = plan_->slots[i];
    if (slot.offset != kUnplanned) ranges.push_back({slot.offset, slot.offset + slot.size});
  }
}

/// The slots [begin, end): those of whole leaves from the tree, the rest one by one.
void PlannedUse::add_nodes(std::size_t begin, std::size_t end, std::vector<Interval>& ranges) const {
  const std::size_t first = (begin + kLeaf - 1) / kLeaf;
  const std::size_t last = end / kLeaf;
  if (first >= last) return add_slots(begin, end, ranges);
  add_slots(begin, first * kLeaf, ranges);
  add_slots(last * kLeaf, end, ranges);
  const auto add = [&](std::size_t node) {
    ranges.insert(ranges.end(), nodes_[node].begin(), nodes_[node].end());
  };
  std::size_t lower = first + leaves_;
  std::size_t upper = last + leaves_;
  for (; lower < upper; lower /= 2, upper /= 2) {
    if (lower % 2 == 1) add(lower++);
    if (upper % 2 == 1) add(--upper);
  }
}

}  // namespace stweaver
