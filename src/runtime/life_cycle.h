// The life of a plan in a running job: record, plan, adopt, follow, notice that the job changed, plan again.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "plan/static_plan.h"
#include "runtime/recorder.h"
#include "runtime/runtime_allocator.h"

namespace stweaver {

/// What goes on beside serving requests.
///
///   kRecording --enough steps--> kPlanning --plan adopted--> kWatching --plan does not fit--> kRecording
///        ^                           |                           ^
///        +---nothing repeats---------+---no memory for it--------+
///
/// A plan that is followed stays in force through all of it, until another is adopted. Requests are written
/// down until the planner is done, so that a recording that was too short just goes on.
enum class Stage : std::uint8_t {
  kRecording,  ///< every request is written down
  kPlanning,   ///< a thread works on what was recorded, or a saved plan of steps alone waits for them
  kWatching,   ///< whether the plan fits
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
  /// Requests that no plan has a place for, those of the recorded steps above all, are served in the arena
  /// and not by the upstream allocator: see RuntimeAllocator::use_free_form().
  bool free_form = true;
  std::function<Plan(const Trace& trace)> plan;      ///< the planner; empty for plan_step()
  std::function<void(const std::string& line)> log;  ///< gets a line for each transition; may be empty
};

/// A plan for the step that repeats, by synthesize(), proven by the independent checker; without slots when
/// nothing repeats, or steps differ and too few were recorded to tell how. Error when the checker refuses it.
Plan plan_step(const Trace& trace);

/// Drives one RuntimeAllocator. Everything happens in begin_step() (or poll()); nothing waits for the
/// planner, and nothing that goes wrong here reaches the job: it is a line in the log, and the allocator goes
/// on as it is.
class LifeCycle {
 public:
  /// Begins with the saved plan, or to record where there is none, it cannot be read or followed, or there is
  /// no memory for its arena. `allocator` must outlive this.
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

  /// For a job whose steps nobody marks: to be called every thousand requests or so. Steps are then found in
  /// the request stream itself. Does nothing once begin_step() was called.
  void poll();

  /// Blocks until the planner is done if it is at work: for replays, whose steps take no time.
  void wait_for_planner();

  [[nodiscard]] Stage stage() const { return stage_; }

 private:
  using SavedPlan = std::function<Plan()>;  ///< empty when there is none

  LifeCycle(RuntimeAllocator& allocator, LifeCycleOptions options, const SavedPlan& saved);

  bool begin_with(const SavedPlan& saved);
  void follow_once_steps_repeat(std::shared_ptr<const PlanIndex> plan);
  void start_recording();
  void stop_recording();
  [[nodiscard]] bool only_records() const { return options_.record_steps == LifeCycleOptions::kAllSteps; }
  void start_planning();
  void take_plan();
  void record_longer();
  [[nodiscard]] bool is_well_served() const;
  void do_without(std::string_view why);
  bool adopt(const std::shared_ptr<const PlanIndex>& plan);
  void give_up();
  void start_watching();
  void watch();
  void leave_plan_if_astray(const Served& step);
  void tell_refusals();
  void log(const std::string& line) const;

  RuntimeAllocator& allocator_;
  LifeCycleOptions options_;
  Stage stage_ = Stage::kRecording;
  std::int64_t steps_ = 0;  ///< boundaries so far
  std::shared_ptr<Recorder> recorder_;
  std::future<std::shared_ptr<const PlanIndex>> planner_;
  std::int64_t first_whole_step_ = 0;  ///< of those recorded, by the boundary before it
  std::int64_t recording_began_ = 0;   ///< requests served before
  int steps_to_record_;                ///< whole ones
  std::int64_t requests_to_record_;    ///< where nobody marks steps
  Bytes missed_bytes_ = 0;             ///< when watch() last looked
  std::int64_t planned_in_step_ = 0;   ///< requests that the plan has places for
  int misfits_ = 0;                    ///< steps that the plan did not fit, less those that were forgiven
  int fits_ = 0;                       ///< steps in a row that it fitted
  int astray_ = 0;                     ///< steps in a row in which few requests found their places
  int patience_;                       ///< misfits to bear
  bool told_refusals_ = false;
};

}  // namespace stweaver
