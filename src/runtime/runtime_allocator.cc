// Serving requests. Steps, plans, recording and statistics are in runtime_allocator_control.cc.
#include "runtime/runtime_allocator.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace stweaver {
namespace {

/// One call in so many is timed.
constexpr Tick kTimed = 64;

}  // namespace

RuntimeAllocator::RuntimeAllocator(Device& device, Upstream& upstream, const Policy& policy)
    : policy_(policy),
      device_(device),
      upstream_(upstream),
      order_(device, policy_.block),
      memory_(device, order_, policy_),
      placer_(memory_, order_, policy_),
      pending_(device, order_, [this](const PendingFrees::Released& range) { release(range); }) {}

/// Does the work of a call. Of one call in so many the accounts are told how long that took, times the calls
/// that it stands for, but for what the driver took.
template <typename Work>
auto RuntimeAllocator::timed(Work work) {
  using Clock = std::chrono::steady_clock;
  const bool is_timed = now_ % kTimed == 0;
  const std::int64_t driver = memory_.statistics().nanoseconds;
  const Clock::time_point began = is_timed ? Clock::now() : Clock::time_point();
  const auto done = work();
  if (is_timed) {
    const std::chrono::nanoseconds took = Clock::now() - began;
    const std::int64_t own = took.count() - (memory_.statistics().nanoseconds - driver);
    accounts_.note_nanoseconds(std::max<std::int64_t>(own, 0) * std::int64_t{kTimed});
  }
  return done;
}

// ---- allocate ----

void* RuntimeAllocator::allocate(Bytes size, Stream stream, Pool pool) {
  if (size <= 0) return nullptr;
  Unplanned why = Unplanned::kNoPlan;
  if (void* const memory = allocate_in_arena(size, stream, pool, why)) return memory;
  if (void* const memory = allocate_upstream(size, stream, pool, why)) return memory;
  // Out of memory, all but what is idle in the arena.
  if (void* const memory = allocate_anywhere(size, stream, pool, why)) return memory;
  if (reclaim()) {
    if (void* const memory = allocate_unplanned(size, stream, pool, why)) return memory;
    if (void* const memory = allocate_upstream(size, stream, pool, why)) return memory;
  }
  note_out_of_memory(size, stream);
  return nullptr;
}

void* RuntimeAllocator::allocate_in_arena(Bytes size, Stream stream, Pool pool, Unplanned& why) {
  const std::scoped_lock lock(mutex_);
  ++now_;
  if (!serves()) wind_down();
  if (size > kMostMemory || (!follower_ && (!places_unplanned_ || pool != 0))) return nullptr;
  return timed([&] { return place(size, stream, pool, why); });
}

/// In the plan's range or beside it; nullptr where neither has a place.
void* RuntimeAllocator::place(Bytes size, Stream stream, Pool pool, Unplanned& why) {
  const AllocParams asked = params_of(size, stream, pool);
  if (asked.stream == kNoStream) return nullptr;
  // A pool's requests come while a graph is captured, which a call of the driver would spoil.
  if (pool == 0) {
    order_.advance(now_);
    // Asking the device costs more than all else here: so only where the answer can save memory.
    if (memory_.is_new_peak(asked.rounded)) pending_.release_passed();
  }
  std::optional<Grant> grant = follower_ ? find_in_plan(asked, why) : std::nullopt;
  if (!grant) grant = find_unplanned(asked);
  return grant ? give(asked, *grant, why) : nullptr;
}

AllocParams RuntimeAllocator::params_of(Bytes size, Stream stream, Pool pool) {
  const Bytes alignment = follower_ ? follower_->plan().alignment : kAlignment;
  return {size, align_up(size, alignment), order_.index_of(stream), stream, pool, accounts_.requested()};
}

/// In the plan's range: at the planned place, or where the plan leaves a gap alone while the request lives.
/// Any other gap would displace a planned block, which would displace another, and so on through the step; so
/// it is taken only where the job does something else than the plan anyway.
std::optional<RuntimeAllocator::Grant> RuntimeAllocator::find_in_plan(const AllocParams& asked,
                                                                      Unplanned& why) {
  const Advice advice = follower_->advise(asked);
  why = advice.why;
  if (asked.pool != 0 || !follower_->is_believed(asked.stream)) return std::nullopt;
  if (advice.place && take_planned(*advice.place, asked))
    return Grant{Source::kPlanned, advice.place->lower, advice.hands_over};
  const std::optional<Bytes> gap = find_gap_in_plan(asked, advice.life);
  return gap ? std::optional(take(Source::kReused, *gap, asked)) : std::nullopt;
}

/// The smallest gap that the plan leaves alone while the request lives, or any where the stream does
/// something else than the plan, but for small requests. None where more would be kept from moving than
/// elsewhere in the arena.
std::optional<Bytes> RuntimeAllocator::find_gap_in_plan(const AllocParams& asked, Time life) {
  if (memory_.free_space.idle() < asked.rounded) return std::nullopt;
  const StreamOrder::Usable usable = order_.usable_by(asked.stream);
  const bool takes_any = follower_->is_astray(asked.stream) && asked.rounded > policy_.small;
  const auto taken = takes_any ? std::span<const Interval>() : follower_->used_within(life);
  const auto may_begin = [&](Bytes at) {
    return !places_unplanned_ || placer_.may_take({at, at + asked.rounded});
  };
  return memory_.free_space.best_fit(asked.rounded, plan_range(), usable, taken, may_begin);
}

/// Takes a planned place if it is idle and the stream can be made to come after the one that used it last.
bool RuntimeAllocator::take_planned(const Interval& place, const AllocParams& asked) {
  const auto in_order = [&](const LastUse& last) { return order_.order(asked.stream, last, now_); };
  const auto take_it = [&] { return memory_.take_if(place.lower, place.length(), in_order); };
  if (take_it()) return true;
  if (!pending_.empty()) {
    pending_.release_passed();
    if (take_it() || (pending_.release_overlapping(place, asked.handle, now_) && take_it())) return true;
  }
  return back_planned(place, asked.stream) && take_it();
}

/// Puts memory behind a planned place where no block is; behind nothing else where the stream does not do as
/// planned. Of a large request an extent may be as large as its slack. Whether some was missing.
bool RuntimeAllocator::back_planned(const Interval& place, StreamIndex stream) {
  // A gap beside the range lost its memory when what kept it there was gone.
  if (now_ < refused_until_ || !overlaps(place, plan_range()) || memory_.missing(place) == 0) return false;
  if (!memory_.is_vacant(place)) return false;
  const Bytes block = follower_->knows(stream) ? planned_block() : memory_.page_size();
  const Bytes most = std::max(planned_block(), std::min(policy_.slack(place.length()), policy_.most_extent));
  return note_backing(memory_.back(place, plan_range(), block, most));
}

/// In what blocks memory for planned requests is mapped. Where steps are alike all of a range is going to be
/// used, but an odd one may pin blocks. Where they have lengths, one may lie half in use behind each slot.
Bytes RuntimeAllocator::planned_block() const {
  const Plan& plan = follower_->plan();
  if (!follower_->is_proven()) return policy_.block;
  if (plan.shape == StepShape::kFixed) return std::min(policy_.most_extent, policy_.slack(plan.arena));
  return std::max(policy_.block, plan.arena / policy_.block_share);
}

/// A place that no plan has for the request: beside the plan's range, where idle memory is moved to if need
/// be, and in any gap of that range before memory exceeds its budget.
std::optional<RuntimeAllocator::Grant> RuntimeAllocator::find_unplanned(const AllocParams& asked) {
  if (!places_unplanned_ || asked.pool != 0) return std::nullopt;
  std::optional<Bytes> found = placer_.find(asked.rounded, asked.stream);
  if (!found && !pending_.empty()) {
    pending_.release_passed();
    found = placer_.find(asked.rounded, asked.stream);
  }
  if (found) return take(Source::kElsewhere, *found, asked);
  if (now_ < refused_until_) return std::nullopt;
  const std::optional<Interval> window = placer_.find_window(asked.rounded, asked.stream);
  const bool has_room = !follower_ || (window && memory_.make_room(*window));
  note_arena();
  if (!has_room) {
    const StreamOrder::Usable usable = order_.usable_by(asked.stream);
    const std::optional<Bytes> gap = memory_.free_space.best_fit(asked.rounded, plan_range(), usable);
    if (gap) return take(Source::kReused, *gap, asked);
  }
  const bool has_memory = note_backing(window && placer_.extend(*window));
  return has_memory ? std::optional(take(Source::kElsewhere, window->lower, asked)) : std::nullopt;
}

/// The device was asked for memory. Where it has none, it is not asked for a while.
bool RuntimeAllocator::note_backing(bool has_memory) {
  note_arena();
  if (has_memory) return true;
  refused_until_ = now_ + policy_.refused_calls;
  accounts_.note_refusal();
  return false;
}

RuntimeAllocator::Grant RuntimeAllocator::take(Source source, Bytes offset, const AllocParams& asked) {
  memory_.take(offset, asked.rounded);
  return {source, offset, source == Source::kReused && follower_->has_several_streams()};
}

void* RuntimeAllocator::give(const AllocParams& asked, const Grant& grant, Unplanned why) {
  LivingBlock block = {.address = memory_.address_of(grant.offset),
                       .size = asked.size,
                       .rounded = asked.rounded,
                       .stream = asked.stream,
                       .born = now_,
                       .source = grant.source,
                       .hands_over = grant.hands_over};
  accounts_.add(block, asked.handle, asked.pool, why);
  blocks_.insert(block);
  return reinterpret_cast<void*>(block.address);  // NOLINT(performance-no-int-to-ptr): an address
}

void* RuntimeAllocator::allocate_unplanned(Bytes size, Stream stream, Pool pool, Unplanned why) {
  const std::scoped_lock lock(mutex_);
  if (size > kMostMemory) return nullptr;
  const AllocParams asked = params_of(size, stream, pool);
  if (asked.stream == kNoStream) return nullptr;
  const std::optional<Grant> grant = find_unplanned(asked);
  return grant ? give(asked, *grant, why) : nullptr;
}

void* RuntimeAllocator::allocate_upstream(Bytes size, Stream stream, Pool pool, Unplanned why) {
  void* const memory = upstream_.allocate(size, stream, pool);
  const std::optional<Bytes> reserved =
      upstream_.may_have_grown() ? std::optional(upstream_.reserved()) : std::nullopt;
  const std::scoped_lock lock(mutex_);
  if (reserved) accounts_.note_fallback(*reserved);
  if (memory == nullptr) return nullptr;
  LivingBlock block = {.address = number_of(memory),
                       .size = size,
                       .stream = order_.index_of(stream),
                       .born = now_,
                       .source = Source::kFallback};
  // Upstream may have got a block back behind our back, and given it out again.
  if (LivingBlock* const stale = blocks_.find(block.address)) {
    accounts_.remove(*stale);
    blocks_.erase(stale);
  }
  accounts_.add(block, stream, pool, why);
  blocks_.insert(block);
  return memory;
}

/// In any gap of the arena, whatever stream used it last and whatever the plan is going to do with it.
void* RuntimeAllocator::allocate_anywhere(Bytes size, Stream stream, Pool pool, Unplanned why) {
  const std::scoped_lock lock(mutex_);
  if (pool != 0 || size > memory_.mapped() || !come_to_rest()) return nullptr;
  const AllocParams asked = params_of(size, stream, pool);
  if (asked.stream == kNoStream) return nullptr;
  const Interval all = places_unplanned_ ? Interval{0, memory_.addresses()} : plan_range();
  const std::optional<Bytes> gap = memory_.free_space.best_fit(asked.rounded, all, AnyStream{});
  if (!gap) return nullptr;
  const bool in_plan = overlaps({*gap, *gap + asked.rounded}, plan_range());
  return give(asked, take(in_plan ? Source::kReused : Source::kElsewhere, *gap, asked), why);
}

/// Waits for all work of the device, after which any stream may use what is idle.
bool RuntimeAllocator::come_to_rest() {
  if (!device_.synchronize()) return false;
  order_.settle(now_);
  pending_.release_passed();
  return true;
}

/// Gives what is idle in the arena back to the device. Whether the device is worth asking again: there was
/// any, or it was not asked because it had refused before.
bool RuntimeAllocator::reclaim() {
  {
    const std::scoped_lock lock(mutex_);
    if (!come_to_rest()) return false;
    const bool was_refused = std::exchange(refused_until_, 0) > now_;
    if (memory_.reclaim_all() == 0 && !was_refused) return false;
    accounts_.note_reclaim();
    note_arena();
  }
  empty_upstream();
  return true;
}

void RuntimeAllocator::note_out_of_memory(Bytes size, Stream stream) {
  const Bytes reserved = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  if (come_to_rest()) memory_.reclaim_all();  // what was mapped in vain
  refused_until_ = 0;
  if (follower_) follower_->forget(order_.index_of(stream), size);
  note_arena();
  accounts_.note_fallback(reserved);
  accounts_.note_out_of_memory(size, device_.memory().free);
}

// ---- free ----

void RuntimeAllocator::free(void* memory) {
  if (memory == nullptr) return;
  std::unique_lock lock(mutex_);
  ++now_;
  order_.advance(now_);
  LivingBlock* const found = blocks_.find(number_of(memory));
  if (found == nullptr) {
    const bool ours = memory_.contains(number_of(memory));
    lock.unlock();
    if (ours) fail("no block begins at ", memory, " in the arena: freed twice, or not the start of a block");
    return upstream_.free(memory);
  }
  const LivingBlock block = *found;
  blocks_.erase(found);
  accounts_.remove(block);
  if (block.source != Source::kFallback) {
    timed([&] {
      free_in_arena(block);
      return true;
    });
    return;
  }
  lock.unlock();
  upstream_.free(memory);
}

void RuntimeAllocator::free_in_arena(const LivingBlock& block) {
  const Bytes offset = memory_.offset_of(block.address);
  if (block.use != kNoUse && pending_.add(block, offset, now_)) {
    accounts_.drop(block.recorded);
  } else {
    release({offset, block.rounded, {block.stream, now_}, block.recorded});
  }
  order_.note_free(block.stream, block.rounded, now_);
  if (block.hands_over) order_.hand_over(block.stream, now_);
  if (!serves()) wind_down();
}

/// Where nothing is served in the arena any more, what is freed there goes back to the device.
void RuntimeAllocator::wind_down() {
  if (memory_.mapped() == 0) return;
  pending_.release_passed();
  kept_idle_ = std::min(kept_idle_, memory_.free_space.idle());
  if (memory_.free_space.idle() - kept_idle_ <= policy_.slack(memory_.mapped())) return;
  memory_.reclaim_all();
  kept_idle_ = memory_.free_space.idle();
  note_arena();
}

void RuntimeAllocator::release(const PendingFrees::Released& range) {
  memory_.give(range.offset, range.size, range.last);
  accounts_.release(range.size, range.recorded);
}

void RuntimeAllocator::record_stream(void* memory, Stream stream) {
  std::unique_lock lock(mutex_);
  LivingBlock* const block = blocks_.find(number_of(memory));
  if (block == nullptr || block->source == Source::kFallback) {
    const bool ours = memory_.contains(number_of(memory));
    lock.unlock();
    if (ours) fail("no block begins at ", memory, " in the arena, so it cannot be used on another stream");
    return upstream_.record_stream(memory, stream);
  }
  if (stream == order_.stream_of(block->stream)) return;
  pending_.note_use(*block, stream);
}

}  // namespace stweaver
