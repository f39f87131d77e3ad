#include "runtime/life_cycle.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>
#include <utility>

#include "plan/checker.h"
#include "plan/plan_file.h"
#include "trace/file_source.h"

namespace stweaver {
namespace {

bool is_ready(const std::future<std::shared_ptr<const PlanIndex>>& planner) {
  return planner.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::function<Plan()> saved_in(const std::string& path) {
  if (path.empty()) return {};
  return [path] { return read_plan(file_source(path), path); };
}

/// Why a plan is better not followed; empty when it may be. `beside`: bytes beside its range that are in no
/// use and cannot move. `excess`: what the job held beyond its budget without a plan.
std::string objection_to(const Plan& plan, const Policy& policy, Bytes beside = 0, Bytes excess = 0) {
  if (takes_too_much(plan, policy.slack(plan.lower_bound), beside, excess))
    return text("it takes ", in_gib(plan.arena + beside), ", and ", in_gib(plan.lower_bound), " may do");
  if (plan.shape == StepShape::kDynamic) return "steps differ, and not by lengths";
  return planned_slots(plan) > 0 ? "" : "it has a place for none of the requests";
}

/// Nobody knows who wrote it.
Plan checked(Plan plan) {
  const std::vector<std::string> violations = check_plan(plan, 1);
  if (!violations.empty()) fail("it is not sound: ", violations.front());
  return plan;
}

}  // namespace

std::string_view name_of(Stage stage) {
  constexpr std::array kNames = {"recording", "planning", "waiting", "following", "resting"};
  return kNames.at(static_cast<std::size_t>(stage));
}

LifeCycle::LifeCycle(RuntimeAllocator& allocator, const LifeCycleOptions& options)
    : LifeCycle(allocator, options, saved_in(options.plan_path)) {}

LifeCycle::LifeCycle(RuntimeAllocator& allocator, const LifeCycleOptions& options, Plan plan)
    : LifeCycle(allocator, options, SavedPlan([&plan] { return std::move(plan); })) {}

LifeCycle::LifeCycle(RuntimeAllocator& allocator, LifeCycleOptions options, const SavedPlan& saved)
    : allocator_(allocator),
      policy_(allocator.policy()),
      options_(std::move(options)),
      steps_to_record_(options_.record_steps),
      requests_to_record_(policy_.first_search),
      fit_(policy_) {
  if (!options_.plan)
    options_.plan = [enough = policy_.steps_to_differ](const Trace& trace, const Gaps& gaps) {
      return plan_step(trace, gaps, enough);
    };
  allocator_.place_unplanned(options_.place_unplanned);
  if (saved && begin_with(saved)) return;
  fate_.refused = why_no_plan_;
  start_recording();
}

/// Whether there is such a plan and it tells what to do.
bool LifeCycle::begin_with(const SavedPlan& saved) {
  try {
    auto plan = std::make_shared<const PlanIndex>(checked(saved()));
    fate_.slots = std::ssize(plan->plan().slots);
    if (const std::string objection = objection_to(plan->plan(), policy_); !objection.empty()) {
      if (plan->plan().shape != StepShape::kDynamic) fail(objection);
      fate_.refused = objection;
      rest(policy_.most_patience, objection);
    } else if (plan->plan().prologue == 0) {
      stage_ = Stage::kWaiting;  // what is allocated before the steps repeat is not in that plan
      saved_ = std::move(plan);
    } else {
      return follow(plan, false);
    }
    return true;
  } catch (const Error& error) {
    why_no_plan_ = error.what();
    log(text("not following the plan: ", why_no_plan_));
    return false;
  }
}

LifeCycle::~LifeCycle() {
  wait_for_planner();
  stop_recording();
  allocator_.place_unplanned(false);
}

void LifeCycle::wait_for_planner() {
  if (planner_.valid()) planner_.wait();
}

void LifeCycle::begin_step() {
  allocator_.begin_step();
  ++steps_;
  if (steps_ > policy_.first_adoption) fit_.note(allocator_.statistics().last_step);
  tell_refusals();
  if (allocator_.follows_plan()) watch();
  switch (stage_) {
    case Stage::kRecording:
      if (recorder_->is_full()) return start_recording();
      if (steps_ >= first_whole_step_ + steps_to_record_) start_planning();
      return;
    case Stage::kPlanning:
      if (steps_ >= policy_.first_adoption && (made_ || is_ready(planner_))) take_plan();
      return;
    case Stage::kWaiting:
      if (steps_ < policy_.first_adoption || follow(std::exchange(saved_, nullptr), false)) return;
      fate_.refused = why_no_plan_;
      return start_recording();
    case Stage::kFollowing:
      return;
    case Stage::kResting:
      if (steps_ >= rest_until_ && !only_records()) start_recording();
      return;
  }
}

void LifeCycle::poll() {
  if (steps_ > 0 || only_records()) return;
  tell_refusals();
  if (stage_ == Stage::kPlanning && is_ready(planner_)) return take_plan();
  if (stage_ == Stage::kRecording &&
      allocator_.statistics().served.all() >= recording_began_ + requests_to_record_)
    start_planning();
}

void LifeCycle::start_recording() {
  stage_ = Stage::kRecording;
  const bool at_boundary = steps_ > 0;
  recorder_ = std::make_shared<Recorder>(Recorder::Options{.device = options_.device,
                                                           .settings = options_.settings,
                                                           .path = std::exchange(options_.trace_path, {}),
                                                           .most = options_.most_recorded,
                                                           .timed = !at_boundary});
  // A step lies between two boundaries, and the first of them may be still to come.
  if (at_boundary) recorder_->mark(text("step ", steps_));
  first_whole_step_ = steps_ + (at_boundary ? 0 : 1);
  recording_began_ = allocator_.statistics().served.all();
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
  const auto trace = std::make_shared<Trace>(allocator_.recorded());
  trace->complete = true;
  log(text("planning from ", trace->requests.size(), " recorded requests"));
  const auto work = [trace, plan = options_.plan, gaps = allocator_.lasting_gaps()] {
    return std::make_shared<const PlanIndex>(plan(*trace, gaps));
  };
  try {
    planner_ = std::async(std::launch::async, work);
    stage_ = Stage::kPlanning;
  } catch (const std::system_error& error) {  // no more threads
    rest(policy_.most_patience, error.what());
  }
}

void LifeCycle::take_plan() {
  std::shared_ptr<const PlanIndex> plan = std::exchange(made_, nullptr);
  const bool has_waited = plan != nullptr;
  try {
    if (!has_waited) plan = planner_.get();
  } catch (const std::exception& error) {
    return rest(policy_.most_patience, error.what());
  }
  const bool differs = plan->plan().shape == StepShape::kDynamic;
  if (differs ? !has_recorded_enough() : plan->plan().slots.empty()) return record_longer();
  // The recording went on while the planner was at work.
  if (!differs && steps_ > 0 && !foretells_last_step(plan, allocator_.recorded(), policy_)) {
    if (has_waited) return record_longer();
    made_ = std::move(plan);  // one step may be odd
    return log(text("the plan does not foretell step ", steps_ - 1, ": the next step tells"));
  }
  if (plan->plan().shape == StepShape::kFixed && !fit_.steps_repeat()) return record_longer();
  stop_recording();
  const Bytes excess = followed_ ? 0 : allocator_.statistics().excess;  // else a plan may have left it behind
  const std::string objection = objection_to(plan->plan(), policy_, 0, excess);
  if (objection.empty() && follow(plan, steps_ > 0)) return;
  if (!objection.empty()) allocator_.drop_plan();  // nor does the one before fit any more
  rest(policy_.most_patience, objection.empty() ? why_no_plan_ : objection);
}

/// Whether recording longer would hardly show more.
bool LifeCycle::has_recorded_enough() const {
  return steps_ > 0 ? steps_to_record_ >= policy_.most_steps
                    : requests_to_record_ >= policy_.most_steps * policy_.first_search;
}

/// What was recorded does not show what repeats: perhaps it was too little.
void LifeCycle::record_longer() {
  if (has_recorded_enough())
    return rest(policy_.most_patience, "what was recorded does not show what repeats");
  log("no plan yet: what was recorded does not show what repeats; recording longer");
  steps_to_record_ += (steps_to_record_ + 1) / 2;
  requests_to_record_ *= 2;
  stage_ = Stage::kRecording;
}

/// Whether the device has the addresses for it, and what lives by now the places that a saved one expects.
bool LifeCycle::follow(const std::shared_ptr<const PlanIndex>& plan, bool is_proven) {
  const Plan& what = plan->plan();
  why_no_plan_ = is_proven ? "" : objection_to(what, policy_, allocator_.pinned_beside_plan());
  if (why_no_plan_.empty() && !allocator_.adopt(plan, is_proven))
    why_no_plan_ = text("the device has no addresses for its arena of ", in_gib(what.arena));
  if (!why_no_plan_.empty()) {
    log(text("not following the plan: ", why_no_plan_));
    return false;
  }
  log(text("following a plan from step ", steps_, " on: arena ", in_gib(what.arena), ", ",
           planned_slots(what), " of ", what.slots.size(), " requests planned"));
  followed_ = plan;
  range_ = allocator_.statistics().planned_arena;
  fit_.start();
  stage_ = Stage::kFollowing;
  return true;
}

/// No plan for now; another one that is followed goes on.
void LifeCycle::rest(int steps, const std::string& why) {
  stop_recording();
  const bool goes_on = allocator_.follows_plan();
  log(text(goes_on ? "no new plan: " : "following no plan: ", why));
  stage_ = goes_on ? Stage::kFollowing : Stage::kResting;
  if (goes_on) return fit_.start();
  why_no_plan_ = why;
  rest_until_ = steps_ + steps;
}

/// Looks at the step that has ended under a plan.
void LifeCycle::watch() {
  const RuntimeStatistics now = allocator_.statistics();
  const StepStatistics& step = now.last_step;
  // What lived by then was in the way of the new places.
  const bool laid_out_anew = std::exchange(range_, now.planned_arena) != now.planned_arena;
  if (const Bytes beside = allocator_.pinned_beside_plan(); beside > 0) {
    const std::string objection = objection_to(followed_->plan(), policy_, beside);
    if (!objection.empty()) return leave(0, objection, true);  // the job has not begun as recorded
  }
  if (allocator_.fit_lengths()) {
    log(text("the plan is of longer steps: from step ", steps_, " on it is laid out for those of this run"));
  } else if (allocator_.plan_costs_memory()) {
    return leave(policy_.most_patience,
                 text("in step ", steps_ - 1, " more memory was held than without a plan"), true);
  }
  if (const std::int64_t planned = followed_->planned_in_step(); fit_.is_lost(step, planned))
    return leave(fit_.patience(), text("in step ", steps_ - 1, " only ", step.served.planned, " of ", planned,
                                       " planned requests found their places"));
  if (stage_ != Stage::kFollowing || laid_out_anew) return;
  if (!fit_.is_outdated(step, followed_->planned_bytes())) return;
  log(text("the job has changed: in step ", steps_ - 1, " requests for ", in_gib(step.unplanned_bytes),
           " were not in the plan"));
  // To see what changes; the first is prologue.
  steps_to_record_ = std::clamp(steps_to_record_ + 1, policy_.steps_to_differ + 1, policy_.most_steps);
  start_recording();
}

/// Goes on without the plan. The next may be on its way already.
void LifeCycle::leave(int steps, const std::string& why, bool costs_memory) {
  allocator_.drop_plan();
  cost_memory_ = costs_memory;
  if (stage_ == Stage::kFollowing) return rest(steps, why);
  log(text("following no plan: ", why));
  why_no_plan_ = why;
}

/// Once.
void LifeCycle::tell_refusals() {
  if (told_refusals_ || allocator_.statistics().refusals == 0) return;
  told_refusals_ = true;
  log("the device has no memory left for the arena; the upstream allocator serves what finds no place");
}

void LifeCycle::log(const std::string& line) const {
  if (options_.log) options_.log(text("stweaver[", options_.device, "]: ", line));
}

}  // namespace stweaver
