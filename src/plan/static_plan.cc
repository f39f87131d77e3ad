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

Bytes planned_bytes(const Plan& plan) {
  Gaps used;
  for (const GapPlace& gap : plan.in_gaps) used.push_back(gap.place);
  join(used);
  Bytes bytes = plan.arena;
  for (const Interval& gap : used) bytes += gap.length();
  return bytes;
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
