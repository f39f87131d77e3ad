#include "session/out_of_memory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace stweaver {
namespace {

constexpr std::size_t kGroupsShown = 5;
/// CUDA itself and its libraries hold less, as a rule.
constexpr Bytes kLibraries = 3 * kGiB;

/// The largest piece of the arena's memory that is in no block.
Bytes largest_gap(const RuntimeAllocator& allocator) {
  const auto [blocks, extents] = allocator.contents();
  Bytes largest = 0;
  std::uintptr_t at = 0;   // where the gap that is looked at begins
  std::uintptr_t end = 0;  // of the memory seen so far
  const auto close = [&](std::uintptr_t upper) {
    if (upper > at) largest = std::max(largest, static_cast<Bytes>(upper - at));
  };
  auto block = blocks.begin();
  for (const auto& [begin, size] : extents) {
    if (begin != end) {
      close(end);
      at = std::max(begin, at);
    }
    end = begin + static_cast<std::uintptr_t>(size);
    for (; block != blocks.end() && block->first < end; ++block) {
      close(block->first);
      at = block->first + static_cast<std::uintptr_t>(align_up(block->second, kAlignment));
    }
  }
  close(end);
  return largest;
}

/// The blocks that live.
struct Alive {
  Bytes kept = 0;  ///< since before the step
  Bytes made = 0;  ///< in it
  std::vector<std::pair<Bytes, std::int64_t>>
      groups;  ///< size and number of blocks, those of most bytes first
};

Alive alive_in(const RuntimeAllocator& allocator) {
  Alive alive;
  std::map<Bytes, std::int64_t> count;
  for (const RuntimeAllocator::Living& block : allocator.living()) {
    (block.outlived_step ? alive.kept : alive.made) += block.size;
    ++count[block.size];
  }
  alive.groups.assign(count.begin(), count.end());
  std::ranges::stable_sort(alive.groups, std::greater<>(),
                           [](const auto& group) { return group.first * group.second; });
  return alive;
}

Bytes held_by_others(const RuntimeStatistics& now, const Shortage& shortage) {
  if (!shortage.sees_others) return 0;
  return std::max<Bytes>(shortage.device.total - shortage.device.free - now.reserved(), 0);
}

Bytes idle_in_fallback(const RuntimeStatistics& now) {
  return std::max<Bytes>(now.fallback_reserved - now.fallback, 0);
}

std::string request_line(const RuntimeStatistics& now, const Shortage& shortage) {
  const std::string why = shortage.why_no_plan.empty() ? "" : ": " + shortage.why_no_plan;
  const std::string free =
      shortage.sees_others ? text(", ", in_units(shortage.device.free), " of it free") : "";
  return text("STWeaver: asked for ", in_units(shortage.size), " in step ", now.steps, " (", shortage.stage,
              why, "); the device has ", in_units(shortage.device.total), free, ".");
}

std::string held_line(const RuntimeStatistics& now, const Shortage& shortage) {
  const Bytes others = held_by_others(now, shortage);
  return text(
      "Held: ", in_units(now.arena), " by STWeaver's arena, ",
      in_units(now.planned + now.reused + now.unplanned), " of it in use; ", in_units(now.fallback_reserved),
      " by PyTorch's own allocator, ", in_units(now.fallback), " of it in use",
      others > 0 ? text("; ", in_units(others), " by others (CUDA, its libraries, other processes)") : "",
      ".");
}

std::string idle_line(const RuntimeAllocator& allocator, const RuntimeStatistics& now) {
  std::string line;
  const auto add = [&](Bytes size, const std::string& why) {
    if (size > 0) line += text(line.empty() ? "" : "; ", in_units(size), " ", why);
  };
  add(now.idle(), text("between blocks that live, so it cannot be given back, at most ",
                       in_units(largest_gap(allocator)), " in one piece"));
  add(now.waiting, "in freed blocks that other streams still use");
  add(idle_in_fallback(now), "in PyTorch's own allocator, which serves CUDA graphs and MemPools");
  return text("Idle: ", line.empty() ? "nothing" : line, ".");
}

std::string alive_line(const Alive& alive, bool is_first_step) {
  std::string line = is_first_step ? text("Alive: ", in_units(alive.made))
                                   : text("Alive: ", in_units(alive.kept), " from before this step, ",
                                          in_units(alive.made), " from this step");
  Bytes rest = alive.kept + alive.made;
  std::int64_t others = 0;
  for (std::size_t i = 0; i < alive.groups.size(); ++i) {
    const auto& [size, count] = alive.groups[i];
    if (i >= kGroupsShown) {
      others += count;
      continue;
    }
    line += text(i == 0 ? "; most of it in blocks of " : ", ", in_units(size), " (", count, ")");
    rest -= size * count;
  }
  if (others > 0) line += text(", and ", others, " others with ", in_units(rest));
  return line + ".";
}

/// The one thing to change.
std::string remedy(const RuntimeStatistics& now, const Shortage& shortage, const Alive& alive) {
  const Bytes missing = std::max<Bytes>(shortage.size - shortage.device.free, 0);
  const Bytes others = held_by_others(now, shortage);
  if (shortage.size > shortage.device.total)
    return "the request alone is larger than the device: look at the shapes in the line that asked";
  if (shortage.allowed < shortage.device.total && missing == 0)
    return text("this process may hold no more than ", in_units(shortage.allowed),
                ": raise torch.cuda.set_per_process_memory_fraction()");
  if (missing > 0 && now.idle() + idle_in_fallback(now) >= missing) {
    if (idle_in_fallback(now) > now.idle())
      return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, for PyTorch's own allocator wastes most";
    if (shortage.why_no_plan.empty() && now.plans == 0)
      return "a plan from the first request on: record a run that ends (stweaver.record), plan it "
             "(stweaver.plan), then stweaver.install";
  }
  if (others > kLibraries && others > missing)
    return "leave the device to this job: most of what is missing is held by others";
  if (alive.kept > alive.made)
    return "shard or offload what lives from step to step, weights, gradients and optimizer state (FSDP, "
           "ZeRO)";
  return "recompute activations (torch.utils.checkpoint) or take a smaller micro-batch";
}

}  // namespace

std::string explain(const RuntimeAllocator& allocator, const Shortage& shortage) {
  const RuntimeStatistics now = allocator.statistics();
  const Alive alive = alive_in(allocator);
  return text(request_line(now, shortage), "\n  ", held_line(now, shortage), "\n  ",
              idle_line(allocator, now), "\n  ", alive_line(alive, now.steps == 0),
              "\n  What would help: ", remedy(now, shortage, alive), ".");
}

}  // namespace stweaver
