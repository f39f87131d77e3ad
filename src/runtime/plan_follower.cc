#include "runtime/plan_follower.h"

#include <algorithm>

namespace stweaver {

/// How long a slot's request lives, in requests; 0 where there is no step.
Time PlanFollower::life_of(std::size_t number) const {
  if (number >= plan().slots.size()) number = plan().prologue;  // the step begins again
  if (number >= plan().slots.size()) return 0;
  const Time death = plan().slots[number].death;
  return death == kForever ? kForever : death - static_cast<Time>(number);
}

Advice PlanFollower::advise(const AllocParams& asked) {
  const std::optional<Match> match = matcher_.match(asked.stream, asked.handle, asked.size, asked.pool);
  if (asked.pool != 0) return {.why = Unplanned::kPool};  // but it had its turn among the slots
  if (!match || match->guess) {
    // A guess tells at least how long such a request lives. One that the plan does not know may be the next
    // slot's after all, of another size.
    const Time life =
        match ? life_of(match->slot) : std::max(policy_->unknown_life, life_of(std::size_t{slot_} + 1));
    const bool too_large = asked.rounded > plan().arena;
    return {.why = too_large ? Unplanned::kTooLarge : Unplanned::kUnknown, .life = life};
  }
  slot_ = match->slot;
  const Slot& slot = plan().slots[slot_];
  const Time life = life_of(slot_);
  if (slot.offset == kUnplanned) return {.why = Unplanned::kDynamic, .life = life};
  if (asked.rounded > slot.size) return {.why = Unplanned::kTooLarge, .life = life};
  const Bytes begin = base_ + slot.offset;
  return {.place = Interval{begin, begin + asked.rounded},
          .hands_over = index().hands_over(slot_),
          .why = Unplanned::kOccupied,
          .life = life};
}

const std::vector<Interval>& PlanFollower::used_within(Time life) {
  used_.clear();
  index().use().between(slot_, life == kForever ? kForever : static_cast<Time>(slot_) + life, used_);
  for (Interval& range : used_) range = {range.lower + base_, range.upper + base_};
  return used_;
}

}  // namespace stweaver
