// What a run-time allocator has done and holds.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "base/base.h"
#include "runtime/arena.h"

namespace stweaver {

/// Why a request was served by no plan: by the fallback, or by the arena where no plan governs.
enum class Miss : std::uint8_t {
  kNoPlan,    ///< there is none to follow
  kPool,      ///< it belongs to a CUDA graph or a MemPool
  kUnknown,   ///< no slot is like it
  kDynamic,   ///< its slot has no place: the plan leaves it to the run time
  kTooLarge,  ///< larger than its slot, or in a step that has outgrown the plan
  kOccupied,  ///< somebody still lives in its slot, or another stream cannot be waited for
};
inline constexpr std::size_t kMissReasons = 6;

constexpr std::string_view name_of(Miss reason) {
  constexpr std::array<std::string_view, kMissReasons> kNames = {"no_plan", "pool",      "unknown",
                                                                 "dynamic", "too_large", "occupied"};
  return kNames[static_cast<std::size_t>(reason)];
}

/// Requests by what became of them.
struct Served {
  std::int64_t planned = 0;                            ///< at the place that the plan has for them
  std::int64_t reused = 0;                             ///< in the plan's range, where it was idle
  std::array<std::int64_t, kMissReasons> missed = {};  ///< by no plan

  [[nodiscard]] std::int64_t hits() const { return planned + reused; }
  [[nodiscard]] std::int64_t misses() const {
    return std::accumulate(missed.begin(), missed.end(), std::int64_t{0});
  }
};

/// High-water marks, in bytes.
struct Peaks {
  Bytes requested = 0;          ///< asked for in living blocks, arena and fallback
  Bytes reserved = 0;           ///< arena and fallback
  Bytes fallback_reserved = 0;  ///< held by the fallback
};

struct StepStatistics {
  Served served;
  Peaks peaks;
};

struct RuntimeStatistics {
  Served served;
  Peaks peaks;
  Bytes requested = 0;          ///< asked for in living blocks: the next four together
  Bytes planned = 0;            ///< of it, at planned places
  Bytes reused = 0;             ///< of it, elsewhere in the plan's range
  Bytes free_form = 0;          ///< of it, in the arena where no plan governs
  Bytes fallback = 0;           ///< of it, from the fallback
  Bytes missed_bytes = 0;       ///< asked for by all requests that no plan ever served
  Bytes allocated = 0;          ///< in the arena, after rounding, with what other streams still use
  Bytes arena = 0;              ///< memory behind the arena
  Bytes planned_arena = 0;      ///< what the plan that is followed needs of it
  Bytes fallback_reserved = 0;  ///< held by the fallback
  std::int64_t blocks = 0;      ///< living
  std::int64_t steps = 0;       ///< begun
  std::int64_t plans = 0;       ///< adopted
  std::int64_t waits = 0;       ///< of one stream for another, for memory that changed hands
  std::int64_t events = 0;      ///< recorded for that
  std::int64_t reclaims = 0;    ///< times the arena gave idle memory to a fallback that had none left
  std::int64_t refusals = 0;    ///< times the device had no memory for what no plan governs
  std::int64_t ooms = 0;        ///< requests that failed
  MappingStatistics mapping;    ///< behind the arena
  StepStatistics step;          ///< since the last step boundary
  StepStatistics last_step;     ///< the step before

  [[nodiscard]] Bytes reserved() const { return arena + fallback_reserved; }
};

}  // namespace stweaver
