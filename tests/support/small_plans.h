// Plans of a few slots, and what a played job missed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/runtime.h"
#include "support/play.h"

namespace stweaver {

inline std::shared_ptr<const PlanIndex> index_of(Plan plan) {
  return std::make_shared<PlanIndex>(std::move(plan));
}

/// A plan of one slot for the whole arena, on one stream, and no step.
inline std::shared_ptr<const PlanIndex> roomy_plan(Bytes arena) {
  Plan plan;
  plan.arena = arena;
  plan.prologue = 1;
  plan.slots = {{.size = arena, .offset = 0, .stream = 0, .death = 1}};
  return index_of(std::move(plan));
}

/// A step of slots side by side, all of the step alive at once, and behind them bytes that no slot uses.
inline std::shared_ptr<const PlanIndex> plan_of(const std::vector<Bytes>& sizes, Bytes spare = 0) {
  Plan plan;
  for (const Bytes size : sizes) {
    plan.slots.push_back(
        {.size = size, .offset = plan.arena, .stream = 0, .death = static_cast<Time>(sizes.size())});
    plan.arena += size;
  }
  plan.arena += spare;
  return index_of(std::move(plan));
}

inline std::byte* bytes(void* memory) {
  return static_cast<std::byte*>(memory);
}

/// Of the prologue, then of each step.
inline std::vector<std::int64_t> misses_of(const Played& played) {
  std::vector<std::int64_t> misses;
  for (const Served& served : played.served) misses.push_back(served.beside_plan());
  return misses;
}

}  // namespace stweaver
