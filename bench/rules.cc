// rules TRACE...: what each number of src/runtime/policy.h trades. Every job is served online, from its first
// request on, with one rule at a time at half and at twice its value. rules --only RULE TRACE...: that one.
// rules --unmarked ...: as if nobody marked the steps.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <future>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "device/host_device.h"
#include "jobs.h"
#include "runtime/policy.h"
#include "simulate/simulate.h"

namespace stweaver {
namespace {

/// A rule of the table, and how to change it.
struct Rule {
  std::string_view name;
  void (*scale)(Policy& policy, int halves);
};

template <auto Member>
void scale(Policy& policy, int halves) {
  auto& value = policy.*Member;
  using Value = std::remove_reference_t<decltype(value)>;
  value = std::max<Value>(value * static_cast<Value>(halves) / 2, 1);
}

constexpr std::array kRules = {
    Rule{"addresses", scale<&Policy::addresses>},
    Rule{"slack_share", scale<&Policy::slack_share>},
    Rule{"least_slack", scale<&Policy::least_slack>},
    Rule{"most_extent", scale<&Policy::most_extent>},
    Rule{"block", scale<&Policy::block>},
    Rule{"block_share", scale<&Policy::block_share>},
    Rule{"small", scale<&Policy::small>},
    Rule{"large", scale<&Policy::large>},
    Rule{"pinned_per_call", scale<&Policy::pinned_per_call>},
    Rule{"refused_calls", scale<&Policy::refused_calls>},
    Rule{"near", scale<&Policy::near>},
    Rule{"far", scale<&Policy::far>},
    Rule{"size_spread", scale<&Policy::size_spread>},
    Rule{"rounding", scale<&Policy::rounding>},
    Rule{"lost", scale<&Policy::lost>},
    Rule{"misfit_share", scale<&Policy::misfit_share>},
    Rule{"astray_share", scale<&Policy::astray_share>},
    Rule{"patience", scale<&Policy::patience>},
    Rule{"most_patience", scale<&Policy::most_patience>},
    Rule{"first_adoption", scale<&Policy::first_adoption>},
    Rule{"steps_to_differ", scale<&Policy::steps_to_differ>},
    Rule{"most_steps", scale<&Policy::most_steps>},
    Rule{"first_search", scale<&Policy::first_search>},
    Rule{"poll", scale<&Policy::poll>},
};

/// Over all jobs.
struct Outcome {
  double mean = 0;    ///< efficiency of whole runs
  double least = 1;   ///< the same
  double steady = 0;  ///< mean efficiency since the plan was adopted, of those that follow one
  std::int64_t calls = 0;
  std::int64_t waits = 0;
  std::int64_t planned = 0;
};

Outcome outcome_of(const std::vector<Job>& jobs, const Policy& policy) {
  Outcome outcome;
  int follow = 0;
  for (const Job& job : jobs) {
    HostDevice device(kCapacity);
    const Serving serving =
        serve(job.trace, device, {.online = true, .policy = policy, .replay = {.steps = job.steps}});
    const double efficiency = serving.replay.efficiency();
    outcome.mean += efficiency / static_cast<double>(jobs.size());
    outcome.least = std::min(outcome.least, efficiency);
    outcome.calls += serving.statistics.mapping.maps + serving.statistics.mapping.unmaps;
    outcome.waits += serving.statistics.mapping.idle_waits;
    outcome.planned += serving.statistics.served.in_plan();
    if (!serving.story || serving.story->steady_steps == 0 || serving.statistics.plans == 0) continue;
    ++follow;
    const Peaks& steady = serving.story->steady;
    outcome.steady += static_cast<double>(steady.requested) / static_cast<double>(steady.reserved);
  }
  outcome.steady /= std::max(follow, 1);
  return outcome;
}

void print(std::string_view rule, std::string_view value, const Outcome& outcome) {
  fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.1f} | {} | {:.1f} |\n", rule, value,
             100 * outcome.mean, 100 * outcome.least, 100 * outcome.steady,
             static_cast<double>(outcome.calls) / 1000, outcome.waits,
             static_cast<double>(outcome.planned) / 1000);
  (void)std::fflush(stdout);
}

void run(const std::vector<Job>& jobs, std::string_view only) {
  fmt::print("| rule | value | mean | least | steady | calls | waits | planned |\n");
  fmt::print("|---|---|---|---|---|---|---|---|\n");
  print("as they are", "", outcome_of(jobs, {}));
  for (const Rule& rule : kRules) {
    if (!only.empty() && rule.name != only) continue;
    Policy half;
    Policy twice;
    rule.scale(half, 1);
    rule.scale(twice, 4);
    std::future<Outcome> other = std::async(std::launch::async, outcome_of, std::cref(jobs), std::cref(half));
    const Outcome more = outcome_of(jobs, twice);
    print(rule.name, "half", other.get());
    print("", "twice", more);
  }
}

int run_main(int count, char** arguments) {
  std::span<char*> paths(arguments + 1, static_cast<std::size_t>(count - 1));
  std::string_view only;
  const bool unmarked = !paths.empty() && std::string_view(paths[0]) == "--unmarked";
  if (unmarked) paths = paths.subspan(1);
  if (paths.size() > 1 && std::string_view(paths[0]) == "--only") {
    only = paths[1];
    paths = paths.subspan(2);
  }
  const bool is_rule = only.empty() || std::ranges::count(kRules, only, &Rule::name) > 0;
  if (paths.empty() || !is_rule) {
    fmt::print(stderr, "usage: rules [--unmarked] [--only RULE] TRACE...; a rule is a member of Policy\n");
    return 2;
  }
  std::vector<Job> jobs = read_jobs(paths);
  if (unmarked) {
    for (Job& job : jobs) job.steps.clear();
  }
  run(jobs, only);
  return 0;
}

}  // namespace
}  // namespace stweaver

int main(int count, char** arguments) {
  try {
    return stweaver::run_main(count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rules: {}\n", error.what());
    return 1;
  }
}
