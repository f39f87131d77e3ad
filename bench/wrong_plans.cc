// wrong_plans TRACE...: what a saved plan costs that is wrong. Every job whose steps are alike is served
// without plans, with its own, with that of each other job (the worst is printed), with that of its first
// step alone, and with its own after every second place was changed at random.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "device/host_device.h"
#include "jobs.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "simulate/simulate.h"

namespace stweaver {
namespace {

Plan plan_of(const Trace& trace) {
  return synthesize(trace, profile_of(trace), {}).plan;
}

/// Another place inside the arena for every second slot.
Plan with_changes(Plan plan, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  for (std::size_t i = 0; i < plan.slots.size(); i += 2) {
    Slot& slot = plan.slots[i];
    if (slot.offset == kUnplanned) continue;
    const Bytes places = (plan.arena - slot.size) / plan.alignment + 1;
    slot.offset = static_cast<Bytes>(draw() % static_cast<std::uint64_t>(places)) * plan.alignment;
  }
  return plan;
}

/// Efficiency of the job's whole run from its first request on.
double efficiency(const Job& job, const std::optional<Plan>& plan) {
  ServeOptions options = {.online = true, .plans = plan.has_value(), .replay = {.steps = job.steps}};
  if (plan) options.plan = std::make_shared<const PlanIndex>(*plan);
  HostDevice device(kCapacity);
  return serve(job.trace, device, options).replay.efficiency();
}

/// With the worst of the other jobs' plans; "-" where there is no other.
std::string worst_of_others(const std::vector<Job>& jobs, const std::vector<Plan>& plans, std::size_t i) {
  if (jobs.size() == 1) return "-";
  double worst = 1;
  for (std::size_t other = 0; other < jobs.size(); ++other) {
    if (other != i) worst = std::min(worst, efficiency(jobs[i], plans[other]));
  }
  return fmt::format("{:.2f}", 100 * worst);
}

void print(const std::vector<Job>& jobs) {
  std::vector<Plan> plans;
  plans.reserve(jobs.size());
  for (const Job& job : jobs) plans.push_back(plan_of(job.trace));
  fmt::print("| job | no plan | its own | another job's | of its first step | every second place |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (plans[i].shape == StepShape::kDynamic) continue;
    const Time second = jobs[i].steps.size() > 1 ? jobs[i].steps[1] : jobs[i].trace.end;
    fmt::print("| {} | {:.2f} | {:.2f} | {} | {:.2f} | {:.2f} |\n",
               std::filesystem::path(jobs[i].trace.name).filename().string(),
               100 * efficiency(jobs[i], std::nullopt), 100 * efficiency(jobs[i], plans[i]),
               worst_of_others(jobs, plans, i),
               100 * efficiency(jobs[i], plan_of(prefix_of(jobs[i].trace, second))),
               100 * efficiency(jobs[i], with_changes(plans[i], 1)));
    (void)std::fflush(stdout);
  }
}

}  // namespace
}  // namespace stweaver

int main(int count, char** arguments) {
  return stweaver::run_on_jobs("wrong_plans", count, arguments, stweaver::print);
}
