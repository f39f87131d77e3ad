// The Runtime Allocator of one device: serves a live job's requests from a plan.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/arena.h"
#include "runtime/backoff.h"
#include "runtime/block_table.h"
#include "runtime/free_form.h"
#include "runtime/matcher.h"
#include "runtime/meters.h"
#include "runtime/recorder.h"
#include "runtime/statistics.h"
#include "runtime/stream_order.h"
#include "runtime/upstream.h"

namespace stweaver {

/// Serves each request
/// 1. at the place that the plan has for it, if nobody lives there;
/// 2. else in the smallest gap of the plan's range that needs no wait for another stream and is left alone by
///    the plan while the request lives (Dynamic Reusable Space);
/// 3. else, with use_free_form(), beside the plan's range, where the arena is idle or grows; before it would
///    hold more memory than ever, in any gap;
/// 4. else from the upstream allocator.
///
/// The plan is advice: every grant asks the free space first, so two living blocks never share a byte,
/// whatever the plan says and whatever the job does. Memory that one stream freed goes to another only behind
/// an event wait; a block that other streams were recorded for is idle once they are done, or once whoever
/// needs its place waits for them.
///
/// Safe to call from any thread; one lock per allocator, which is not held while upstream is called. Once the
/// tables have grown to the size of the job, a request served from the arena does not touch the heap.
class RuntimeAllocator {
 public:
  /// Both must outlive this. Ends only when no block is in use: what lives in the arena loses its memory.
  RuntimeAllocator(Device& device, Upstream& upstream);
  RuntimeAllocator(const RuntimeAllocator&) = delete;
  RuntimeAllocator& operator=(const RuntimeAllocator&) = delete;
  RuntimeAllocator(RuntimeAllocator&&) = delete;
  RuntimeAllocator& operator=(RuntimeAllocator&&) = delete;
  ~RuntimeAllocator();

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

  /// A step begins: the matcher starts at the plan's step, and idle memory of the fallback that the last step
  /// did not need goes back to the device.
  void begin_step();

  /// Follows this plan from now on, beginning with its prologue if it has one and else with its step; to be
  /// called before the job's first request or at a step boundary. Blocks that live stay where they are; the
  /// new plan's range lies where no block is that has outlived a step. False when the device has not the
  /// memory, or cannot map any: then all is as before.
  bool adopt(std::shared_ptr<const PlanIndex> plan);

  /// Follows no plan from now on. What is idle in the arena goes back to the device.
  void drop_plan();

  /// Gives back all that nobody uses and that no plan is going to: upstream's cache, and arena beyond the
  /// plan.
  void empty_cache();

  /// Writes every request down from now on, blocks that live first. nullptr: no more.
  void record(std::shared_ptr<Recorder> recorder);
  /// A copy of what was written down so far; empty where nothing is recorded.
  [[nodiscard]] Trace recorded() const;

  /// Whether requests that no plan has a place for are served in the arena too (free_form.h), so that what
  /// they leave behind can be given back page by page; off at first. CUDA graphs, MemPools and whatever the
  /// device has no memory for are upstream's all the same. Blocks stay where they are.
  void use_free_form(bool on);

  [[nodiscard]] bool follows_plan() const;
  [[nodiscard]] RuntimeStatistics statistics() const;

  /// Whether `memory` was allocated here and lives, or lies in the arena.
  [[nodiscard]] bool owns(const void* memory);
  /// Bytes asked for by the living block of the arena that begins at `memory`; 0 when none does.
  [[nodiscard]] Bytes size_in_arena(const void* memory);

  [[nodiscard]] Meters meters() const;
  void reset_peaks();        ///< of meters()
  void reset_accumulated();  ///< of meters()

  /// Calls visit(address, size, stream) for each living block in the arena, by address.
  void for_each_in_arena(const std::function<void(std::uintptr_t, Bytes, Stream)>& visit) const;
  /// Where memory is behind the arena: [first byte, size in bytes), by address.
  [[nodiscard]] std::vector<std::pair<std::uintptr_t, Bytes>> extents() const;

 private:
  /// A freed block that other streams may still use.
  struct Waiting {
    static constexpr std::size_t kMostEvents = 4;
    Bytes offset = 0;
    Bytes size = 0;  ///< as taken from the arena
    LaneId lane = 0;
    Tick freed = 0;
    RequestId recorded = kNotRecorded;
    std::array<DeviceEvent, kMostEvents> events = {};  ///< kNoEvent behind the last
    bool uncertain = false;  ///< a stream could not be asked: in use until all streams are known to be done

    [[nodiscard]] bool is_over() const { return events.front() == kNoEvent && !uncertain; }
  };

  struct Shared {
    std::uintptr_t address = 0;
    LaneId lane = 0;
  };

  struct Wish {
    Bytes size = 0;  ///< as asked for
    Bytes room = 0;  ///< that rounded up to the plan's alignment
    Stream stream = 0;
    LaneId lane = kNobody;
    Pool pool = 0;
  };

  struct Grant {
    Source source = Source::kPlanned;
    Bytes offset = 0;
    bool hands_over = false;
  };

  [[nodiscard]] const Plan& plan() const { return matcher_->index().plan(); }
  [[nodiscard]] Interval plan_range() const;

  void* allocate_in_arena(Bytes size, Stream stream, Pool pool, Miss& why);
  std::optional<Grant> find_place(const Wish& wish, Miss& why);
  [[nodiscard]] Time life_of(std::uint32_t number) const;
  [[nodiscard]] std::size_t step_length() const;
  [[nodiscard]] bool outgrows_plan(const Wish& wish) const;
  void compare_with_plan_from_here();
  std::optional<Miss> take_slot(const Wish& wish);
  std::optional<Bytes> find_in_room(const Wish& wish, std::uint32_t slot);
  std::optional<Bytes> find_gap(const Wish& wish, Miss why, Time life);
  bool take(Bytes offset, const Wish& wish);
  bool settle_overlapping(Bytes offset, const Wish& wish);
  void* allocate_upstream(Bytes size, Stream stream, Pool pool, Miss why);
  void* allocate_anywhere(Bytes size, Stream stream, Pool pool, Miss why);
  std::optional<Grant> find_free_form(const Wish& wish);
  [[nodiscard]] Interval governed() const;
  [[nodiscard]] bool avoids_growth(Bytes missing) const;
  void avoid_growth(const Window& window);
  std::optional<Bytes> find_any_gap(const Wish& wish);
  void* allocate_free_form(Bytes size, Stream stream, Pool pool, Miss why);
  [[nodiscard]] Wish wish_of(Bytes size, Stream stream, Pool pool);
  void* give(const Wish& wish, const Grant& grant, Miss why);
  Grant reuse(Bytes gap, const Wish& wish);
  bool come_to_rest();
  bool reclaim();
  void note_out_of_memory(Bytes size);

  void add_block(LivingBlock block, Stream stream, Pool pool);
  void free_in_arena(const LivingBlock& block);
  Waiting waiting_of(const LivingBlock& block);
  void release_passed();
  void release(const Waiting& waiting, Tick freed);
  void make_idle(Bytes offset, Bytes size, const LastUse& last, RequestId recorded);

  [[nodiscard]] Bytes base_for(Bytes size) const;
  [[nodiscard]] Bytes extent_for(const PlanIndex& plan) const;
  void end_step();
  void note_fallback(Bytes reserved);
  void note_reserved();
  void count_living(const LivingBlock& block);
  void count_freed(const LivingBlock& block);
  Bytes& living_of(Source source);
  void count_served(const LivingBlock& block, Miss why);

  mutable std::mutex mutex_;
  Device& device_;
  Upstream& upstream_;
  Arena arena_;
  BlockTable blocks_;
  StreamOrder order_;
  FreeForm free_form_;
  bool uses_free_form_ = false;
  bool is_trimmed_ = true;      ///< nothing worth giving back is idle outside the plan's range
  Backoff releasing_;           ///< of idle memory at step boundaries
  Backoff collecting_;          ///< of idle memory in the middle of a step
  bool has_collected_ = false;  ///< in this step
  Bytes collected_at_ = 0;      ///< what the arena had to hold when idle memory was last collected in turn
  std::optional<Matcher> matcher_;  ///< of the plan that is followed
  Bytes base_ = 0;                  ///< of the plan's range in the arena
  std::uint32_t slot_ = 0;          ///< matched last
  bool has_outgrown_plan_ = false;  ///< this step
  Bytes beside_plan_ = 0;           ///< asked for by what lives and is no slot's
  std::vector<Interval> in_use_;    ///< by the plan while a request lives, which is being placed
  bool has_holes_ = false;          ///< parts of the plan's range were given back or borrowed
  Tick now_ = 0;
  Tick step_began_ = 0;
  Tick step_before_began_ = 0;
  std::vector<Shared> shared_;
  std::vector<Waiting> waiting_;  ///< in order of their frees
  std::shared_ptr<Recorder> recorder_;
  RuntimeStatistics statistics_;
  Tally tally_;
};

}  // namespace stweaver
