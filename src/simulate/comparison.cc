#include "simulate/comparison.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "device/device.h"
#include "runtime/runtime.h"
#include "simulate/caching_upstream.h"
#include "simulate/live_allocator.h"

namespace stweaver {
namespace {

/// A job varies when more than this share of its positions do.
constexpr double kVaries = 0.01;
/// The first step is mostly prologue, so fewer than three show no repetition.
constexpr std::size_t kFewestSteps = 3;

double efficiency_of(Bytes requested, Bytes reserved) {
  return reserved == 0 ? 1 : static_cast<double>(requested) / static_cast<double>(reserved);
}

/// Error when not every request could be served: what was reserved would mean nothing.
template <Allocator A>
ReplayResult replay_whole(const Trace& trace, A& allocator, const std::vector<Time>& steps = {}) {
  ReplayResult result = replay(trace, allocator, steps);
  if (result.ooms > 0) {
    fail(trace.name, ": asks for more memory than any device has (", kAmpleCapacity / kGiB,
         " GiB), so it cannot be simulated");
  }
  return result;
}

/// Whether the trace shows what the default allocator reserved, as far as its settings can be told.
bool measures_native(const Trace& trace) {
  if (trace.reserves.empty()) return false;
  try {
    return !parse_settings(trace.settings).expandable_segments;
  } catch (const Error&) {
    return false;  // settings newer than this program
  }
}

Reserved simulate(const Trace& trace, const AllocatorSettings& settings, Bytes requested) {
  CachingAllocator allocator(settings);
  const ReplayResult result = replay_whole(trace, allocator);
  return {result.reserved_peak, efficiency_of(requested, result.reserved_peak), false};
}

bool varies(const Pattern& pattern) {
  const auto moving =
      std::count_if(pattern.positions.begin(), pattern.positions.end(),
                    [](const Position& position) { return position.kind != PositionKind::kStatic; });
  return static_cast<double>(moving) > kVaries * static_cast<double>(pattern.positions.size());
}

Woven weave(const Trace& trace, const Profile& profile, const SynthesizeOptions& options, Bytes requested) {
  const Trace part = planning_part(trace, profile);
  const Profile known = profile_of(part);
  const Synthesis synthesis = synthesize(part, known, options);

  std::vector<Time> steps;
  for (const Lifespan& step : profile.steps.spans) steps.push_back(step.lower);
  HostDevice device(kAmpleCapacity);
  CachingUpstream fallback{AllocatorSettings()};
  RuntimeAllocator runtime(device, fallback);
  if (!runtime.adopt(std::make_shared<PlanIndex>(synthesis.plan)))
    fail(trace.name, ": no memory for an arena of ", synthesis.plan.arena, " bytes: ", device.failure());
  LiveAllocator allocator(runtime);
  const ReplayResult result = replay_whole(trace, allocator, steps);
  const RuntimeStatistics statistics = runtime.statistics();

  Woven woven;
  woven.reserved_peak = result.reserved_peak;
  woven.efficiency = efficiency_of(requested, result.reserved_peak);
  woven.arena = synthesis.plan.arena;
  woven.fallback_reserved_peak = statistics.peaks.fallback_reserved;
  woven.hits = statistics.served.hits();
  woven.misses = statistics.served.misses();
  woven.plan_seconds = synthesis.seconds;
  woven.planned_steps = known.steps.spans.size();
  return woven;
}

}  // namespace

double Comparison::reduction(const Reserved& theirs) const {
  return theirs.efficiency >= 1 ? 0 : 1 - (1 - stweaver.efficiency) / (1 - theirs.efficiency);
}

Trace planning_part(const Trace& trace, const Profile& profile) {
  const std::vector<Lifespan>& steps = profile.steps.spans;
  if (steps.size() < 2) return trace;
  std::size_t known = steps.size() - 1;
  if (varies(profile.pattern)) known = std::min(known, std::max((steps.size() + 2) / 3, kFewestSteps));
  return prefix_of(trace, steps[known - 1].upper);
}

Comparison compare(const Trace& trace, const SynthesizeOptions& options) {
  const Profile profile = profile_of(trace);
  Comparison comparison;
  comparison.trace = trace.name;
  comparison.requests = trace.requests.size();
  comparison.steps = profile.steps.spans.size();
  comparison.requested_peak = peak_requested(trace);
  comparison.lower_bound = rounded_peak(trace, options.alignment);

  const Bytes requested = comparison.requested_peak;
  if (measures_native(trace)) {
    const Bytes measured = measured_reserve_peak(trace).value();
    comparison.native = {measured, efficiency_of(requested, measured), true};
  } else {
    comparison.native = simulate(trace, AllocatorSettings(), requested);
  }
  AllocatorSettings expandable;
  expandable.expandable_segments = true;
  comparison.expandable = simulate(trace, expandable, requested);
  comparison.stweaver = weave(trace, profile, options, requested);
  return comparison;
}

}  // namespace stweaver
