// stweaver replay: serves a trace through a real allocator, on real memory, every block watched.

#include "simulate/replay.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "archive/archive.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/validators.h"
#include "device/device.h"
#include "plan/plan.h"
#include "report/report.h"
#include "simulate/simulate.h"

namespace stweaver {
namespace {

struct ReplayCommandOptions {
  std::string trace;
  std::string plan;
  std::string device = "host";
  std::string allocator = "stweaver";
  Bytes capacity = kAmpleCapacity;
  SynthesizeOptions search;
  double hold = 0;  // GiB
  bool online = false;
  bool json = false;
};

/// The allocator of that name; nothing if there is none.
std::optional<AllocatorKind> allocator_kind(const std::string& name) {
  for (std::size_t i = 0; i < kAllocatorKinds; ++i) {
    const auto kind = static_cast<AllocatorKind>(i);
    if (name_of(kind) == name) return kind;
  }
  return std::nullopt;
}

/// Memory to serve a trace from, and how to stamp it.
struct Place {
  std::unique_ptr<Device> device;
  std::unique_ptr<Device> one_stream;  ///< in front of the device, if need be
  Stamps stamps;

  [[nodiscard]] Device& memory() const { return one_stream ? *one_stream : *device; }
};

Place open_host(Bytes capacity) {
  return {std::make_unique<HostDevice>(capacity), nullptr, Stamps::on_host()};
}

Place open_gpu(int ordinal) {
  std::unique_ptr<Device> device = open_cuda(ordinal);
  auto one_stream = std::make_unique<OneStream>(*device);
  const Stamps stamps = Stamps::on_device(*one_stream);
  return {std::move(device), std::move(one_stream), stamps};
}

/// The GPU's number in "cuda" or "cuda:N"; nothing for any other text.
std::optional<int> ordinal_of(const std::string& device) {
  if (device == "cuda") return 0;
  constexpr std::string_view kPrefix = "cuda:";
  if (!device.starts_with(kPrefix)) return std::nullopt;
  const char* const end = device.data() + device.size();
  int ordinal = 0;
  const auto [rest, error] = std::from_chars(device.data() + kPrefix.size(), end, ordinal);
  if (error != std::errc() || rest != end || ordinal < 0) return std::nullopt;
  return ordinal;
}

/// What the host has. Expandable segments take addresses for 9/8 of it for the small and for the large
/// requests of each stream, and a process has 128 TiB of addresses.
Bytes host_capacity(const ReplayCommandOptions& options, const Trace& trace) {
  constexpr Bytes kAddresses = Bytes{1} << 46U;
  const bool is_expandable = allocator_kind(options.allocator) == AllocatorKind::kExpandable;
  if (!is_expandable || options.capacity != kAmpleCapacity) return options.capacity;
  std::set<std::pair<Stream, Pool>> streams;
  for (const Request& request : trace.requests) streams.emplace(request.stream, request.pool);
  const Bytes most = kAddresses / (2 * std::max<Bytes>(std::ssize(streams), 1));
  if (most < 2 * peak_requested(trace))
    fail(trace.name, ": ", streams.size(),
         " streams take more addresses than a process has; give --capacity");
  return std::min(options.capacity, most);
}

Place open_place(const ReplayCommandOptions& options, const Trace& trace) {
  const std::optional<int> ordinal = ordinal_of(options.device);
  return ordinal ? open_gpu(*ordinal) : open_host(host_capacity(options, trace));
}

/// Whether something named `option` makes no sense together with the other options.
void refuse_contradictions(const ReplayCommandOptions& options) {
  const bool pytorch = allocator_kind(options.allocator) != AllocatorKind::kStweaver;
  if (pytorch && !options.plan.empty())
    fail("--plan: PyTorch's allocators follow no plan; use --allocator stweaver");
  if (pytorch && options.online)
    fail("--online: PyTorch's allocators follow no plan; use --allocator stweaver");
  if (pytorch && options.hold > 0)
    fail("--hold: PyTorch's allocators move no memory; use --allocator stweaver");
  if (ordinal_of(options.device) && options.capacity != kAmpleCapacity)
    fail("--capacity: a GPU has the memory that it has; use --device host");
}

/// The plan in the file. One of another trace is advice like any other.
Plan open_plan(const std::string& path, const Trace& trace) {
  Plan plan = read_plan(open_archive(path), path);
  if (plan.fingerprint != fingerprint_of(trace))
    say(text(path, ": was made from another trace (", plan.source, "); it is followed as far as it fits"));
  return plan;
}

Synthesis make_plan(const ReplayCommandOptions& options, const Trace& trace, const Profile& profile) {
  if (!options.plan.empty()) return {.plan = open_plan(options.plan, trace)};
  return synthesize(trace, profile, options.search);
}

Answer replay_trace(const ReplayCommandOptions& options) {
  refuse_contradictions(options);
  const Progress progress("replaying " + options.trace, options.json);
  const Trace trace = open_trace(options.trace);
  const Place place = open_place(options, trace);
  const Profile profile = profile_of(trace);

  ServeOptions how;
  how.allocator = allocator_kind(options.allocator).value();
  how.online = options.online;
  how.hold = static_cast<Bytes>(options.hold * static_cast<double>(kGiB));
  how.replay.watch = {.ranges = true, .stamps = place.stamps};
  for (const Lifespan& step : profile.steps.spans) how.replay.steps.push_back(step.lower);
  double plan_seconds = 0;
  if (how.allocator == AllocatorKind::kStweaver && (!options.online || !options.plan.empty())) {
    Synthesis made = make_plan(options, trace, profile);
    plan_seconds = made.seconds;
    how.plan = std::make_shared<PlanIndex>(std::move(made.plan));
  }
  Serving serving = serve(trace, place.memory(), how);
  serving.plan_seconds += plan_seconds;

  const std::size_t steps = profile.steps.spans.size();
  const bool served = serving.replay.corrupt_blocks == 0 && serving.replay.ooms == 0;
  return {replay_text(trace, steps, serving), replay_json(trace, steps, serving),
          served ? kDone : kAnswerIsNo};
}

CLI::Validator allocator_name() {
  const auto check = [](const std::string& name) {
    if (allocator_kind(name)) return std::string();
    return "give stweaver, native or expandable, not '" + name + "'";
  };
  return {check, "", "allocator"};
}

CLI::Validator device_name() {
  const auto check = [](const std::string& name) {
    if (name == "host" || ordinal_of(name)) return std::string();
    return "give host, cuda or cuda:N, not '" + name + "'";
  };
  return {check, "", "device"};
}

}  // namespace

void add_replay(CLI::App& app, int& status) {
  const auto options = std::make_shared<ReplayCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "replay", "Serves a job through a real allocator on real memory and watches that no block shares any.");
  add_trace(*command, options->trace);
  command->add_option("--plan", options->plan, "follow this plan (default: plan the whole trace first)")
      ->check(file_name());
  command
      ->add_option("--allocator", options->allocator,
                   "stweaver, native (PyTorch's default) or expandable (its expandable segments)")
      ->capture_default_str()
      ->check(allocator_name());
  command->add_option("--device", options->device, "whose memory: host, cuda or cuda:N")
      ->capture_default_str()
      ->check(device_name());
  command->add_flag(
      "--online", options->online,
      "record, plan, adopt and follow inside the job, as on its first run. A replay's steps take no "
      "time, a real job's take longer than planning: so each plan is waited for, and followed from "
      "the next step on. Plans are searched for as in a job, on one thread, whatever --timeout says");
  command
      ->add_option("--hold", options->hold,
                   "GiB that may be held before memory is moved (default: what is used, and a little)")
      ->check(number(0.001, 1e5));
  command->add_option("--capacity", options->capacity, "bytes that the host has (default: more than any GPU)")
      ->check(bytes(1, kAmpleCapacity));
  add_search(*command, options->search, "search for a plan");
  command->add_flag("--json", options->json, "print one JSON document");
  command->footer("Example: stweaver replay snapshot.pickle --plan job.plan");
  command->callback([options, &status] { status = print_answer(options->json, replay_trace(*options)); });
}

}  // namespace stweaver
