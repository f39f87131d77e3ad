#include "plan/static_plan.h"

#include <algorithm>

#include "base/base.h"

namespace stweaver {

std::string_view name_of(StepShape shape) {
  switch (shape) {
    case StepShape::kFixed:
      return "fixed";
    case StepShape::kVarying:
      return "varying";
    case StepShape::kDynamic:
      return "dynamic";
  }
  return "";
}

std::size_t planned_slots(const Plan& plan) {
  const auto in_arena =
      std::ranges::count_if(plan.slots, [](const Slot& slot) { return slot.offset != kUnplanned; });
  return static_cast<std::size_t>(in_arena) + plan.in_gaps.size();
}

bool takes_too_much(const Plan& plan, Bytes slack, Bytes beside, Bytes excess) {
  return plan.arena + beside - plan.lower_bound > slack + std::max(slack, excess);
}

Bytes planned_bytes(const Plan& plan) {
  Gaps used;
  for (const GapPlace& gap : plan.in_gaps) used.push_back(gap.place);
  join(used);
  Bytes bytes = plan.arena;
  for (const Interval& gap : used) bytes += gap.length();
  return bytes;
}

std::vector<LivingSlots> living_at_births(const Plan& plan) {
  const std::size_t count = plan.slots.size();
  const std::size_t step = count - plan.prologue;
  // Changes, to begin with.
  std::vector<LivingSlots> living(count + step + 1);
  const auto add = [&](std::size_t birth, Time death, Bytes size) {
    living[birth] = {living[birth].count + 1, living[birth].bytes + size};
    if (death >= static_cast<Time>(living.size())) return;
    LivingSlots& last = living[static_cast<std::size_t>(death)];
    last = {last.count - 1, last.bytes - size};
  };
  for (std::size_t i = 0; i < count; ++i) {
    const Slot& slot = plan.slots[i];
    add(i, slot.death, slot.size);
    const bool comes_again = i >= plan.prologue && slot.death != kForever;
    if (comes_again) add(i + step, slot.death + static_cast<Time>(step), slot.size);
  }
  for (std::size_t i = 1; i < living.size(); ++i)
    living[i] = {living[i - 1].count + living[i].count, living[i - 1].bytes + living[i].bytes};
  living.pop_back();
  return living;
}

std::uint64_t fingerprint_of(const Trace& trace) {
  std::uint64_t hash = mix_hash(1, static_cast<std::uint64_t>(trace.end));
  for (const Request& request : trace.requests) {
    for (const std::uint64_t value :
         {static_cast<std::uint64_t>(request.size), request.stream,
          static_cast<std::uint64_t>(request.life.lower), static_cast<std::uint64_t>(request.life.upper)}) {
      hash = mix_hash(hash, value);
    }
  }
  return hash;
}

}  // namespace stweaver
