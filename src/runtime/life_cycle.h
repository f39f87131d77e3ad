// The life of a plan in a running job: record, plan, adopt, follow, notice that the job changed, plan again.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "plan/step_plan.h"
#include "runtime/plan_fit.h"
#include "runtime/recorder.h"
#include "runtime/runtime_allocator.h"

namespace stweaver {

/// What goes on beside serving requests; docs/runtime.md, section 5, has a drawing. A plan that is followed
/// stays in force while another is made. Requests are written down until the planner is done, so that a
/// recording that was too short just goes on.
enum class Stage : std::uint8_t {
  kRecording,  ///< every request is written down
  kPlanning,   ///< a thread works on what was recorded, or its plan waits for a step that it foretells
  kWaiting,    ///< a saved plan of steps alone waits for them
  kFollowing,  ///< a plan, and whether it fits is watched
  kResting,    ///< no plan, and none is looked for during some steps
};

std::string_view name_of(Stage stage);

struct LifeCycleOptions {
  int device = 0;        ///< its number, for traces and log lines
  std::string settings;  ///< of the upstream allocator, for traces
  /// Follow the plan in this file: from the job's first request on, or, where it is of steps alone, from the
  /// second step boundary on. Empty for none.
  std::string plan_path;
  std::string trace_path;  ///< also record into this file, the first time; empty for none
  static constexpr int kAllSteps = std::numeric_limits<int>::max();
  /// Whole steps to record before planning: the first is mostly prologue, the second the one that repeats.
  /// kAllSteps: every request to the end, and nothing is planned.
  int record_steps = 2;
  std::size_t most_recorded = Recorder::Options().most;  ///< requests in one recording
  /// Requests that no plan has a place for, those of the recorded steps above all, are served in the arena
  /// and not by the upstream allocator: see RuntimeAllocator::place_unplanned().
  bool place_unplanned = true;
  std::function<Plan(const Trace& trace, const Gaps& gaps)> plan;  ///< the planner; empty for plan_step()
  std::function<void(const std::string& line)> log;  ///< gets a line for each transition; may be empty
};

/// Of the plan that a life cycle is to begin with.
struct SavedPlanFate {
  std::int64_t slots = 0;  ///< 0 where there is none that can be read
  std::string refused;     ///< why it was not followed; empty where it was, or may be yet
};

/// Drives one RuntimeAllocator. Everything happens in begin_step() (or poll()); nothing waits for the
/// planner, and nothing that goes wrong here reaches the job: it is a line in the log, and the job goes on as
/// without a planner.
class LifeCycle {
 public:
  /// Begins with the saved plan, or to record where there is none or it cannot be read or followed. A plan
  /// whose steps differ is not followed, and nothing is recorded to make another. `allocator` must outlive
  /// this.
  LifeCycle(RuntimeAllocator& allocator, const LifeCycleOptions& options);
  /// Begins with this plan in the same way.
  LifeCycle(RuntimeAllocator& allocator, const LifeCycleOptions& options, Plan plan);
  LifeCycle(const LifeCycle&) = delete;
  LifeCycle& operator=(const LifeCycle&) = delete;
  LifeCycle(LifeCycle&&) = delete;
  LifeCycle& operator=(LifeCycle&&) = delete;
  /// Waits for the planner if it is at work.
  ~LifeCycle();

  /// A step begins, or, all the same, one has ended. To be called from one thread at a time, like all of
  /// this.
  void begin_step();

  /// For a job whose steps nobody marks, without a saved plan: to be called every Policy::poll requests.
  /// Steps are then found in the request stream itself. Does nothing once begin_step() was called.
  void poll();

  /// Blocks until the planner is done if it is at work: for replays, whose steps take no time.
  void wait_for_planner();

  [[nodiscard]] Stage stage() const { return stage_; }
  /// Why no plan is followed, in one line; empty while one is, or is being made for the first time.
  [[nodiscard]] const std::string& why_no_plan() const { return why_no_plan_; }
  [[nodiscard]] const SavedPlanFate& saved_plan() const { return fate_; }
  [[nodiscard]] bool cost_memory() const { return cost_memory_; }  ///< the plan that was left last

 private:
  using SavedPlan = std::function<Plan()>;  ///< empty when there is none

  LifeCycle(RuntimeAllocator& allocator, LifeCycleOptions options, const SavedPlan& saved);

  bool begin_with(const SavedPlan& saved);
  void start_recording();
  void stop_recording();
  [[nodiscard]] bool only_records() const { return options_.record_steps == LifeCycleOptions::kAllSteps; }
  void start_planning();
  void take_plan();
  [[nodiscard]] bool has_recorded_enough() const;
  void record_longer();
  bool follow(const std::shared_ptr<const PlanIndex>& plan, bool is_proven);
  void watch();
  void leave(int steps, const std::string& why, bool costs_memory = false);
  void rest(int steps, const std::string& why);
  void tell_refusals();
  void log(const std::string& line) const;

  RuntimeAllocator& allocator_;
  const Policy& policy_;
  LifeCycleOptions options_;
  Stage stage_ = Stage::kRecording;
  std::string why_no_plan_;
  std::int64_t steps_ = 0;  ///< boundaries so far
  // kRecording
  std::shared_ptr<Recorder> recorder_;
  std::int64_t first_whole_step_ = 0;  ///< of those recorded, by the boundary before it
  std::int64_t recording_began_ = 0;   ///< requests served before
  int steps_to_record_;                ///< whole ones
  std::int64_t requests_to_record_;    ///< where nobody marks steps
  // kPlanning and kWaiting
  std::future<std::shared_ptr<const PlanIndex>> planner_;
  std::shared_ptr<const PlanIndex> made_;      ///< did not foretell the last step; waits for one more
  std::shared_ptr<const PlanIndex> followed_;  ///< the last that was
  std::shared_ptr<const PlanIndex> saved_;
  SavedPlanFate fate_;
  // kFollowing
  PlanFit fit_;
  Bytes range_ = 0;  ///< of the plan, at the last boundary
  // kResting
  std::int64_t rest_until_ = 0;  ///< boundary
  bool cost_memory_ = false;
  bool told_refusals_ = false;
};

}  // namespace stweaver
