// What a plan's slots say, the slow and obvious way: a second opinion on the checker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "plan/static_plan.h"

namespace stweaver {

/// Compares pair by pair, over the prologue and three steps.
inline bool naive_clean(const Plan& plan) {
  struct Rectangle {
    Lifespan life;
    Bytes offset;
    Bytes size;
    Stream stream;
  };
  std::vector<Rectangle> all;
  const std::size_t length = plan.slots.size() - plan.prologue;
  for (std::size_t round = 0; round < 3; ++round) {
    for (std::size_t i = round == 0 ? 0 : plan.prologue; i < plan.slots.size(); ++i) {
      const Slot& slot = plan.slots[i];
      if (slot.offset == kUnplanned) continue;
      if (slot.offset < 0 || slot.offset + slot.size > plan.arena) return false;
      const auto shift = static_cast<Time>(round * length);
      const Time death = slot.death == kForever ? kForever : slot.death + shift;
      all.push_back({{static_cast<Time>(i) + shift, death}, slot.offset, slot.size, slot.stream});
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Rectangle& a = all[i];
      const Rectangle& b = all[j];
      if (a.offset >= b.offset + b.size || b.offset >= a.offset + a.size) continue;
      if (overlaps(a.life, b.life)) return false;
      const Time between =
          a.life.lower < b.life.lower ? b.life.lower - a.life.upper : a.life.lower - b.life.upper;
      if (a.stream != b.stream && between < plan.stream_gap) return false;
    }
  }
  return true;
}

}  // namespace stweaver
