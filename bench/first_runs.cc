// first_runs TRACE...: what a job reserves on its first run, without a plan from before: under STWeaver with
// its plans off, under STWeaver as it is, and under PyTorch's expandable segments and its default.
#include <cstdio>
#include <filesystem>
#include <future>
#include <string>

#include <fmt/format.h>

#include "device/host_device.h"
#include "jobs.h"
#include "simulate/simulate.h"

namespace stweaver {
namespace {

struct Run {
  double efficiency = 0;  ///< of the whole run
  double calls = 0;       ///< of the driver for each GiB asked for at most
  std::string steady = "no plan";
};

Run run(const Job& job, bool plans) {
  HostDevice device(kCapacity);
  const Serving serving =
      serve(job.trace, device, {.online = true, .plans = plans, .replay = {.steps = job.steps}});
  const MappingStatistics& mapping = serving.statistics.mapping;
  const double gib = static_cast<double>(serving.replay.requested_peak) / static_cast<double>(kGiB);
  Run result = {.efficiency = serving.replay.efficiency(),
                .calls = static_cast<double>(mapping.maps + mapping.unmaps) / gib};
  if (serving.story && serving.story->steady_steps > 0 && serving.statistics.plans > 0) {
    const Peaks& steady = serving.story->steady;
    result.steady = fmt::format(
        "{:.2f}", 100 * static_cast<double>(steady.requested) / static_cast<double>(steady.reserved));
  }
  return result;
}

double simulated(const Job& job, bool expandable) {
  return simulate(job.trace, {.expandable_segments = expandable}).efficiency();
}

void print(const std::vector<Job>& jobs) {
  fmt::print("| job | plans off | calls | first run | steady | calls | expandable | default |\n");
  fmt::print("|---|---|---|---|---|---|---|---|\n");
  for (const Job& job : jobs) {
    std::future<Run> off = std::async(std::launch::async, run, std::cref(job), false);
    const Run on = run(job, true);
    const Run without = off.get();
    fmt::print("| {} | {:.2f} | {:.0f} | {:.2f} | {} | {:.0f} | {:.2f} | {:.2f} |\n",
               std::filesystem::path(job.trace.name).filename().string(), 100 * without.efficiency,
               without.calls, 100 * on.efficiency, on.steady, on.calls, 100 * simulated(job, true),
               100 * simulated(job, false));
    (void)std::fflush(stdout);
  }
}

}  // namespace
}  // namespace stweaver

int main(int count, char** arguments) {
  return stweaver::run_on_jobs("first_runs", count, arguments, stweaver::print);
}
