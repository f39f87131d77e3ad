#include "runtime/layout.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "plan/restack.h"
#include "trace/model.h"

namespace stweaver {
namespace {

/// One number of each slot.
std::vector<Bytes> of_slots(const Plan& plan, Bytes Slot::*what) {
  std::vector<Bytes> all;
  all.reserve(plan.slots.size());
  for (const Slot& slot : plan.slots) all.push_back(slot.*what);
  return all;
}

/// Whether a range overlaps one of these, which are joined.
bool overlaps_any(const std::vector<Interval>& ranges, const Interval& range) {
  const auto after = std::ranges::lower_bound(ranges, range.upper, {}, &Interval::lower);
  return after != ranges.begin() && std::prev(after)->upper > range.lower;
}

}  // namespace

Layout::Layout(const Plan& plan) : sizes_(of_slots(plan, &Slot::size)) {
  put(plan, of_slots(plan, &Slot::offset));
  arena_ = plan.arena;
}

Layout::Layout(const Plan& plan, const std::vector<double>& shares) : sizes_(sizes_at(plan, shares)) {
  put(plan, restacked(plan, sizes_));
}

void Layout::put(const Plan& plan, const std::vector<Bytes>& offsets) {
  prologue_ = plan.prologue;
  places_.reserve(plan.slots.size());
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    places_.push_back(offsets[i] == kUnplanned ? Interval{} : Interval{offsets[i], offsets[i] + sizes_[i]});
    arena_ = std::max(arena_, places_.back().upper);
  }
  build_tree();
  find_hand_overs(plan);
}

void Layout::build_tree() {
  leaves_ = std::bit_ceil(std::max<std::size_t>((places_.size() + kLeaf - 1) / kLeaf, 1));
  nodes_.resize(2 * leaves_);
  for (std::size_t leaf = 0; leaf * kLeaf < places_.size(); ++leaf) {
    std::vector<Interval>& ranges = nodes_[leaves_ + leaf];
    add_slots(leaf * kLeaf, std::min((leaf + 1) * kLeaf, places_.size()), ranges);
    join(ranges);
  }
  for (std::size_t node = leaves_ - 1; node > 0; --node) {
    std::vector<Interval>& ranges = nodes_[node];
    ranges = nodes_[2 * node];
    ranges.insert(ranges.end(), nodes_[2 * node + 1].begin(), nodes_[2 * node + 1].end());
    join(ranges);
  }
}

void Layout::find_hand_overs(const Plan& plan) {
  hands_over_.resize(places_.size(), false);
  std::map<Stream, std::vector<Interval>> used;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i].empty()) used[plan.slots[i].stream].push_back(places_[i]);
  }
  if (used.size() < 2) return;
  // More have no numbers in the run time, and to look at each of them for each slot would take for ever.
  if (used.size() > kMostStreams) return hands_over_.assign(places_.size(), true);
  for (auto& [stream, ranges] : used) join(ranges);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    hands_over_[i] = !places_[i].empty() && std::ranges::any_of(used, [&](const auto& other) {
      return other.first != plan.slots[i].stream && overlaps_any(other.second, places_[i]);
    });
  }
}

void Layout::used_between(std::size_t slot, Time death, std::vector<Interval>& ranges) const {
  ranges.clear();
  const std::size_t end = places_.size();
  const std::size_t step = end - prologue_;
  // A whole step holds all that will ever be used again.
  const Time until = std::min<Time>(death, static_cast<Time>(std::max(slot + 1, prologue_) + step));
  const auto last = static_cast<std::size_t>(std::max<Time>(until, static_cast<Time>(slot) + 1));
  add_nodes(slot + 1, std::min(last, end), ranges);
  if (last > end) add_nodes(prologue_, prologue_ + std::min(last - end, step), ranges);
  join(ranges);
}

void Layout::add_slots(std::size_t begin, std::size_t end, std::vector<Interval>& ranges) const {
  for (std::size_t i = begin; i < end; ++i) {
    if (!places_[i].empty()) ranges.push_back(places_[i]);
  }
}

/// The slots [begin, end): those of whole leaves from the tree, the rest one by one.
void Layout::add_nodes(std::size_t begin, std::size_t end, std::vector<Interval>& ranges) const {
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
