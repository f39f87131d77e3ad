// The Runtime Allocator of one device: serves a live job's requests, from a plan where there is one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "arena/block_table.h"
#include "arena/memory.h"
#include "arena/pending_frees.h"
#include "arena/placer.h"
#include "arena/stream_order.h"
#include "runtime/accounts.h"
#include "runtime/plan_follower.h"
#include "runtime/policy.h"
#include "runtime/statistics.h"
#include "runtime/upstream.h"

namespace stweaver {

/// Serves each request
/// 1. at the place that the plan has for it, if that is idle;
/// 2. else in the smallest gap of the plan's range that needs no wait for another stream and that the plan
///    leaves alone while the request lives (Dynamic Reusable Space);
/// 3. else, with place_unplanned(), elsewhere in the arena (placer.h), where idle memory is moved to; before
///    memory would exceed its budget, in any gap of the plan's range;
/// 4. else from the upstream allocator.
///
/// The plan owns addresses, never memory: that follows demand (memory.h), and adopting a plan maps nothing.
///
/// The plan is advice: every grant asks the free space first, so two living blocks never share a byte,
/// whatever the plan says and whatever the job does. Memory freed on one stream goes to another only behind
/// an event wait; a block that other streams were recorded for is idle once they are done, or once the stream
/// that needs its place waits for them.
///
/// Safe to call from any thread; one lock per allocator, which is not held while upstream is called. Once the
/// tables have grown to the size of the job, a request that moves no memory does not touch the heap, but for
/// the first of a step that is longer than all before (PlanFollower).
class RuntimeAllocator {
 public:
  /// Both must outlive this. Ends only when no block is in use: blocks in the arena lose their memory.
  RuntimeAllocator(Device& device, Upstream& upstream, const Policy& policy = {});

  /// A block of `size` bytes for use on `stream`; nullptr for size <= 0 and when out of memory, after all
  /// that is idle was given back. `pool` is 0 but for requests of CUDA graphs and MemPools, which are
  /// upstream's.
  void* allocate(Bytes size, Stream stream = 0, Pool pool = 0);

  /// Takes a block back; nullptr is ignored. What this did not allocate goes to upstream, which knows it or
  /// throws. Error for an address in the arena where no block begins: a double free, or not the block's
  /// start.
  void free(void* memory);

  /// The block is used on `stream` too. Error as free().
  void record_stream(void* memory, Stream stream);

  /// A step begins: the plan is followed from its step on, and where the last step was as planned, memory
  /// that it did without goes back to the device.
  void begin_step();

  /// Follows this plan from now on, beginning with its prologue if it has one and else with its step; to be
  /// called before the job's first request or at a step boundary. Blocks that live stay where they are; the
  /// new plan's range lies where no block is that has outlived a step. Maps nothing and gives idle memory
  /// back. `is_proven`: a step of this process was seen to be as planned. False when the device cannot map,
  /// or has not the addresses: then all is as before.
  bool adopt(std::shared_ptr<const PlanIndex> plan, bool is_proven = false);

  /// Gaps among blocks that have outlived a step, by offset: a plan may use them (Plan::in_gaps).
  Gaps lasting_gaps();
  /// What living blocks keep from moving beside the range of the plan, if there is one: 0 once a step was as
  /// planned. To be asked between two steps.
  [[nodiscard]] Bytes pinned_beside_plan() const;

  /// Follows no plan from now on; memory stays where it is until it is needed elsewhere.
  void drop_plan();

  /// Gives back all that is idle, upstream's cache and the arena's: something else is to have it.
  void empty_cache();

  /// Writes every request down from now on, blocks that live first. nullptr: no more.
  void record(std::shared_ptr<Recorder> recorder);
  /// A copy of what was written down so far; empty where nothing is recorded.
  [[nodiscard]] Trace recorded() const;

  /// Whether requests that no plan has a place for are served in the arena too (placer.h); off at first.
  /// CUDA graphs, MemPools and whatever the device has no memory for are upstream's all the same. Blocks stay
  /// where they are. Where nothing is served in the arena any more, what is freed there goes back to the
  /// device.
  void place_unplanned(bool on);
  /// Of the device's memory so many bytes may be held before any is moved to where it is needed: where steps
  /// differ, that takes less time and more memory. 0: no more than is used, and a little slack.
  void hold(Bytes most);

  [[nodiscard]] bool follows_plan() const;
  /// Between two steps: lays a plan of longer steps out for those of this run, where the arena held much more
  /// than the budget under it for the second time, in steps that held more than any before. Whether it did.
  bool fit_lengths();
  /// Whether in the last step the arena held more under a plan than ever before and than the plan needs, and
  /// beyond the budget by more than the slack more than in any step without a plan: much more, or not for the
  /// first time. To be asked once after each step.
  [[nodiscard]] bool plan_costs_memory();
  [[nodiscard]] RuntimeStatistics statistics() const;
  [[nodiscard]] const Policy& policy() const { return policy_; }

  /// Whether `memory` lies in the arena, without a lock; or was allocated here otherwise and lives.
  [[nodiscard]] bool covers(const void* memory) const { return memory_.contains(number_of(memory)); }
  [[nodiscard]] bool owns(const void* memory);
  struct ArenaBlock {
    Bytes size = 0;  ///< as asked for
    Stream stream = 0;
  };
  /// The living block of the arena that begins at `memory`; of 0 bytes when none does.
  [[nodiscard]] ArenaBlock block_in_arena(const void* memory);

  [[nodiscard]] Meters meters() const;
  void reset_peaks();        ///< of meters()
  void reset_accumulated();  ///< of meters()

  /// The arena at one moment, by address: pieces of memory as first byte and size in bytes.
  struct ArenaContents {
    using Pieces = std::vector<std::pair<std::uintptr_t, Bytes>>;
    Pieces blocks;   ///< that live, of the sizes that were asked for
    Pieces extents;  ///< where memory is
  };
  [[nodiscard]] ArenaContents contents() const;
  struct Living {
    Bytes size = 0;              ///< as asked for
    bool outlived_step = false;  ///< was there when the step began
  };
  /// The living blocks, the fallback's too, in no order.
  [[nodiscard]] std::vector<Living> living() const;

 private:
  struct Grant {
    Source source = Source::kPlanned;
    Bytes offset = 0;
    bool hands_over = false;
  };

  template <typename Work>
  auto timed(Work work);
  void* allocate_in_arena(Bytes size, Stream stream, Pool pool, Unplanned& why);
  void* place(Bytes size, Stream stream, Pool pool, Unplanned& why);
  void* allocate_upstream(Bytes size, Stream stream, Pool pool, Unplanned why);
  void* allocate_anywhere(Bytes size, Stream stream, Pool pool, Unplanned why);
  void* allocate_unplanned(Bytes size, Stream stream, Pool pool, Unplanned why);
  [[nodiscard]] AllocParams params_of(Bytes size, Stream stream, Pool pool);
  std::optional<Grant> find_in_plan(const AllocParams& asked, Unplanned& why);
  std::optional<Bytes> find_gap_in_plan(const AllocParams& asked, Time life);
  bool take_planned(const Interval& place, const AllocParams& asked);
  bool back_planned(const Interval& place, StreamIndex stream);
  [[nodiscard]] Bytes planned_block() const;
  std::optional<Grant> find_unplanned(const AllocParams& asked);
  Grant take(Source source, Bytes offset, const AllocParams& asked);
  void* give(const AllocParams& asked, const Grant& grant, Unplanned why);

  void empty_upstream();
  bool come_to_rest();
  bool reclaim();
  bool note_backing(bool has_memory);
  void note_out_of_memory(Bytes size, Stream stream);
  void free_in_arena(const LivingBlock& block);
  void wind_down();
  void release(const PendingFrees::Released& range);
  void note_arena() { accounts_.note_arena(memory_.mapped()); }

  [[nodiscard]] bool serves() const { return follower_ || places_unplanned_; }
  [[nodiscard]] Interval plan_range() const { return follower_ ? follower_->range() : Interval{}; }
  [[nodiscard]] Bytes held_in_last_step() const;

  mutable std::mutex mutex_;
  const Policy policy_;
  Device& device_;
  Upstream& upstream_;
  StreamOrder order_;
  Memory memory_;
  Placer placer_;
  PendingFrees pending_;
  BlockTable blocks_;
  Accounts accounts_;
  std::optional<PlanFollower> follower_;
  bool places_unplanned_ = false;
  int loose_steps_ = 0;          ///< in which a plan held much more than the budget
  int costly_steps_ = 0;         ///< in which it held a little more than no plan would have
  Bytes excess_ = 0;             ///< the most held beyond the budget in a step without a plan
  Tick refused_until_ = 0;       ///< the device has no memory until then
  Bytes kept_idle_ = 0;          ///< what was idle, but could not go back, when wind_down() last tried
  bool was_as_planned_ = false;  ///< the last step
  Tick now_ = 0;
  Tick step_began_ = 0;
  Tick step_before_began_ = 0;
};

}  // namespace stweaver
