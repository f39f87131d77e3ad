// Frames: what lives long, placed before all else.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "plan/class_sweep.h"

namespace stweaver {

/// Returns the next frame, or nothing when there are no more: an offset for each item of class 0 that has
/// room in it, kNowhere for all others.
using NextFrame = std::function<std::optional<Placement>()>;

/// All items of class 0, and who of them takes turns. Items of one turn are born without a death in between
/// and die without a birth in between: what a micro-batch keeps. In whatever order they lie, they take the
/// same bytes.
struct Turns {
  std::vector<ItemId> items;         ///< in order of death
  std::vector<std::size_t> births;   ///< indices into `items`, in order of birth
  std::vector<std::size_t> numbers;  ///< the turn of each of `items`; ascending from 0
};

/// O(n log n).
Turns turns_of(const Instance& instance, const Classes& classes);

/// How much of `capacity` all of them may use: what must stay free above any of them is taken off.
Bytes capacity_below(const Instance& instance, const Turns& turns, Bytes capacity);

/// How many of the addresses may stay out of a frame, for short-lived items: sums of those that live at the
/// fullest moment, ascending from 0; some of them where there are many. `loads` are the instance's.
std::vector<Bytes> commons_of(const Instance& instance, const Classes& classes,
                              const std::vector<LoadSince>& loads);

/// Takes the offset away from items of `turns` that would lie where another still lives. O(n log n).
void remove_misfits(const Instance& instance, const Turns& turns, Placement& placement);

}  // namespace stweaver
