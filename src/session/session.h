// Layer session: all allocators of one process, what an adapter puts between PyTorch and the devices.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "runtime/runtime.h"
#include "session/out_of_memory.h"  // IWYU pragma: export
#include "session/saved_plan.h"     // IWYU pragma: export

namespace stweaver {

/// How the process runs. In paths "{device}" stands for the device's number.
struct SessionOptions {
  /// Follow this plan from the first request on; empty for none. Where one is also to be saved there, it is
  /// removed when it is left and has cost memory, or served less than half of the requests until then, as is
  /// one that this run has saved.
  std::string plan_path = {};
  std::string trace_path = {};  ///< also record into this file; empty for none
  std::string save_path = {};   ///< put the plan for the whole job there, for its next run; empty for none
  bool follows = true;          ///< false: only record
  /// Nobody calls begin_step(): steps are found in the request stream. Not with a plan_path, for nobody could
  /// tell whether it fits.
  bool finds_steps = false;
  int record_steps = LifeCycleOptions().record_steps;
  Bytes hold = 0;             ///< of a device's memory, before any is moved (RuntimeAllocator::hold())
  std::string settings = {};  ///< of the upstream allocator, for traces
  std::function<void(const std::string& line)> log = {};  ///< gets a line for each transition; may be empty
  /// What the upstream allocator alone would have reserved at most for a trace, in bytes, its cache emptied
  /// at these times; empty where nobody can tell. Called in a thread of its own, and may throw Error.
  std::function<Bytes(const Trace& trace, const std::vector<Time>& emptied)> simulate = {};
};

/// What the upstream allocator alone would have reserved for the job's beginning.
struct Simulated {
  std::int64_t steps = 0;  ///< that the recording has the ends of
  Bytes requested = 0;     ///< asked for in it at most
  Bytes reserved = 0;      ///< as simulated
};

/// What became of the files of a device's plans.
struct PlanFiles {
  SavedPlanFate followed;    ///< SessionOptions::plan_path; `refused` does not name it
  std::string removed = {};  ///< why that, or what was saved, was removed; empty where it was not
  bool saved = false;        ///< SessionOptions::save_path was written, and is there
};

/// One RuntimeAllocator and one LifeCycle for each device, made when the device is first asked for memory.
///
/// Safe to call from any thread. Ends never in a process that has given memory out: blocks may outlive
/// everything else.
class Session {
 public:
  /// What the adapter brings. The first two are called once for each device and may throw Error.
  struct Provider {
    std::function<std::unique_ptr<Device>(int device)> device;
    std::function<std::unique_ptr<Upstream>(int device)> upstream;
    /// Whether a CUDA graph is being captured: no work may be given to streams then and no event looked at.
    /// Blocks that are freed meanwhile come back later, and steps do not count. Empty: never.
    std::function<bool()> captures = {};
    /// Is told of a block just before it is freed, no earlier than work may be given to streams. Empty:
    /// nobody.
    std::function<void(void* memory)> before_free = {};
    /// Takes back memory that no device's allocator knows.
    std::function<void(void* memory)> free_foreign = {};
  };
  static constexpr int kMostDevices = 64;

  explicit Session(Provider provider) : provider_(std::move(provider)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Session(Session&&) = delete;
  Session& operator=(Session&&) = delete;
  ~Session();

  /// Begins to record, plan and follow as `options` say. What ran before ends, or goes on where only `hold`
  /// and `log` are others. Error for options that contradict each other.
  void start(const SessionOptions& options);
  /// No more recording and planning, and no plan: everything comes from upstream again. Blocks that live stay
  /// where they are. Waits for a planner at work.
  void stop();
  /// As stop(), at the end of the process: what serves requests stays as it is. To hand memory back could
  /// wait for work of the device that never ends, as that of a collective whose peer has died.
  void finish();

  /// A block on `device` for use on `stream`; nullptr for size <= 0 and when out of memory. Error for a
  /// device that is none, or cannot be opened.
  void* allocate(int device, Bytes size, Stream stream, Pool pool = 0);
  /// Takes back what allocate() returned; what it did not goes upstream.
  void free(void* memory);
  void record_stream(void* memory, Stream stream) const;
  void begin_step();
  /// What begin_step() has told of so far were no steps: what was planned from them goes, with what was
  /// saved, and recording begins anew. Waits for a planner at work, and for a plan that is being saved.
  /// Nothing where a session only records, and while a CUDA graph is captured.
  void restart();
  void empty_cache();

  /// A capture may have ended: takes back what was freed meanwhile.
  void release_deferred();

  /// The devices that were asked for memory.
  [[nodiscard]] std::vector<int> devices() const;
  /// nullptr when nothing was allocated on the device yet.
  [[nodiscard]] RuntimeAllocator* allocator(int device) const;
  /// The allocator that gave `memory` out, or whose arena it lies in; nullptr when none did. With one device
  /// it is that one's, whatever the address.
  [[nodiscard]] RuntimeAllocator* owner(const void* memory) const;
  /// The stage of a device's life cycle: "recording", "planning", "waiting", "following", "resting", or
  /// "off".
  [[nodiscard]] std::string stage(int device) const;
  /// Why the device's job follows no plan: LifeCycle::why_no_plan().
  [[nodiscard]] std::string why_no_plan(int device) const;
  /// Of the session that runs, or has ended last.
  [[nodiscard]] PlanFiles plan_files(int device) const;
  /// Why a request for `shortage.size` bytes of the device failed: explain() (out_of_memory.h). Of `shortage`
  /// only what the caller alone knows need be set.
  [[nodiscard]] std::string explain_shortage(int device, Shortage shortage) const;
  /// What SessionOptions::simulate said of the job's beginning; nothing where that was not recorded, or not
  /// simulated yet.
  [[nodiscard]] std::optional<Simulated> simulated(int device) const;
  /// The latest lines of the log, oldest first.
  [[nodiscard]] std::vector<std::string> log() const;

 private:
  /// What belongs to one device.
  struct Place {
    Place(int ordinal, const Provider& provider);

    int number;
    std::unique_ptr<Device> device;
    std::unique_ptr<Upstream> upstream;
    RuntimeAllocator allocator;
    bool begins = false;                 ///< the first recording has seen the job from its first request on
    std::atomic<std::size_t> saved{0};   ///< slots of the step in the plan that is for the next run
    std::int64_t judged = 0;             ///< of the plans adopted the one that is saved
    Served served_before;                ///< that was followed
    std::string unfit;                   ///< why what was saved is to be removed; empty where it is not
    bool began_anew = false;             ///< its life did (restart()), without the files
    PlanFiles files;                     ///< but `followed` while `life` knows it; guarded by log_mutex_
    std::function<Plan()> to_save;       ///< makes the plan for the next run
    Stage save_in = Stage::kFollowing;   ///< the stage in which that is done
    std::future<void> saver;             ///< at work on it
    std::future<void> simulator;         ///< at work on what upstream would have reserved
    std::optional<Simulated> simulated;  ///< guarded by log_mutex_
    std::vector<Time> emptied;           ///< when the program has called empty_cache(); guarded likewise
    std::unique_ptr<LifeCycle> life;
  };

  /// nullptr when nothing was allocated on the device yet.
  [[nodiscard]] Place* find(int device) const;
  Place& place(int device);
  Place& make_place(int device);
  // With life_mutex_ held:
  bool goes_on(const SessionOptions& options);
  void end_lives();
  void end_service();
  void begin_life(Place& place, bool anew = false);
  Plan plan_steps(Place& place, const Trace& trace, const Gaps& gaps);
  void save_if_settled(Place& place);
  [[nodiscard]] SavedPlanFate fate_of(const Place& place) const;
  static bool follows_judged(const Place& place);
  static void judge_saved_plan(Place& place);
  void remove_if_unfit(Place& place);
  void save(Place& place, std::function<Plan()> plan);
  void simulate(Place& place, const Trace& trace);
  std::future<void> in_thread(const std::string& failed, std::function<void()> work);
  void count_request();
  [[nodiscard]] bool captures() const { return provider_.captures && provider_.captures(); }
  void free_now(void* memory) const;
  void write(const std::string& line);
  template <typename Visit>
  void for_each_place(Visit visit) const;

  Provider provider_;
  std::array<std::atomic<Place*>, kMostDevices> places_ = {};
  std::atomic<Place*> only_{nullptr};  ///< while there is just one
  mutable std::mutex life_mutex_;      ///< guards the life cycles, options_ and the making of places
  SessionOptions options_;
  bool runs_ = false;
  std::atomic<bool> finds_steps_{false};
  std::atomic<std::uint32_t> requests_{0};

  std::mutex deferred_mutex_;
  std::vector<void*> deferred_;  ///< freed while a graph was captured
  std::atomic<bool> any_deferred_{false};

  mutable std::mutex log_mutex_;  ///< guards what threads of ours write
  std::deque<std::string> log_;
};

}  // namespace stweaver
