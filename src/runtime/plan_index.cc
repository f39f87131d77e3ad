#include "runtime/plan_index.h"

#include <algorithm>
#include <map>
#include <utility>

namespace stweaver {
namespace {

/// Ranges that do not touch, by lower end.
class RangeSet {
 public:
  void add(Interval range) {
    auto at = ranges_.upper_bound(range.lower);
    if (at != ranges_.begin() && std::prev(at)->second >= range.lower) --at;
    while (at != ranges_.end() && at->first <= range.upper) {
      range.lower = std::min(range.lower, at->first);
      range.upper = std::max(range.upper, at->second);
      at = ranges_.erase(at);
    }
    ranges_.emplace(range.lower, range.upper);
  }

  [[nodiscard]] bool overlaps(const Interval& range) const {
    const auto after = ranges_.lower_bound(range.upper);
    return after != ranges_.begin() && std::prev(after)->second > range.lower;
  }

 private:
  std::map<Bytes, Bytes> ranges_;
};

/// How far apart slots of one dynamic group may lie.
constexpr std::size_t kNeighbours = 8;

/// A plan whose steps differ may need this share more than was asked for at any time: free form needs less.
constexpr Bytes kMuchMore = 64;

Likeness likeness_of(const Slot& slot) {
  if (!slot.varying) return Likeness::kSize;
  return slot.offset == kUnplanned ? Likeness::kOrder : Likeness::kShare;
}

}  // namespace

PlanIndex::PlanIndex(Plan plan)
    : plan_(std::move(plan)), use_(plan_, true), hands_over_(plan_.slots.size(), false) {
  if (plan_.alignment % kAlignment != 0) {
    fail("a plan with an alignment of ", plan_.alignment, " bytes cannot be followed: make one with ",
         kAlignment);
  }
  const bool has_rooms = std::any_of(plan_.slots.begin(), plan_.slots.end(),
                                     [](const Slot& slot) { return !slot.room.empty(); });
  if (has_rooms) use_of_slots_.emplace(plan_, false);
  sort_by_stream();
  for (PlannedStream& stream : streams_) {
    find_chance_sizes(stream);
    find_anchors(stream);
  }
  find_hand_overs();
  count_alive();
  varies_ =
      std::any_of(plan_.slots.begin(), plan_.slots.end(), [](const Slot& slot) { return slot.varying; });
}

std::string PlanIndex::objection() const {
  const bool places_any = std::any_of(plan_.slots.begin(), plan_.slots.end(), [](const Slot& slot) {
    return slot.offset != kUnplanned || !slot.room.empty();
  });
  if (!places_any) return "it has a place for none of the requests";
  const Bytes more = plan_.arena - plan_.requested;
  if (varies_ && plan_.requested > 0 && more > plan_.requested / kMuchMore) {
    return text("it needs ", in_gib(plan_.arena), ", but no more than ", in_gib(plan_.requested),
                " was ever asked for");
  }
  return {};
}

void PlanIndex::sort_by_stream() {
  std::map<Stream, std::size_t> number;
  for (std::uint32_t i = 0; i < plan_.slots.size(); ++i) {
    const Slot& slot = plan_.slots[i];
    const auto [found, is_new] = number.emplace(slot.stream, streams_.size());
    if (is_new) streams_.push_back({.stream = slot.stream, .entries = {}, .anchors = {}});
    PlannedStream& stream = streams_[found->second];
    if (i < plan_.prologue) ++stream.prologue;
    stream.entries.push_back(
        {.size = slot.size, .slot = i, .likeness = likeness_of(slot), .planned = slot.offset != kUnplanned});
  }
}

void PlanIndex::find_chance_sizes(PlannedStream& stream) {
  std::vector<Entry>& entries = stream.entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].likeness != Likeness::kOrder) continue;
    const std::size_t end = std::min(entries.size(), i + kNeighbours + 1);
    for (std::size_t j = i - std::min(i, kNeighbours); j < end; ++j) {
      const bool about_equal =
          entries[j].size <= 2 * entries[i].size && entries[i].size <= 2 * entries[j].size;
      if (entries[j].likeness == Likeness::kSize && about_equal) entries[j].may_vary = true;
    }
  }
}

void PlanIndex::find_anchors(PlannedStream& stream) const {
  SizeTrail trail;
  for (std::uint32_t i = 0; i < stream.entries.size(); ++i) {
    if (stream.entries[i].likeness != Likeness::kSize) {
      trail.clear();  // whose sizes cannot be told
      continue;
    }
    trail.add(stream.entries[i].size);
    if (const auto hash = trail.hash(plan_.alignment)) stream.anchors.push_back({*hash, i});
  }
  std::sort(stream.anchors.begin(), stream.anchors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.hash, a.entry) < std::pair(b.hash, b.entry);
  });
}

void PlanIndex::find_hand_overs() {
  if (streams_.size() < 2) return;
  std::map<Stream, RangeSet> used;
  const auto range_of = [](const Slot& slot) { return Interval{slot.offset, slot.offset + slot.size}; };
  for (const Slot& slot : plan_.slots) {
    if (slot.offset != kUnplanned) used[slot.stream].add(range_of(slot));
  }
  for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
    const Slot& slot = plan_.slots[i];
    hands_over_[i] =
        slot.offset != kUnplanned && std::any_of(used.begin(), used.end(), [&](const auto& other) {
          return other.first != slot.stream && other.second.overlaps(range_of(slot));
        });
  }
}

/// Over the prologue and two rounds of the step, since lives reach into the next step.
void PlanIndex::count_alive() {
  struct Alive {
    std::ptrdiff_t slots = 0;
    Bytes bytes = 0;
  };
  const std::size_t step = plan_.slots.size() - plan_.prologue;
  std::vector<Alive> change(plan_.slots.size() + step + 1);
  const auto add = [&](std::size_t birth, Time death, Bytes size) {
    ++change[birth].slots;
    change[birth].bytes += size;
    if (death >= static_cast<Time>(change.size())) return;
    --change[static_cast<std::size_t>(death)].slots;
    change[static_cast<std::size_t>(death)].bytes -= size;
  };
  for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
    const auto& [size, offset, stream, death, varying, room] = plan_.slots[i];
    add(i, death, size);
    if (i >= plan_.prologue && death != kForever) add(i + step, death + static_cast<Time>(step), size);
  }
  alive_.resize(plan_.slots.size());
  Alive alive;
  for (std::size_t i = 0; i < change.size(); ++i) {
    alive.slots += change[i].slots;
    alive.bytes += change[i].bytes;
    most_alive_ = std::max(most_alive_, static_cast<std::size_t>(alive.slots));
    const std::size_t slot = i < plan_.slots.size() ? i : i - step;
    if (slot < plan_.slots.size()) alive_[slot] = alive.bytes;
  }
  if (step > 0) alive_between_steps_ = alive_[plan_.prologue] - plan_.slots[plan_.prologue].size;
}

}  // namespace stweaver
