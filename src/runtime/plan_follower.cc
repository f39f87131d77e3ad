#include "runtime/plan_follower.h"

#include <algorithm>

namespace stweaver {

bool PlanFollower::fit_lengths() {
  const std::vector<double> before = shares_;
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    if (is_proven_ && longest_[i] > 0) shares_[i] = std::min(shares_[i], longest_[i]);
  }
  if (shares_ == before) return false;
  raised_.emplace(plan(), shares_);
  return true;
}

/// A slot of varying size has got a request that is so large a share of it, and that tells the length of the
/// step. If that is longer than all before, the others are going to be too small by the same share.
void PlanFollower::note_length(std::size_t slot, double share) {
  const std::size_t length = plan().slots[slot].length;
  longest_[length] = std::max(longest_[length], share);
  if (share <= shares_[length]) return;
  shares_[length] = share;
  raised_.emplace(plan(), shares_);
}

/// How long a slot's request lives, in requests; 0 where there is no step.
Time PlanFollower::life_of(std::size_t number) const {
  if (number >= plan().slots.size()) number = plan().prologue;  // the step begins again
  if (number >= plan().slots.size()) return 0;
  const Time death = plan().slots[number].death;
  return death == kForever ? kForever : death - static_cast<Time>(number);
}

Advice PlanFollower::advise(const AllocParams& asked) {
  const std::optional<Match> match =
      matcher_.match(asked.stream, asked.handle, asked.size, asked.pool, asked.alive);
  if (asked.pool != 0) return {.why = Unplanned::kPool};  // but it had its turn among the slots
  if (!match || match->guess) {
    // A guess tells how long such a request lives. But it may be the next slot's after all, of another size;
    // if not, the stream is soon seen to do something else. Where no size varies it may stay for good.
    const Time lost = plan().shape == StepShape::kVarying ? static_cast<Time>(policy_->lost) : kForever;
    const Time life = std::max(match ? life_of(match->slot) : lost, life_of(slot_ + 1));
    const bool too_large = asked.rounded > layout().arena();
    return {.why = too_large ? Unplanned::kTooLarge : Unplanned::kUnknown, .life = life};
  }
  slot_ = match->slot;
  const Slot& slot = plan().slots[slot_];
  const Time life = life_of(slot_);
  if (slot.offset == kUnplanned) {
    const Interval& gap = index().gap_of(slot_);
    if (asked.rounded > gap.length()) return {.why = Unplanned::kDynamic, .life = life};
    return {
        .place = Interval{gap.lower, gap.lower + asked.rounded}, .why = Unplanned::kOccupied, .life = life};
  }
  if (match->tells_length && plan().shape == StepShape::kVarying && matcher_.knows(asked.stream))
    note_length(slot_, static_cast<double>(asked.rounded) / static_cast<double>(slot.size));
  if (asked.rounded > layout().size_of(slot_)) return {.why = Unplanned::kTooLarge, .life = life};
  const Interval& place = layout().place_of(slot_);
  if (place.empty() || base_ + place.upper > end_) return {.why = Unplanned::kOccupied, .life = life};
  const Bytes begin = base_ + place.lower;
  return {.place = Interval{begin, begin + asked.rounded},
          .hands_over = layout().hands_over(slot_),
          .why = Unplanned::kOccupied,
          .life = life};
}

const std::vector<Interval>& PlanFollower::used_within(Time life) {
  used_.clear();
  layout().used_between(slot_, life == kForever ? kForever : static_cast<Time>(slot_) + life, used_);
  for (Interval& range : used_) range = {range.lower + base_, range.upper + base_};
  return used_;
}

}  // namespace stweaver
