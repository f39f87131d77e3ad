// What a run-time allocator has done and holds.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "arena/memory.h"
#include "base/base.h"
#include "runtime/plan_follower.h"

namespace stweaver {

constexpr std::string_view name_of(Unplanned reason) {
  constexpr std::array<std::string_view, kUnplannedReasons> kNames = {"no_plan", "pool",      "unknown",
                                                                      "dynamic", "too_large", "occupied"};
  return kNames[static_cast<std::size_t>(reason)];
}

/// Requests by what became of them.
struct Served {
  std::int64_t planned = 0;                                    ///< at the place that the plan has for them
  std::int64_t reused = 0;                                     ///< in the plan's range, where it was idle
  std::array<std::int64_t, kUnplannedReasons> unplanned = {};  ///< elsewhere, by reason

  [[nodiscard]] std::int64_t in_plan() const { return planned + reused; }
  [[nodiscard]] std::int64_t beside_plan() const {
    return std::accumulate(unplanned.begin(), unplanned.end(), std::int64_t{0});
  }
  [[nodiscard]] std::int64_t all() const { return in_plan() + beside_plan(); }
  friend Served operator-(Served all, const Served& before) {
    all.planned -= before.planned;
    all.reused -= before.reused;
    for (std::size_t i = 0; i < kUnplannedReasons; ++i) all.unplanned[i] -= before.unplanned[i];
    return all;
  }
};

/// High-water marks, in bytes.
struct Peaks {
  Bytes requested = 0;          ///< asked for in living blocks, arena and fallback
  Bytes reserved = 0;           ///< arena and fallback
  Bytes arena = 0;              ///< behind the arena
  Bytes fallback_reserved = 0;  ///< held by the fallback
};

struct StepStatistics {
  Served served;
  Peaks peaks;
  Bytes unplanned_bytes = 0;  ///< asked for by requests that neither the plan served nor left to the run time
  std::int64_t driver_calls = 0;  ///< to map and to unmap
  std::int64_t nanoseconds = 0;   ///< spent in the allocator; of calls without the driver one in 64 is timed
};

struct RuntimeStatistics {
  Served served;
  Peaks peaks;
  Bytes requested = 0;           ///< asked for in living blocks: the next four together
  Bytes planned = 0;             ///< of it, at planned places
  Bytes reused = 0;              ///< of it, elsewhere in the plan's range
  Bytes unplanned = 0;           ///< of it, elsewhere in the arena
  Bytes fallback = 0;            ///< of it, from the fallback
  Bytes allocated = 0;           ///< in the arena, after rounding, with what other streams still use
  Bytes waiting = 0;             ///< of it, what other streams still use of freed blocks
  Bytes arena = 0;               ///< memory behind the arena
  Bytes planned_arena = 0;       ///< size of the range of the plan that is followed
  Bytes excess = 0;              ///< the most behind the arena beyond its budget in a step without a plan
  Bytes fallback_reserved = 0;   ///< held by the fallback
  std::int64_t blocks = 0;       ///< living
  std::int64_t steps = 0;        ///< begun
  std::int64_t plans = 0;        ///< adopted
  std::int64_t waits = 0;        ///< of one stream for another, for memory that changed hands
  std::int64_t events = 0;       ///< recorded for that
  std::int64_t reclaims = 0;     ///< times the arena gave idle memory to a fallback that had none left
  std::int64_t refusals = 0;     ///< times the device had no memory for the arena
  std::int64_t ooms = 0;         ///< requests that failed
  std::int64_t nanoseconds = 0;  ///< spent in the allocator, as in StepStatistics
  MappingStatistics mapping;     ///< behind the arena
  StepStatistics step;           ///< since the last step boundary
  StepStatistics last_step;      ///< the step before

  [[nodiscard]] Bytes reserved() const { return arena + fallback_reserved; }
  [[nodiscard]] Bytes idle() const { return arena - allocated; }  ///< behind the arena and in no use
};

}  // namespace stweaver
