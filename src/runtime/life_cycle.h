// The life of a plan in a running job: record, plan, adopt, follow, notice that the job changed, plan again.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "plan/static_plan.h"
#include "runtime/recorder.h"
#include "runtime/runtime_allocator.h"

namespace stweaver {

/// Where a job stands between two step boundaries.
enum class Stage : std::uint8_t {
  kFollowing,  ///< nothing to do: the plan fits, or there is none and planning was given up
  kRecording,  ///< every request is written down
  kPlanning,   ///< a thread works on what was recorded
};

std::string_view name_of(Stage stage);

struct LifeCycleOptions {
  int device = 0;  ///< its number, for traces and log lines
  /// Steps to record before planning: the first is mostly prologue, and repetition takes two.
  int record_steps = 3;
  std::string trace_path;  ///< also record into this file; empty for none
  Plan (*plan)(const Trace& trace) = nullptr;  ///< the planner; nullptr for plan_step()
  std::function<void(const std::string& line)> log;  ///< gets one line per transition; may be empty
};

/// Drives one RuntimeAllocator. All happens at step boundaries, in begin_step(); nothing waits for the planner.
class LifeCycle {
 public:
  /// Begins to record. `allocator` must outlive this.
  LifeCycle(RuntimeAllocator& allocator, LifeCycleOptions options);
  /// Begins with a plan from an earlier run, from the job's first request on; records if there is no memory for
  /// its arena.
  LifeCycle(RuntimeAllocator& allocator, LifeCycleOptions options, Plan plan);
  LifeCycle(const LifeCycle&) = delete;
  LifeCycle& operator=(const LifeCycle&) = delete;
  LifeCycle(LifeCycle&&) = delete;
  LifeCycle& operator=(LifeCycle&&) = delete;
  /// Waits for the planner, which may still be at work.
  ~LifeCycle();

  /// A step begins. Call it between two steps, from one thread at a time.
  void begin_step();

  /// Blocks until the planner is done, if it is at work: for a replay, whose steps take no time.
  void wait_for_planner();

  [[nodiscard]] Stage stage() const;

 private:
  void start_recording();
  void start_planning();
  void take_plan();
  void watch();
  void log(const std::string& line) const;

  RuntimeAllocator& allocator_;
  LifeCycleOptions options_;
  Stage stage_ = Stage::kFollowing;
  std::shared_ptr<Recorder> recorder_;
  std::future<std::shared_ptr<const PlanIndex>> planner_;
  int steps_recorded_ = 0;
  int steps_to_record_ = 0;
  int misfits_ = 0;        ///< steps in a row that the plan did not fit
  int patience_ = 0;       ///< misfitting steps to bear before planning again
};

}  // namespace stweaver
