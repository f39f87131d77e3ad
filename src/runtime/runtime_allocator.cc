#include "runtime/runtime_allocator.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

namespace stweaver {
namespace {

/// No device has memory for more, and less can be rounded up.
constexpr Bytes kMostBytes = Bytes{1} << 60U;

std::uintptr_t number_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

void* pointer_to(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): device addresses are numbers
}

/// Tells the accounts how long one timed call took, times the calls that it stands for, but for what the
/// driver took.
class Stopwatch {
 public:
  Stopwatch(bool runs, Tick calls, Accounts& accounts, const Memory& memory)
      : accounts_(runs ? &accounts : nullptr), memory_(&memory), calls_(calls) {
    if (accounts_ == nullptr) return;
    driver_ = memory.statistics().nanoseconds;
    began_ = std::chrono::steady_clock::now();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  Stopwatch(Stopwatch&&) = delete;
  Stopwatch& operator=(Stopwatch&&) = delete;
  ~Stopwatch() {
    if (accounts_ == nullptr) return;
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began_;
    const std::int64_t own = took.count() - (memory_->statistics().nanoseconds - driver_);
    accounts_->note_nanoseconds(std::max<std::int64_t>(own, 0) * static_cast<std::int64_t>(calls_));
  }

 private:
  Accounts* accounts_;
  const Memory* memory_;
  Tick calls_;
  std::int64_t driver_ = 0;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace

RuntimeAllocator::RuntimeAllocator(Device& device, Upstream& upstream, const Policy& policy)
    : policy_(policy),
      device_(device),
      upstream_(upstream),
      order_(device, policy_.event_spacing),
      memory_(device, order_, policy_),
      placer_(memory_, order_, policy_),
      pending_(device, order_, [this](const PendingFrees::Released& range) { release(range); }) {}

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
  note_out_of_memory(size);
  return nullptr;
}

void* RuntimeAllocator::allocate_in_arena(Bytes size, Stream stream, Pool pool, Unplanned& why) {
  const std::scoped_lock lock(mutex_);
  ++now_;
  if (size > kMostBytes || (!follower_ && (!places_unplanned_ || pool != 0))) return nullptr;
  const Stopwatch stopwatch(is_timed(), kTimed, accounts_, memory_);
  order_.advance(now_);
  const AllocParams asked = params_of(size, stream, pool);
  if (asked.stream == kNoStream) return nullptr;
  // Asking the device costs more than all else here: so only where the answer can save memory.
  if (memory_.is_new_peak(asked.rounded)) pending_.release_passed();
  std::optional<Grant> grant = follower_ ? find_in_plan(asked, why) : std::nullopt;
  if (!grant) grant = find_unplanned(asked);
  return grant ? give(asked, *grant, why) : nullptr;
}

AllocParams RuntimeAllocator::params_of(Bytes size, Stream stream, Pool pool) {
  const Bytes alignment = follower_ ? follower_->plan().alignment : kAlignment;
  return {size, align_up(size, alignment), order_.index_of(stream), stream, pool};
}

/// In the plan's range: at the planned place, or where the plan leaves a gap alone while the request lives.
/// Any other gap would displace a planned block, which would displace another, and so on through the step; so
/// it is taken only where the job does something else than the plan anyway.
std::optional<RuntimeAllocator::Grant> RuntimeAllocator::find_in_plan(const AllocParams& asked,
                                                                      Unplanned& why) {
  const Advice advice = follower_->advise(asked);
  why = advice.why;
  if (asked.pool != 0) return std::nullopt;
  if (advice.place && take_planned(*advice.place, asked))
    return Grant{Source::kPlanned, advice.place->lower, advice.hands_over};
  if (const std::optional<Bytes> gap = find_gap_in_plan(asked, advice.life))
    return take(Source::kReused, *gap, asked);
  return std::nullopt;
}

/// The smallest gap that the plan leaves alone while the request lives, or any where the stream does
/// something else than the plan.
std::optional<Bytes> RuntimeAllocator::find_gap_in_plan(const AllocParams& asked, Time life) {
  if (memory_.free_space.idle() < asked.rounded) return std::nullopt;
  const StreamOrder::Usable usable = order_.usable_by(asked.stream);
  if (follower_->is_astray(asked.stream))
    return memory_.free_space.best_fit(asked.rounded, plan_range(), usable);
  return memory_.free_space.best_fit(asked.rounded, plan_range(), usable, follower_->used_within(life));
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
  return back_planned(place) && take_it();
}

/// Puts memory behind a planned place where no block is. Whether some was missing.
bool RuntimeAllocator::back_planned(const Interval& place) {
  const Bytes missing = memory_.missing(place);
  if (missing == 0 || now_ < refused_until_) return false;
  Bytes idle = 0;
  (void)memory_.free_space.visit(place.lower, place.length(), [&](const Gap& gap) {
    idle += std::min(gap.end, place.upper) - std::max(gap.offset, place.lower);
    return true;
  });
  if (idle + missing != place.length()) return false;
  const bool has_memory = memory_.back(place, plan_range(), policy_.plan_block);
  if (!has_memory) {
    refused_until_ = now_ + policy_.refused_calls;
    accounts_.note_refusal();
  }
  note_arena();
  return has_memory;
}

/// A place that no plan has for the request: beside the plan's range, but in any gap of it before memory
/// exceeds its budget.
std::optional<RuntimeAllocator::Grant> RuntimeAllocator::find_unplanned(const AllocParams& asked) {
  if (!places_unplanned_ || asked.pool != 0) return std::nullopt;
  std::optional<Bytes> found = placer_.find(asked.rounded, asked.stream);
  if (!found && !pending_.empty()) {
    pending_.release_passed();
    found = placer_.find(asked.rounded, asked.stream);
  }
  if (found) return take(Source::kElsewhere, *found, asked);
  if (now_ < refused_until_) return std::nullopt;
  if (follower_ && memory_.exceeds_budget(asked.rounded)) {
    const StreamOrder::Usable usable = order_.usable_by(asked.stream);
    const std::optional<Bytes> gap = memory_.free_space.best_fit(asked.rounded, plan_range(), usable);
    if (gap) return take(Source::kReused, *gap, asked);
  }
  const std::optional<Bytes> made = placer_.extend(asked.rounded, asked.stream);
  if (!made) {
    refused_until_ = now_ + policy_.refused_calls;
    accounts_.note_refusal();
  }
  note_arena();
  if (!made) return std::nullopt;
  return take(Source::kElsewhere, *made, asked);
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
  return pointer_to(block.address);
}

void* RuntimeAllocator::allocate_unplanned(Bytes size, Stream stream, Pool pool, Unplanned why) {
  const std::scoped_lock lock(mutex_);
  if (size > kMostBytes) return nullptr;
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
  if (follower_) {
    const std::optional<Bytes> gap = memory_.free_space.best_fit(asked.rounded, plan_range(), AnyStream{});
    if (gap) return give(asked, take(Source::kReused, *gap, asked), why);
  }
  if (!places_unplanned_) return nullptr;
  const Interval all = {0, memory_.addresses()};
  const std::optional<Bytes> gap = memory_.free_space.best_fit(asked.rounded, all, AnyStream{});
  return gap ? give(asked, take(Source::kElsewhere, *gap, asked), why) : nullptr;
}

/// Waits for all work of the device, after which any stream may use what is idle.
bool RuntimeAllocator::come_to_rest() {
  if (!device_.synchronize()) return false;
  order_.settle(now_);
  pending_.release_passed();
  return true;
}

/// Gives what is idle in the arena back to the device. Whether there was any.
bool RuntimeAllocator::reclaim() {
  {
    const std::scoped_lock lock(mutex_);
    if (!come_to_rest() || memory_.reclaim_all() == 0) return false;
    refused_until_ = 0;
    accounts_.note_reclaim();
    note_arena();
  }
  upstream_.empty_cache();
  const Bytes reserved = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  accounts_.note_fallback(reserved);
  return true;
}

void RuntimeAllocator::note_out_of_memory(Bytes size) {
  const Bytes reserved = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  if (come_to_rest()) memory_.reclaim_all();  // what was mapped in vain
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
    const Stopwatch stopwatch(is_timed(), kTimed, accounts_, memory_);
    return free_in_arena(block);
  }
  lock.unlock();
  upstream_.free(memory);
}

void RuntimeAllocator::free_in_arena(const LivingBlock& block) {
  const Bytes offset = memory_.offset_of(block.address);
  if (block.shared && pending_.add(block, offset, now_)) {
    accounts_.drop(block.recorded);
  } else {
    release({offset, block.rounded, {block.stream, now_}, block.recorded});
  }
  order_.note_free(block.stream, now_);
  if (block.hands_over) order_.hand_over(block.stream, now_);
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
  const StreamIndex index = order_.index_of(stream);
  if (index == block->stream) return;
  pending_.note_use(*block, index);
  block->shared = true;
}

// ---- steps and plans ----

void RuntimeAllocator::begin_step() {
  const Bytes reserved = upstream_.reserved();
  const bool upstream_is_idle = reserved > upstream_.allocated();
  bool as_planned = false;
  {
    const std::scoped_lock lock(mutex_);
    step_before_began_ = std::exchange(step_began_, now_);
    accounts_.end_step(memory_.statistics());
    accounts_.note_fallback(reserved);
    pending_.release_passed();
    refused_until_ = 0;
    if (follower_) follower_->begin_step();
    as_planned = follower_ && accounts_.last_step().beside_plan() == 0;
    // What still lived when the plan was dropped, or what the step did without.
    if (as_planned || (!follower_ && !places_unplanned_)) memory_.reclaim_all(plan_range());
    note_arena();
  }
  if (!as_planned || !upstream_is_idle) return;
  upstream_.empty_cache();
  const Bytes left = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  accounts_.note_fallback(left);
}

bool RuntimeAllocator::adopt(std::shared_ptr<const PlanIndex> plan) {
  upstream_.empty_cache();  // its idle memory is about to be the arena's
  const Bytes reserved = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  accounts_.note_fallback(reserved);
  const std::optional<Bytes> base = base_for(plan->plan().arena);
  if (!base) return false;
  pending_.release_passed();
  blocks_.reserve(blocks_.size() + 2 * plan->most_alive());
  order_.set_spacing(std::max<Tick>(static_cast<Tick>(plan->plan().stream_gap) / 4, 1));
  follower_.emplace(std::move(plan), *base, policy_);
  refused_until_ = 0;
  memory_.spare(plan_range());
  memory_.reclaim_all(plan_range());
  note_arena();
  accounts_.note_plan();
  return true;
}

void RuntimeAllocator::drop_plan() {
  const std::scoped_lock lock(mutex_);
  follower_.reset();
  memory_.spare({});
  pending_.release_passed();
  if (!places_unplanned_) memory_.reclaim_all();
  note_arena();
}

void RuntimeAllocator::empty_cache() {
  upstream_.empty_cache();
  const Bytes reserved = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  pending_.release_passed();
  memory_.reclaim_all(plan_range());
  refused_until_ = 0;
  note_arena();
  accounts_.note_fallback(reserved);
}

void RuntimeAllocator::place_unplanned(bool on) {
  const std::scoped_lock lock(mutex_);
  places_unplanned_ = on;
}

bool RuntimeAllocator::follows_plan() const {
  const std::scoped_lock lock(mutex_);
  return follower_.has_value();
}

std::int64_t RuntimeAllocator::planned_in_step() const {
  const std::scoped_lock lock(mutex_);
  return follower_ ? follower_->index().planned_in_step() : 0;
}

/// The lowest place for a plan of that size, at a page, where no block is in its way that has outlived a
/// step: such a block may stay for ever. Nothing when there are not the addresses.
std::optional<Bytes> RuntimeAllocator::base_for(Bytes size) {
  const Interval region = memory_.region(Region::kPlanned);
  std::vector<Interval> old;
  blocks_.for_each([&](const LivingBlock& block) {
    if (block.source == Source::kFallback || block.born > step_before_began_) return;
    const Bytes offset = memory_.offset_of(block.address);
    old.push_back({offset, offset + block.rounded});
  });
  std::sort(old.begin(), old.end(), [](const Interval& a, const Interval& b) { return a.lower < b.lower; });
  Bytes base = region.lower;
  for (const Interval& block : old) {
    if (overlaps(block, {base, base + size})) base = align_up(block.upper, memory_.page_size());
  }
  return !region.empty() && base + size <= region.upper ? std::optional(base) : std::nullopt;
}

void RuntimeAllocator::record(std::shared_ptr<Recorder> recorder) {
  const std::scoped_lock lock(mutex_);
  accounts_.record(std::move(recorder));
  blocks_.change_each([&](LivingBlock& block) {
    const Stream stream = block.stream == kNoStream ? 0 : order_.stream_of(block.stream);
    block.recorded = accounts_.add_before(block, stream);
  });
  pending_.forget_recorded();
  accounts_.begin_record();
}

Trace RuntimeAllocator::recorded() const {
  const std::scoped_lock lock(mutex_);
  return accounts_.recorded();
}

// ---- statistics ----

RuntimeStatistics RuntimeAllocator::statistics() const {
  const std::scoped_lock lock(mutex_);
  RuntimeStatistics all = accounts_.statistics(memory_.statistics());
  all.blocks = static_cast<std::int64_t>(blocks_.size());
  all.planned_arena = plan_range().length();
  all.waiting = pending_.bytes();
  all.waits = order_.waits();
  all.events = order_.events();
  return all;
}

Bytes RuntimeAllocator::size_in_arena(const void* memory) {
  const std::scoped_lock lock(mutex_);
  const LivingBlock* const block = blocks_.find(number_of(memory));
  return block != nullptr && block->source != Source::kFallback ? block->size : 0;
}

bool RuntimeAllocator::owns(const void* memory) {
  const std::scoped_lock lock(mutex_);
  return memory_.contains(number_of(memory)) || blocks_.find(number_of(memory)) != nullptr;
}

Meters RuntimeAllocator::meters() const {
  const std::scoped_lock lock(mutex_);
  return accounts_.meters();
}

void RuntimeAllocator::reset_peaks() {
  const std::scoped_lock lock(mutex_);
  accounts_.reset_peaks();
}

void RuntimeAllocator::reset_accumulated() {
  const std::scoped_lock lock(mutex_);
  accounts_.reset_accumulated();
}

void RuntimeAllocator::for_each_in_arena(
    const std::function<void(std::uintptr_t, Bytes, Stream)>& visit) const {
  std::vector<std::tuple<std::uintptr_t, Bytes, Stream>> found;
  {
    const std::scoped_lock lock(mutex_);
    blocks_.for_each([&](const LivingBlock& block) {
      if (block.source == Source::kFallback) return;
      found.emplace_back(block.address, block.size, order_.stream_of(block.stream));
    });
  }
  std::sort(found.begin(), found.end());
  for (const auto& [address, size, stream] : found) visit(address, size, stream);
}

std::vector<RuntimeAllocator::Living> RuntimeAllocator::living() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Living> found;
  found.reserve(blocks_.size());
  blocks_.for_each([&](const LivingBlock& block) {
    found.push_back({.size = block.size, .outlived_step = step_began_ > 0 && block.born <= step_began_});
  });
  return found;
}

std::vector<std::pair<std::uintptr_t, Bytes>> RuntimeAllocator::extents() const {
  const std::scoped_lock lock(mutex_);
  return memory_.extents();
}

}  // namespace stweaver
