#include "simulate/serving.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <utility>

#include "runtime/life_cycle.h"
#include "simulate/caching_upstream.h"
#include "simulate/live_allocator.h"

namespace stweaver {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Leads a RuntimeAllocator through its life, and keeps its story.
class Life {
 public:
  Life(RuntimeAllocator& allocator, const ServeOptions& options, int device, std::vector<std::string>& log)
      : allocator_(allocator), cycle_(make(options, device, log)) {}

  void begin_step() {
    const bool adopted = advance([this] { cycle_->begin_step(); });
    const RuntimeStatistics now = allocator_.statistics();
    if (!adopted) note(now.last_step.peaks);
    if (now.plans > 0) ++story_.steady_steps;
  }

  /// Of a job whose steps nobody marks.
  void count_request() {
    if (++requests_ % allocator_.policy().poll == 0) advance([this] { cycle_->poll(); });
  }

  void end(Serving& serving) && {
    const RuntimeStatistics now = allocator_.statistics();
    if (now.plans == 0) story_.before_plan = now.peaks.reserved;
    note(now.step.peaks);
    cycle_.reset();
    serving.plan_seconds = plan_seconds_;
    serving.story = story_;
  }

 private:
  std::unique_ptr<LifeCycle> make(const ServeOptions& options, int device, std::vector<std::string>& log) {
    LifeCycleOptions how;
    how.device = device;
    how.place_unplanned = options.place_unplanned;
    if (!options.plans) how.record_steps = LifeCycleOptions::kAllSteps;
    how.log = [&log](const std::string& line) { log.push_back(line); };
    how.plan = [this](const Trace& trace, const Gaps& gaps) {
      const auto begin = std::chrono::steady_clock::now();
      Plan plan = plan_step(trace, gaps);
      plan_seconds_ += seconds_since(begin);
      return plan;
    };
    if (options.plan) return std::make_unique<LifeCycle>(allocator_, how, options.plan->plan());
    return std::make_unique<LifeCycle>(allocator_, how);
  }

  /// Whether a plan was adopted.
  bool advance(const std::function<void()>& step) {
    const RuntimeStatistics before = allocator_.statistics();
    step();
    cycle_->wait_for_planner();
    if (before.plans == 0) story_.before_plan = before.peaks.reserved;
    if (allocator_.statistics().plans == before.plans) return false;
    story_.steady_steps = 0;
    story_.steady = {};
    return true;
  }

  void note(const Peaks& step) {
    if (story_.steady_steps == 0) return;
    story_.steady.requested = std::max(story_.steady.requested, step.requested);
    story_.steady.reserved = std::max(story_.steady.reserved, step.reserved);
    story_.steady.fallback_reserved = std::max(story_.steady.fallback_reserved, step.fallback_reserved);
  }

  RuntimeAllocator& allocator_;
  LifeStory story_;
  std::uint32_t requests_ = 0;
  double plan_seconds_ = 0;  // before the cycle, whose planner writes to it
  std::unique_ptr<LifeCycle> cycle_;
};

/// A served request of a PyTorch allocator is one that no plan served.
RuntimeStatistics statistics_of(const Trace& trace, const ReplayResult& replay) {
  RuntimeStatistics statistics;
  const auto requests = std::count_if(trace.requests.begin(), trace.requests.end(),
                                      [](const Request& request) { return request.size > 0; });
  statistics.served.unplanned[static_cast<std::size_t>(Unplanned::kNoPlan)] = requests - replay.ooms;
  statistics.peaks = {.requested = replay.requested_peak,
                      .reserved = replay.reserved_peak,
                      .arena = 0,
                      .fallback_reserved = replay.reserved_peak};
  statistics.ooms = replay.ooms;
  return statistics;
}

void serve_by_pytorch(const Trace& trace, Device& device, const ServeOptions& options, Serving& serving) {
  CachingUpstream caching(settings_of(trace, options.allocator), device);
  LiveAllocator allocator(caching);
  serving.replay = replay(trace, allocator, options.replay);
  serving.statistics = statistics_of(trace, serving.replay);
}

void serve_by_stweaver(const Trace& trace, Device& device, const ServeOptions& options, Serving& serving) {
  CachingUpstream fallback(settings_of(trace, options.allocator), device);
  RuntimeAllocator runtime(device, fallback, options.policy);
  runtime.hold(options.hold);
  if (options.online) {
    Life life(runtime, options, trace.device, serving.log);
    std::function<void()> count;
    if (options.replay.steps.empty()) count = [&] { life.count_request(); };
    LiveAllocator allocator(
        runtime, [&] { life.begin_step(); }, count);
    serving.replay = replay(trace, allocator, options.replay);
    std::move(life).end(serving);
  } else {
    runtime.place_unplanned(options.place_unplanned);
    if (options.plan && options.plan->plan().shape == StepShape::kDynamic) {
      serving.log.emplace_back("not following the plan: steps differ, and not by lengths");
    } else if (options.plan && !runtime.adopt(options.plan)) {
      serving.log.push_back(text("not following the plan: no addresses for its arena of ",
                                 options.plan->plan().arena, " bytes"));
    }
    LiveAllocator allocator(runtime, [&] { runtime.begin_step(); });
    serving.replay = replay(trace, allocator, options.replay);
  }
  serving.statistics = runtime.statistics();
}

}  // namespace

std::string_view name_of(AllocatorKind kind) {
  constexpr std::array<std::string_view, kAllocatorKinds> kNames = {"stweaver", "native", "expandable"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string settings_text_of(const Trace& trace, AllocatorKind kind) {
  const bool expandable = kind == AllocatorKind::kExpandable;
  std::string ours = text("expandable_segments:", expandable ? "True" : "False");
  try {
    if (parse_settings(trace.settings).expandable_segments == expandable) return trace.settings;
  } catch (const Error&) {
    return ours;  // the trace's are of no allocator of PyTorch's, or damaged
  }
  return trace.settings.empty() ? ours : text(trace.settings, ',', ours);  // the last one counts
}

AllocatorSettings settings_of(const Trace& trace, AllocatorKind kind) {
  AllocatorSettings settings = parse_settings(settings_text_of(trace, kind));
  settings.memory_fraction = 1;
  return settings;
}

Serving serve(const Trace& trace, Device& device, const ServeOptions& options) {
  Serving serving;
  serving.allocator = options.allocator;
  serving.device = device.name();
  if (options.allocator == AllocatorKind::kStweaver) {
    serve_by_stweaver(trace, device, options, serving);
  } else {
    serve_by_pytorch(trace, device, options, serving);
  }
  return serving;
}

}  // namespace stweaver
