// A job served by a real allocator on the memory of a device: what `replay` and `compare` show.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/model.h"
#include "runtime/plan_index.h"
#include "runtime/policy.h"
#include "runtime/statistics.h"
#include "simulate/replay.h"
#include "simulate/settings.h"

namespace stweaver {

enum class AllocatorKind : std::uint8_t {
  kStweaver,    ///< the Runtime Allocator, with PyTorch's default as its fallback
  kNative,      ///< PyTorch's default
  kExpandable,  ///< PyTorch's expandable segments
};
inline constexpr std::size_t kAllocatorKinds = 3;

std::string_view name_of(AllocatorKind kind);

struct ServeOptions {
  AllocatorKind allocator = AllocatorKind::kStweaver;
  /// STWeaver's, from the first request on; none: it begins without.
  std::shared_ptr<const PlanIndex> plan = {};
  /// STWeaver records, plans, adopts and follows as in a live job (LifeCycle). A replay's steps take no time,
  /// a real job's take longer than planning: so each plan is ready at the next step boundary. Without steps
  /// in `replay` they are looked for, as where nobody marks them.
  bool online = false;
  /// Requests that no plan has a place for are served in the arena, and not by PyTorch's default:
  /// RuntimeAllocator::place_unplanned().
  bool place_unplanned = true;
  Bytes hold = 0;  ///< of the device's memory, before any is moved: RuntimeAllocator::hold()
  /// Online, plans are made and followed; false: the job goes on without.
  bool plans = true;
  Policy policy = {};
  ReplayOptions replay = {};
};

/// What a life cycle cost and came to.
struct LifeStory {
  Bytes before_plan = 0;          ///< reserved at most before the first plan was adopted
  std::int64_t steady_steps = 0;  ///< begun since the last plan was adopted, of those that somebody marks
  Peaks steady;                   ///< in them
};

/// What became of a job.
struct Serving {
  AllocatorKind allocator = AllocatorKind::kStweaver;
  std::string device;
  double plan_seconds = 0;  ///< spent on the plans; whoever gave a plan knows of that one
  ReplayResult replay;
  RuntimeStatistics statistics;    ///< for PyTorch's allocators: all is served by the fallback
  std::optional<LifeStory> story;  ///< of the life cycle
  std::vector<std::string> log;    ///< what STWeaver said of its plans, line by line
};

/// PyTorch's allocator as the trace had it, with or without expandable segments. The defaults where its
/// settings are none of PyTorch's own allocator. A share of the device's memory is left out: its size is not
/// known.
AllocatorSettings settings_of(const Trace& trace, AllocatorKind kind);
/// The same as text, as PyTorch would have been given it.
std::string settings_text_of(const Trace& trace, AllocatorKind kind);

/// Serves a trace with a fresh allocator on `device`. Without memory for the plan's arena it goes on without
/// the plan (statistics.plans says so), as a job would. Errors as of the device and the allocators.
Serving serve(const Trace& trace, Device& device, const ServeOptions& options);

}  // namespace stweaver
