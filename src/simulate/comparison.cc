#include "simulate/comparison.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "simulate/caching_allocator.h"
#include "simulate/logged_host.h"

namespace stweaver {
namespace {

/// The first step is mostly prologue, so fewer than three show no repetition.
constexpr std::size_t kFewestSteps = 3;

double efficiency_of(Bytes requested, Bytes reserved) {
  return reserved == 0 ? 1 : static_cast<double>(requested) / static_cast<double>(reserved);
}

/// Error when not every request was served, so that what was reserved would mean nothing, or when two shared
/// memory.
void require_whole(const Trace& trace, const ReplayResult& result) {
  if (result.ooms > 0) {
    if (const Bytes wanted = peak_requested(trace); wanted < kAmpleCapacity)
      fail(trace.name, ": this process may not map the ", in_gib(wanted),
           " that the job asks for (ulimit -v, ulimit -d), so it cannot be simulated");
    fail(trace.name, ": asks for more memory than any device has (", kAmpleCapacity / kGiB,
         " GiB), so it cannot be simulated");
  }
  if (result.corrupt_blocks > 0)
    fail(trace.name, ": blocks share memory: ", result.corruption, "; please report this trace");
}

/// Whether the trace shows what this allocator reserved, as far as its settings can be told.
bool measures(const Trace& trace, AllocatorKind kind) {
  if (trace.reserves.empty()) return false;
  try {
    return parse_settings(trace.settings).expandable_segments == (kind == AllocatorKind::kExpandable);
  } catch (const Error&) {
    return false;  // of no allocator of PyTorch's, or damaged
  }
}

Reserved reserved_by(AllocatorKind kind, const Trace& trace, Bytes requested) {
  Reserved reserved{.measured = measures(trace, kind), .replay = simulate(trace, settings_of(trace, kind))};
  reserved.peak = reserved.measured ? measured_reserve_peak(trace).value() : reserved.replay.reserved_peak;
  reserved.efficiency = efficiency_of(requested, reserved.peak);
  return reserved;
}

Serving serve_on_host(const Trace& trace, const Profile& profile, ServeOptions options) {
  for (const Lifespan& step : profile.steps.spans) options.replay.steps.push_back(step.lower);
  options.replay.watch = {.ranges = true, .stamps = Stamps::on_host()};
  SegmentLog log;
  LoggedHost device(kAmpleCapacity, log);
  options.replay.segments = &log;
  Serving serving = serve(trace, device, options);
  require_whole(trace, serving.replay);
  return serving;
}

Serving serve_with_plan(const Trace& trace, const Profile& profile, Synthesis made) {
  const auto plan = std::make_shared<const PlanIndex>(std::move(made.plan));
  Serving serving = serve_on_host(trace, profile, {.plan = plan});
  if (serving.statistics.plans == 0 && plan->plan().shape != StepShape::kDynamic)
    fail(trace.name,
         ": no addresses for the device that it would run on: lift the limit on this process's (ulimit -v)");
  serving.plan_seconds = made.seconds;
  return serving;
}

}  // namespace

double Comparison::reduction(const Reserved& theirs) const {
  return theirs.efficiency >= 1 ? 0 : 1 - (1 - stweaver.replay.efficiency()) / (1 - theirs.efficiency);
}

ReplayResult simulate(const Trace& trace, const AllocatorSettings& settings) {
  SegmentLog log;
  CachingAllocator allocator(settings);
  allocator.log_segments(log);
  ReplayResult result = replay(trace, allocator, {.watch = {.ranges = true}, .segments = &log});
  require_whole(trace, result);
  return result;
}

Trace planning_part(const Trace& trace, const Profile& profile) {
  const std::vector<Lifespan>& steps = profile.steps.spans;
  if (steps.size() < 2) return trace;
  std::size_t known = steps.size() - 1;
  if (steps_differ(trace, profile.pattern))
    known = std::min(known, std::max((steps.size() + 2) / 3, kFewestSteps));
  return prefix_of(trace, steps[known - 1].upper);
}

Comparison compare(const Trace& trace, const SynthesizeOptions& options, bool online) {
  const Profile profile = profile_of(trace);
  Comparison comparison;
  comparison.trace = trace.name;
  comparison.requests = trace.requests.size();
  comparison.steps = profile.steps.spans.size();
  comparison.requested_peak = peak_requested(trace);
  comparison.lower_bound = rounded_peak(trace, options.alignment);

  comparison.native = reserved_by(AllocatorKind::kNative, trace, comparison.requested_peak);
  comparison.expandable = reserved_by(AllocatorKind::kExpandable, trace, comparison.requested_peak);

  const Trace part = planning_part(trace, profile);
  Steps steps = profile.steps;  // a few alone may look like others
  std::erase_if(steps.spans, [&](const Lifespan& step) { return step.upper > part.end; });
  const Profile known = profile_of(part, std::move(steps));
  comparison.planned_steps = known.steps.spans.size();
  comparison.stweaver = serve_with_plan(trace, profile, synthesize(part, known, options));
  if (online) comparison.online = serve_on_host(trace, profile, {.online = true});
  return comparison;
}

}  // namespace stweaver
