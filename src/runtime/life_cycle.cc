#include "runtime/life_cycle.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "plan/checker.h"
#include "plan/plan_file.h"
#include "plan/synthesize.h"
#include "trace/file_source.h"

namespace stweaver {
namespace {

/// A step misfits when requests for more than this share of the arena went to the fallback.
constexpr Bytes kMisfit = 64;
/// One odd step (an evaluation, a checkpoint) is no reason to plan again.
constexpr int kPatience = 2;
/// A step is astray when fewer than one in so many of the planned requests found their places.
constexpr std::int64_t kAstray = 2;
/// Planning again did not help before: bear more the next time, up to this.
constexpr int kMostPatience = 64;
/// So many fitting steps make good for one misfit.
constexpr int kForgiveness = 16;
/// Requests after which an unmarked job is first searched for steps; then twice as many, and so on up to the
/// last, when it is taken for one that does not repeat.
constexpr std::int64_t kFirstSearch = 20'000;
constexpr std::int64_t kLastSearch = 640'000;
/// Steps to record at most when fewer show nothing that repeats.
constexpr int kMostSteps = 12;
/// Where steps differ, one alone shows neither what varies nor how far; with so many of them the plan covers
/// most of those to come.
constexpr int kVaryingSteps = 3;

/// The plan's range keeps off blocks that have outlived a step; none is seen to before this boundary.
constexpr std::int64_t kFirstAdoption = 2;

/// A plan for steps that differ has to save more than this share: it is outgrown again and again, and then
/// the arena holds both what is planned and what is not. On an H200 that took more memory and time than free
/// form.
constexpr Bytes kHardlyMore = 32;

/// Whether steps differ in it.
bool varies(const Plan& plan) {
  return std::ranges::any_of(plan.slots,
                             [](const Slot& slot) { return slot.varying || slot.offset == kUnplanned; });
}

bool is_ready(const std::future<std::shared_ptr<const PlanIndex>>& planner) {
  return planner.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::int64_t requests_of(const RuntimeAllocator& allocator) {
  const Served served = allocator.statistics().served;
  return served.hits() + served.misses();
}

std::function<Plan()> saved_in(const std::string& path) {
  if (path.empty()) return {};
  return [path] { return read_plan(file_source(path), path); };
}

}  // namespace

std::string_view name_of(Stage stage) {
  switch (stage) {
    case Stage::kRecording:
      return "recording";
    case Stage::kPlanning:
      return "planning";
    case Stage::kWatching:
      return "watching";
  }
  return "";
}

Plan plan_step(const Trace& trace) {
  const Profile profile = profile_of(trace);
  const Pattern& pattern = profile.pattern;
  if (std::ssize(pattern.steps) < kVaryingSteps && varies(trace, pattern)) return {};
  if (pattern.positions.empty()) return {};
  // One thread: the job needs the others.
  Plan plan = synthesize(trace, profile, {.threads = 1, .step_only = true}).plan;
  const std::vector<std::string> violations = check_plan(plan, trace);
  if (!violations.empty()) fail("the checker refuses the plan: ", violations.front());
  return plan;
}

LifeCycle::LifeCycle(RuntimeAllocator& allocator, const LifeCycleOptions& options)
    : LifeCycle(allocator, options, saved_in(options.plan_path)) {}

LifeCycle::LifeCycle(RuntimeAllocator& allocator, const LifeCycleOptions& options, Plan plan)
    : LifeCycle(allocator, options, SavedPlan([&plan] { return std::move(plan); })) {}

LifeCycle::LifeCycle(RuntimeAllocator& allocator, LifeCycleOptions options, const SavedPlan& saved)
    : allocator_(allocator),
      options_(std::move(options)),
      steps_to_record_(options_.record_steps),
      requests_to_record_(kFirstSearch),
      patience_(kPatience) {
  if (!options_.plan) options_.plan = plan_step;
  allocator_.use_free_form(options_.free_form);
  if (!saved || !begin_with(saved)) start_recording();
}

/// Whether there is such a plan and it can be followed.
bool LifeCycle::begin_with(const SavedPlan& saved) {
  try {
    auto plan = std::make_shared<const PlanIndex>(saved());
    if (const std::string objection = plan->objection(); !objection.empty()) {
      log(text("not following the plan: ", objection));
      return false;
    }
    if (plan->plan().prologue == 0) {
      follow_once_steps_repeat(std::move(plan));
      return true;
    }
    if (!adopt(plan)) return false;
    start_watching();
    return true;
  } catch (const Error& error) {
    log(error.what());
    return false;
  }
}

LifeCycle::~LifeCycle() {
  wait_for_planner();
  stop_recording();
  allocator_.use_free_form(false);
}

void LifeCycle::wait_for_planner() {
  if (planner_.valid()) planner_.wait();
}

void LifeCycle::begin_step() {
  allocator_.begin_step();
  ++steps_;
  tell_refusals();
  if (stage_ == Stage::kRecording && steps_ >= first_whole_step_ + steps_to_record_) return start_planning();
  if (stage_ == Stage::kPlanning && steps_ >= kFirstAdoption && is_ready(planner_)) return take_plan();
  if (stage_ == Stage::kWatching) watch();
}

void LifeCycle::poll() {
  if (steps_ > 0 || only_records()) return;
  tell_refusals();
  if (stage_ == Stage::kPlanning && is_ready(planner_)) return take_plan();
  if (stage_ == Stage::kRecording && requests_of(allocator_) >= recording_began_ + requests_to_record_)
    start_planning();
}

/// What is allocated before the steps repeat is not in that plan.
void LifeCycle::follow_once_steps_repeat(std::shared_ptr<const PlanIndex> plan) {
  stage_ = Stage::kPlanning;
  std::promise<std::shared_ptr<const PlanIndex>> made;
  made.set_value(std::move(plan));
  planner_ = made.get_future();
}

void LifeCycle::start_recording() {
  stage_ = Stage::kRecording;
  const bool at_boundary = steps_ > 0;
  recorder_ = std::make_shared<Recorder>(Recorder::Options{.device = options_.device,
                                                           .settings = options_.settings,
                                                           .path = std::exchange(options_.trace_path, {}),
                                                           .timed = !at_boundary});
  // A step lies between two boundaries, and the first of them may be still to come.
  if (at_boundary) recorder_->mark(text("step ", steps_));
  first_whole_step_ = steps_ + (at_boundary ? 0 : 1);
  recording_began_ = requests_of(allocator_);
  allocator_.use_free_form(options_.free_form);
  allocator_.record(recorder_);
  if (only_records()) return log(text("recording from step ", steps_, " on, to the end"));
  log(text("recording ", steps_to_record_, " steps from step ", steps_, " on"));
}

void LifeCycle::stop_recording() {
  if (!recorder_) return;
  allocator_.record(nullptr);
  recorder_->finish();
  if (!recorder_->failure().empty()) log(recorder_->failure());
  recorder_.reset();
}

void LifeCycle::start_planning() {
  stage_ = Stage::kPlanning;
  const auto trace = std::make_shared<Trace>(allocator_.recorded());
  trace->complete = true;
  log(text("planning from ", trace->requests.size(), " recorded requests"));
  const auto work = [trace, plan = options_.plan] { return std::make_shared<const PlanIndex>(plan(*trace)); };
  try {
    planner_ = std::async(std::launch::async, work);
  } catch (const std::system_error& error) {  // no more threads
    log(text("no plan: ", error.what()));
    give_up();
  }
}

void LifeCycle::take_plan() {
  std::shared_ptr<const PlanIndex> plan;
  try {
    plan = planner_.get();
  } catch (const std::exception& error) {
    log(text("no plan: ", error.what()));
    return give_up();
  }
  if (plan->plan().slots.empty()) return record_longer();
  stop_recording();
  if (const std::string objection = plan->objection(); !objection.empty()) return do_without(objection);
  if (varies(plan->plan()) && is_well_served())
    return do_without("steps differ, and what is reserved is hardly more than is asked for");
  adopt(plan);
  start_watching();
}

/// Hardly more has been held than was asked for: where steps differ, a plan promises no more than that, and
/// a step that outgrows it breaks the promise.
bool LifeCycle::is_well_served() const {
  const Peaks peaks = allocator_.statistics().peaks;
  return peaks.reserved - peaks.requested <= peaks.reserved / kHardlyMore;
}

/// For a good while.
void LifeCycle::do_without(std::string_view why) {
  log(text("following no plan: ", why));
  patience_ = kMostPatience;
  start_watching();
}

/// What was recorded does not show what repeats: perhaps it was too little.
void LifeCycle::record_longer() {
  const bool is_enough = steps_ > 0 ? steps_to_record_ >= kMostSteps : requests_to_record_ >= kLastSearch;
  log(text("no plan: what was recorded does not show what repeats", is_enough ? "" : "; recording longer"));
  if (is_enough) return give_up();
  steps_to_record_ *= 2;
  requests_to_record_ *= 2;
  stage_ = Stage::kRecording;
}

bool LifeCycle::adopt(const std::shared_ptr<const PlanIndex>& plan) {
  const Plan& what = plan->plan();
  const bool adopted = allocator_.adopt(plan);
  const auto planned_from = [&](std::size_t first) {
    return std::count_if(what.slots.begin() + static_cast<std::ptrdiff_t>(first), what.slots.end(),
                         [](const Slot& slot) { return slot.offset != kUnplanned; });
  };
  const auto planned = planned_from(0);
  planned_in_step_ = planned_from(what.prologue);
  if (adopted) {
    log(text("following a plan from step ", steps_, " on: arena ", in_gib(what.arena), ", ", planned, " of ",
             what.slots.size(), " requests planned"));
  } else {
    log(text("not following the plan: the device has no ", in_gib(what.arena), " for its arena"));
  }
  return adopted;
}

/// For a good while.
void LifeCycle::give_up() {
  stop_recording();
  patience_ = kMostPatience;
  // The allocator behind ours is made for what follows no plan.
  if (!allocator_.follows_plan()) allocator_.use_free_form(false);
  start_watching();
}

void LifeCycle::start_watching() {
  stage_ = Stage::kWatching;
  misfits_ = fits_ = astray_ = 0;
  missed_bytes_ = allocator_.statistics().missed_bytes;
}

/// Looks at the step that has ended. Where there is no plan, every step is a misfit: in time another
/// recording is tried.
void LifeCycle::watch() {
  const RuntimeStatistics now = allocator_.statistics();
  const Bytes missed = now.missed_bytes - std::exchange(missed_bytes_, now.missed_bytes);
  if (allocator_.follows_plan()) leave_plan_if_astray(now.last_step.served);
  const bool fits = allocator_.follows_plan() && missed <= now.planned_arena / kMisfit;
  if (fits) {
    if (++fits_ % kForgiveness == 0) misfits_ = std::max(misfits_ - 1, 0);
    if (fits_ == kMostPatience) patience_ = kPatience;
    return;
  }
  fits_ = 0;
  if (++misfits_ < patience_) return;
  log(text("the job has changed: in step ", steps_ - 1, " requests for ", in_gib(missed),
           " were not in the plan"));
  patience_ = std::min(2 * patience_, kMostPatience);
  // To see what changes; the first is prologue.
  steps_to_record_ = std::clamp(steps_to_record_ + 1, kVaryingSteps + 1, kMostSteps);
  start_recording();
}

/// To look for other places takes longer than free form, and no less memory.
void LifeCycle::leave_plan_if_astray(const Served& step) {
  const bool is_astray = step.planned < planned_in_step_ / kAstray;
  astray_ = is_astray ? astray_ + 1 : 0;
  if (astray_ < kPatience) return;
  astray_ = 0;
  log(text("leaving the plan: in step ", steps_ - 1, " only ", step.planned, " of ", planned_in_step_,
           " requests found their places"));
  allocator_.drop_plan();
}

/// Once.
void LifeCycle::tell_refusals() {
  if (told_refusals_ || allocator_.statistics().refusals == 0) return;
  told_refusals_ = true;
  log("the device has no memory for what no plan governs; the allocator behind ours serves that");
}

void LifeCycle::log(const std::string& line) const {
  if (options_.log) options_.log(text("stweaver[", options_.device, "]: ", line));
}

}  // namespace stweaver
