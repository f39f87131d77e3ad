// host_memory TRACE...: what STWeaver's own tables take of the host's memory while a job runs: without a
// plan, with the recording of all of it, and with a plan of it that is followed. Heap in use at step
// boundaries, at most, less what there was before the first request.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <malloc.h>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "device/host_device.h"
#include "jobs.h"
#include "plan/plan.h"
#include "runtime/runtime.h"
#include "simulate/simulate.h"

namespace stweaver {
namespace {

/// Bytes of the heap in use. Everything here happens in one thread, so in the one area that this counts.
double heap() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

enum class Load : std::uint8_t { kNone, kRecording, kPlan };

/// MiB of the heap that the allocator takes at most.
double most_of(const Job& job, Load load) {
  HostDevice device(kCapacity);
  CachingUpstream upstream(AllocatorSettings(), device);
  RuntimeAllocator runtime(device, upstream);
  runtime.place_unplanned(true);
  std::optional<Plan> plan;
  if (load == Load::kPlan) plan = synthesize(job.trace, profile_of(job.trace), {.threads = 1}).plan;
  double before = -1;
  double most = 0;
  const auto begin = [&] {  // the replay's own tables are there
    if (before >= 0) return;
    before = heap();
    if (load == Load::kRecording) runtime.record(std::make_shared<Recorder>(Recorder::Options{}));
    if (plan) runtime.adopt(std::make_shared<const PlanIndex>(*plan), true);
  };
  LiveAllocator allocator(
      runtime,
      [&] {
        runtime.begin_step();
        most = std::max(most, heap() - before);
      },
      begin);
  (void)replay(job.trace, allocator, {.steps = job.steps});
  return most / static_cast<double>(kMiB);
}

void print(const std::vector<Job>& jobs) {
  fmt::print(
      "| job | requests | no plan, MiB | recording, MiB | plan of all of it, MiB |\n|---|---|---|---|---|\n");
  for (const Job& job : jobs) {
    fmt::print("| {} | {} | {:.1f} | {:.1f} | {:.1f} |\n",
               std::filesystem::path(job.trace.name).filename().string(), job.trace.requests.size(),
               most_of(job, Load::kNone), most_of(job, Load::kRecording), most_of(job, Load::kPlan));
    (void)std::fflush(stdout);
  }
}

}  // namespace
}  // namespace stweaver

int main(int count, char** arguments) {
  return stweaver::run_on_jobs("host_memory", count, arguments, stweaver::print);
}
