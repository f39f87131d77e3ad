#include "runtime/plan_index.h"

#include <algorithm>
#include <map>
#include <utility>

namespace stweaver {

PlanIndex::PlanIndex(Plan plan)
    : plan_(std::move(plan)),
      layout_(plan_),
      planned_bytes_(stweaver::planned_bytes(plan_)),
      living_(living_at_births(plan_)) {
  if (plan_.alignment % kAlignment != 0) {
    fail("a plan with an alignment of ", plan_.alignment, " bytes cannot be followed: make one with ",
         kAlignment);
  }
  gaps_.resize(plan_.slots.size());
  for (const GapPlace& gap : plan_.in_gaps) gaps_[gap.slot] = gap.place;
  sort_by_stream();
  for (PlannedStream& stream : streams_) find_anchors(stream);
  count();
}

void PlanIndex::sort_by_stream() {
  std::map<Stream, std::size_t> number;
  for (std::uint32_t i = 0; i < plan_.slots.size(); ++i) {
    const Slot& slot = plan_.slots[i];
    const auto [found, is_new] = number.emplace(slot.stream, streams_.size());
    if (is_new) streams_.push_back({.stream = slot.stream, .entries = {}, .anchors = {}});
    PlannedStream& stream = streams_[found->second];
    if (i < plan_.prologue) ++stream.prologue;
    lengths_ = std::max<std::size_t>(lengths_, slot.length + 1U);
    stream.entries.push_back({.size = slot.size,
                              .slot = i,
                              .of_any_size = slot.varying,
                              .length = slot.length,
                              .power = slot.power,
                              .tile = slot.tile,
                              .planned = has_place(i)});
  }
}

void PlanIndex::find_anchors(PlannedStream& stream) const {
  SizeTrail trail;
  for (std::uint32_t i = 0; i < stream.entries.size(); ++i) {
    if (stream.entries[i].of_any_size) {
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

void PlanIndex::count() {
  for (std::size_t i = plan_.prologue; i < plan_.slots.size(); ++i) planned_in_step_ += has_place(i) ? 1 : 0;
  planned_in_step_ /= static_cast<std::int64_t>(plan_.steps);
  for (const LivingSlots& living : living_) most_alive_ = std::max(most_alive_, living.count);
}

}  // namespace stweaver
