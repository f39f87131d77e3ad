// varying [--family NAME] [--seeds N] [--steps N] [--online]: jobs whose batches change from step to step,
// made up from seeds. Each family's distribution over the seeds: what share of what is reserved was asked
// for, with a plan from the first third of the steps and under PyTorch's allocators; --online: without a plan
// from before, too. The last column is what STWeaver reserves by what native reserves, at worst. Adversaries
// get a second table with --online: the allocators' own time on the host, both in this run.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "device/device.h"
#include "runtime/life_cycle.h"
#include "simulate/simulate.h"
#include "synthetic_trainer.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

struct Options {
  std::optional<std::string> family;
  int seeds = 20;
  int steps = 24;
  bool online = false;
};

/// One quantity over all seeds.
struct Distribution {
  std::vector<double> values;

  [[nodiscard]] double at(double share) const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
  }
  [[nodiscard]] std::string percent() const {
    return fmt::format("{:7.2f}{:7.2f}{:7.2f}", 100 * at(0), 100 * at(0.5), 100 * at(1));
  }
};

/// What an allocator's calls took, all but the planner's.
struct Cost {
  double ns_per_request = 0;    ///< for an allocation and its free, steps' boundaries included
  double maps_per_request = 0;  ///< calls of Device::map() and unmap()
};

/// Serves the job as an allocator of a live process would be called. `begin_step` is timed, `rest` is not.
template <typename A>
double seconds_of(const Trace& trace, const std::vector<Lifespan>& steps, A& allocator,
                  const std::function<void()>& begin_step, const std::function<void()>& rest) {
  using Clock = std::chrono::steady_clock;
  std::vector<void*> blocks(trace.requests.size());
  Clock::duration sum{};
  std::size_t step = 0;
  Time now = 0;
  Clock::time_point begin = Clock::now();
  for (const Event& event : events_of(trace)) {
    if (step < steps.size() && steps[step].lower == now) {
      begin_step();
      sum += Clock::now() - begin;
      rest();
      begin = Clock::now();
      ++step;
    }
    const Request& request = trace.requests[event.request];
    if (event.kind == EventKind::kAllocate)
      blocks[event.request] = allocator.allocate(request.size, request.stream, request.pool);
    if (event.kind == EventKind::kFree) allocator.free(blocks[event.request]);
    ++now;
  }
  sum += Clock::now() - begin;
  return std::chrono::duration<double>(sum).count();
}

Cost cost_of_native(const Trace& trace, const std::vector<Lifespan>& steps) {
  HostDevice device(kAmpleCapacity);
  CachingUpstream native(AllocatorSettings(), device);
  const double seconds = seconds_of(
      trace, steps, native, [] {}, [] {});
  return {1e9 * seconds / static_cast<double>(trace.requests.size()), 0};
}

/// From the first step on, without a plan from before.
Cost cost_of_ours(const Trace& trace, const std::vector<Lifespan>& steps) {
  HostDevice host(kAmpleCapacity);
  FailingDevice device(host);  // it counts
  CachingUpstream fallback(AllocatorSettings(), device);
  RuntimeAllocator allocator(device, fallback);
  double seconds = 0;
  {
    LifeCycle cycle(allocator, {});
    seconds = seconds_of(
        trace, steps, allocator, [&] { cycle.begin_step(); }, [&] { cycle.wait_for_planner(); });
  }
  const auto requests = static_cast<double>(trace.requests.size());
  const auto maps = static_cast<double>(device.calls(DeviceCall::kMap) + device.calls(DeviceCall::kUnmap));
  return {1e9 * seconds / requests, maps / requests};
}

struct Outcomes {
  Distribution native, expandable, planned, online;
  Distribution against_native;                  ///< reserved, at worst of both, by what native reserves
  Distribution plans;                           ///< made online
  double planning = 0;                          ///< seconds for all of them
  Distribution native_ns, our_ns, ratio, maps;  ///< of adversaries
};

/// The least of three runs each, taken in turns: what else the machine does only adds to them.
void add_costs(Outcomes& outcomes, const Trace& trace) {
  const std::vector<Lifespan> steps = profile_of(trace).steps.spans;
  Cost native = cost_of_native(trace, steps);
  Cost ours = cost_of_ours(trace, steps);
  for (int again = 0; again < 2; ++again) {
    native.ns_per_request = std::min(native.ns_per_request, cost_of_native(trace, steps).ns_per_request);
    ours.ns_per_request = std::min(ours.ns_per_request, cost_of_ours(trace, steps).ns_per_request);
  }
  outcomes.native_ns.values.push_back(native.ns_per_request);
  outcomes.our_ns.values.push_back(ours.ns_per_request);
  outcomes.ratio.values.push_back(ours.ns_per_request / native.ns_per_request);
  outcomes.maps.values.push_back(1000 * ours.maps_per_request);
}

void print_costs(const std::string& name, const Outcomes& all) {
  const auto three = [](const Distribution& values) {
    return fmt::format("{:8.2f}{:8.2f}{:8.2f}", values.at(0), values.at(0.5), values.at(1));
  };
  fmt::print("{:<13}{:8.0f}{:10.0f}   {}   {}\n", name, all.native_ns.at(0.5), all.our_ns.at(0.5),
             three(all.ratio), three(all.maps));
  std::fflush(stdout);
}

void add(Outcomes& outcomes, const Comparison& job) {
  outcomes.native.values.push_back(job.native.efficiency);
  outcomes.expandable.values.push_back(job.expandable.efficiency);
  outcomes.planned.values.push_back(job.stweaver.replay.efficiency());
  Bytes reserved = job.stweaver.replay.reserved_peak;
  if (job.online) {
    outcomes.online.values.push_back(job.online->replay.efficiency());
    outcomes.plans.values.push_back(static_cast<double>(job.online->statistics.plans));
    outcomes.planning += job.online->plan_seconds;
    reserved = std::max(reserved, job.online->replay.reserved_peak);
  }
  outcomes.against_native.values.push_back(static_cast<double>(reserved) /
                                           static_cast<double>(job.native.peak));
}

void print_head(bool online) {
  fmt::print("requested / reserved in %, over all seeds: least, median, most\n\n");
  fmt::print("{:<13}{:^21}  {:^21}  {:^21}", "family", "native", "expandable", "with a plan");
  if (online) fmt::print("  {:^21}  plans (most)  s each", "online");
  fmt::print("  of native's\n");
}

void print_row(const std::string& name, const Outcomes& all, bool online) {
  fmt::print("{:<13}{}  {}  {}", name, all.native.percent(), all.expandable.percent(), all.planned.percent());
  if (online) {
    const double plans = std::accumulate(all.plans.values.begin(), all.plans.values.end(), 0.0);
    fmt::print("  {}  {:5.1f} ({:.0f})    {:6.2f}", all.online.percent(),
               plans / static_cast<double>(all.plans.values.size()), all.plans.at(1),
               plans > 0 ? all.planning / plans : 0);
  }
  fmt::print("  {:11.3f}\n", all.against_native.at(1));
  std::fflush(stdout);
}

void run(const Options& options) {
  print_head(options.online);
  std::vector<std::pair<std::string, Outcomes>> adversaries;
  for (std::size_t f = 0; f < kFamilies; ++f) {
    const auto family = static_cast<Family>(f);
    if (options.family && *options.family != name_of(family)) continue;
    Outcomes outcomes;
    for (int seed = 1; seed <= options.seeds; ++seed) {
      const Trace trace = make_job(family, static_cast<std::uint64_t>(seed), options.steps);
      add(outcomes, compare(trace, {}, options.online));
      if (options.online && f >= kFirstAdversary) add_costs(outcomes, trace);
    }
    print_row(std::string(name_of(family)), outcomes, options.online);
    if (options.online && f >= kFirstAdversary)
      adversaries.emplace_back(name_of(family), std::move(outcomes));
  }
  if (adversaries.empty()) return;
  fmt::print(
      "\nhost time for an allocation and its free, steps' boundaries included, online: medians in ns, ratio, "
      "and\n"
      "calls to map or unmap in 1000 requests (least, median, most)\n\n{:<13}{:>8}{:>10}{:^30}{:^24}\n",
      "family", "native", "STWeaver", "ratio", "calls");
  for (const auto& [name, outcomes] : adversaries) print_costs(name, outcomes);
}

std::string family_named(const std::string& name) {
  std::string all;
  for (std::size_t f = 0; f < kFamilies; ++f) {
    if (name == name_of(static_cast<Family>(f))) return name;
    all.append(f > 0 ? ", " : "").append(name_of(static_cast<Family>(f)));
  }
  fail("no family ", name, "; there are ", all);
}

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&] {
      if (++i == count) fail(word, " needs a value");
      return std::string(words[i]);
    };
    const auto number = [&] {
      const std::string digits = value();
      int parsed = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed);
      if (error != std::errc() || *end != 0 || parsed < 1)
        fail(word, " needs a number from 1 on, not ", digits);
      return parsed;
    };
    if (word == "--family") {
      options.family = family_named(value());
    } else if (word == "--seeds") {
      options.seeds = number();
    } else if (word == "--steps") {
      options.steps = number();
    } else if (word == "--online") {
      options.online = true;
    } else {
      fail("unknown option ", word);
    }
  }
  return options;
}

}  // namespace
}  // namespace stweaver

int main(int count, char** words) {
  try {
    stweaver::run(stweaver::parse(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "varying: %s\n", error.what());
    return 1;
  }
}
