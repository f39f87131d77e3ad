#include "runtime/runtime_allocator.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace stweaver {
namespace {

/// Idle memory of the fallback goes back at a step boundary if the step did without the fallback, or if it is
/// more than this share of the arena: giving back costs a synchronization, and so does asking again.
constexpr Bytes kWorthReleasing = 64;
/// The arena may hold this share more than when idle memory was last collected, before it is again.
constexpr Bytes kBearableGrowth = 64;
/// A request that the plan does not know is taken to live for so many others.
constexpr Time kHorizon = 256;
/// No device has memory for more, and less can be rounded up.
constexpr Bytes kMostBytes = Bytes{1} << 60U;

std::uintptr_t number_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

void* pointer_to(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): device addresses are numbers
}

/// What the block takes; of the fallback's nobody has told.
Bytes rounded(const LivingBlock& block) {
  return block.source == Source::kFallback ? align_up(block.size, kAlignment) : block.room;
}

}  // namespace

RuntimeAllocator::RuntimeAllocator(Device& device, Upstream& upstream)
    : device_(device), upstream_(upstream), arena_(device), order_(device), free_form_(arena_, order_) {}

RuntimeAllocator::~RuntimeAllocator() {
  for (const Waiting& waiting : waiting_) {
    for (const DeviceEvent event : waiting.events) {
      if (event != kNoEvent) device_.forget(event);
    }
  }
}

// ---- allocate ----

void* RuntimeAllocator::allocate(Bytes size, Stream stream, Pool pool) {
  if (size <= 0) return nullptr;
  Miss why = Miss::kNoPlan;
  if (void* const memory = allocate_in_arena(size, stream, pool, why)) return memory;
  if (void* const memory = allocate_upstream(size, stream, pool, why)) return memory;
  // Out of memory, all but what is idle in the arena.
  if (void* const memory = allocate_anywhere(size, stream, pool, why)) return memory;
  if (reclaim()) {
    if (void* const memory = allocate_free_form(size, stream, pool, why)) return memory;
    if (void* const memory = allocate_upstream(size, stream, pool, why)) return memory;
  }
  note_out_of_memory(size);
  return nullptr;
}

void* RuntimeAllocator::allocate_in_arena(Bytes size, Stream stream, Pool pool, Miss& why) {
  const std::scoped_lock lock(mutex_);
  ++now_;
  if (matcher_ && size > plan().arena) why = Miss::kTooLarge;
  const bool governed = matcher_ && size <= plan().arena;
  if (!governed && (!uses_free_form_ || pool != 0 || size > kMostBytes)) return nullptr;
  order_.advance(now_);
  if (!waiting_.empty()) release_passed();
  const Wish wish = wish_of(size, stream, pool);
  std::optional<Grant> grant = governed ? find_place(wish, why) : std::nullopt;
  if (!grant) grant = find_free_form(wish);
  return grant ? give(wish, *grant, why) : nullptr;
}

RuntimeAllocator::Wish RuntimeAllocator::wish_of(Bytes size, Stream stream, Pool pool) {
  const Bytes alignment = matcher_ ? plan().alignment : kAlignment;
  return {size, align_up(size, alignment), stream, order_.lane_of(stream), pool};
}

/// What free form leaves alone: the plan's range, but in a step that has outgrown the plan.
Interval RuntimeAllocator::governed() const {
  return has_outgrown_plan_ ? Interval{} : plan_range();
}

/// A place that no plan has for it: where no plan governs, but rather in the plan's range than in more memory
/// than ever.
std::optional<RuntimeAllocator::Grant> RuntimeAllocator::find_free_form(const Wish& wish) {
  if (!uses_free_form_ || wish.pool != 0 || wish.lane == kNobody) return std::nullopt;
  std::optional<Bytes> place = free_form_.find(wish.room, wish.lane, governed());
  if (!place && !free_form_.is_closed(now_)) {
    std::optional<Window> window = free_form_.find_window(wish.room, wish.lane, governed());
    if (matcher_ && window && free_form_.grows_beyond_ever(window->missing)) {
      if (const std::optional<Bytes> gap = find_any_gap(wish)) return reuse(*gap, wish);
      const auto no_wait = [&](const LastUse& last) { return order_.ordered(wish.lane, last); };
      const std::optional<Window> inside = find_window(arena_, wish.room, plan_range(), no_wait);
      if (inside && inside->missing < window->missing) window = inside;
    }
    if (window) {
      if (avoids_growth(window->missing)) avoid_growth(*window);
      place = free_form_.extend(*window, plan_range());
    }
    if (!place) {
      free_form_.pause(now_);
      ++statistics_.refusals;
    }
    note_reserved();
  }
  if (!place) return std::nullopt;
  if (overlaps({*place, *place + wish.room}, plan_range())) return reuse(*place, wish);
  arena_.free_space.take(*place, wish.room);
  return Grant{Source::kFreeForm, *place, false};
}

/// Few steps have no plan. Those that have one avoid growth now and then, and always where it would be too
/// much.
bool RuntimeAllocator::avoids_growth(Bytes missing) const {
  if (!matcher_ || collecting_.allows()) return true;
  // It may have held much that was idle when that was last collected.
  const Bytes needed = std::min(collected_at_, std::max(statistics_.peaks.requested, plan().arena));
  return arena_.mapped() + missing > needed + needed / kBearableGrowth;
}

/// Before the arena holds more memory than ever: unmaps what is idle, or borrows memory from behind the
/// plan's idle places, for this step.
void RuntimeAllocator::avoid_growth(const Window& window) {
  const Bytes before = arena_.mapped();
  const Bytes excess = free_form_.make_room(window, plan_range());
  if (excess > 0 && matcher_) {
    const Bytes left = arena_.mapped();
    arena_.unmap_idle({}, excess, window.range);
    if (arena_.mapped() < left) has_holes_ = true;
  }
  if (arena_.mapped() < before) {
    has_collected_ = true;
    if (collecting_.allows()) collected_at_ = arena_.mapped() + window.missing;
  }
}

/// In the plan's range, whoever is to use it next.
std::optional<Bytes> RuntimeAllocator::find_any_gap(const Wish& wish) {
  const auto no_wait = [&](const LastUse& last) { return order_.ordered(wish.lane, last); };
  return arena_.free_space.best_fit(wish.room, plan_range(), no_wait);
}

void* RuntimeAllocator::allocate_free_form(Bytes size, Stream stream, Pool pool, Miss why) {
  const std::scoped_lock lock(mutex_);
  if (size > kMostBytes) return nullptr;
  const Wish wish = wish_of(size, stream, pool);
  const std::optional<Grant> grant = find_free_form(wish);
  return grant ? give(wish, *grant, why) : nullptr;
}

void* RuntimeAllocator::give(const Wish& wish, const Grant& grant, Miss why) {
  const LivingBlock block = {.address = arena_.address_of(grant.offset),
                             .size = wish.size,
                             .room = wish.room,
                             .lane = wish.lane,
                             .source = grant.source,
                             .hands_over = grant.hands_over};
  add_block(block, wish.stream, wish.pool);
  count_served(block, why);
  return pointer_to(block.address);
}

/// Where in the arena the request goes; nothing when it is the fallback's. One of a private pool is the
/// fallback's anyway, but takes its turn among the slots.
std::optional<RuntimeAllocator::Grant> RuntimeAllocator::find_place(const Wish& wish, Miss& why) {
  why = Miss::kUnknown;
  if (wish.lane == kNobody) return std::nullopt;
  const std::optional<Match> match = matcher_->match(wish.lane, wish.stream, wish.size, wish.pool);
  if (wish.pool != 0) {
    why = Miss::kPool;
    return std::nullopt;
  }
  if (match && !match->guess) {
    if (match->slot < slot_ && slot_ - match->slot > step_length() / 2) compare_with_plan_from_here();
    slot_ = match->slot;
    has_outgrown_plan_ = has_outgrown_plan_ || outgrows_plan(wish);
    const std::optional<Miss> reason = take_slot(wish);
    if (!reason)
      return Grant{Source::kPlanned, base_ + plan().slots[slot_].offset, matcher_->index().hands_over(slot_)};
    why = *reason;
  }
  if (has_outgrown_plan_) return std::nullopt;
  // A guess tells at least how long such a request lives. One that the plan does not know may be the next
  // slot's after all, of another size.
  const Time life = match ? life_of(match->slot) : std::max(kHorizon, life_of(slot_ + 1));
  std::optional<Bytes> gap = match ? find_in_room(wish, match->slot) : std::nullopt;
  if (!gap) gap = find_gap(wish, why, life);
  if (!gap) return std::nullopt;
  return reuse(*gap, wish);
}

RuntimeAllocator::Grant RuntimeAllocator::reuse(Bytes gap, const Wish& wish) {
  arena_.free_space.take(gap, wish.room);
  return {Source::kReused, gap, matcher_->index().streams().size() > 1};
}

/// How long a slot's request lives, in requests; 0 behind the last slot.
Time RuntimeAllocator::life_of(std::uint32_t number) const {
  if (number >= plan().slots.size()) return 0;
  const Time death = plan().slots[number].death;
  return death == kForever ? kForever : death - static_cast<Time>(number);
}

/// The step is larger than the plan is made for, or different: sizes vary, this one is too large, and more
/// lives than the plan has alive here. Where sizes move on their own, one that is too large says nothing of
/// the step.
bool RuntimeAllocator::outgrows_plan(const Wish& wish) const {
  const PlanIndex& index = matcher_->index();
  const Slot& slot = plan().slots[slot_];
  return uses_free_form_ && slot_ >= plan().prologue && slot.varying && wish.room > slot.size &&
         slot.offset != kUnplanned && slot.death != kForever && !index.use_of_slots() &&
         statistics_.requested - beside_plan_ + wish.size > index.alive(slot_);
}

/// A step begins.
void RuntimeAllocator::compare_with_plan_from_here() {
  has_outgrown_plan_ = false;
  beside_plan_ = statistics_.requested - matcher_->index().alive_between_steps();
}

std::size_t RuntimeAllocator::step_length() const {
  return plan().slots.size() - plan().prologue;
}

/// Takes the place of the slot that was matched last. Nothing when it did, else why it could not.
std::optional<Miss> RuntimeAllocator::take_slot(const Wish& wish) {
  const Slot& slot = plan().slots[slot_];
  if (slot.offset == kUnplanned) return Miss::kDynamic;
  if (wish.room > slot.size) return Miss::kTooLarge;
  if (has_outgrown_plan_ && slot_ >= plan().prologue && slot.death != kForever) return Miss::kTooLarge;
  if (!take(base_ + slot.offset, wish)) return Miss::kOccupied;
  return std::nullopt;
}

/// In what is set aside for the slot's group.
std::optional<Bytes> RuntimeAllocator::find_in_room(const Wish& wish, std::uint32_t slot) {
  const Interval& room = plan().slots[slot].room;
  if (room.empty()) return std::nullopt;
  const auto no_wait = [&](const LastUse& last) { return order_.ordered(wish.lane, last); };
  return arena_.free_space.best_fit(wish.room, {base_ + room.lower, base_ + room.upper}, no_wait);
}

/// The smallest gap that the plan leaves alone for the next `life` requests. Any other would be in the way of
/// planned requests, which would be in the way of others, and so on through the step. Any gap will do where
/// the plan is not followed anyway: in a step larger than planned, or in something else than a step.
std::optional<Bytes> RuntimeAllocator::find_gap(const Wish& wish, Miss why, Time life) {
  const auto no_wait = [&](const LastUse& last) { return order_.ordered(wish.lane, last); };
  const auto find = [&] { return arena_.free_space.best_fit(wish.room, plan_range(), no_wait, in_use_); };
  in_use_.clear();
  const PlanIndex& index = matcher_->index();
  // Where sizes move on their own, one that outgrew its slot says nothing of the step.
  const bool outgrown = why == Miss::kTooLarge && !index.use_of_slots();
  if (outgrown || matcher_->is_astray(wish.lane)) return find();
  const Time death = life == kForever ? kForever : static_cast<Time>(slot_) + life;
  const auto find_beside = [&](const PlannedUse& use) {
    use.between(slot_, death, in_use_);
    for (Interval& range : in_use_) range = {range.lower + base_, range.upper + base_};
    return find();
  };
  const std::optional<Bytes> gap = find_beside(index.use());
  // A room is set aside for the most that its group ever had: not all of them are full at one time.
  return gap || !index.use_of_slots() ? gap : find_beside(*index.use_of_slots());
}

/// Takes a planned place if nobody lives there and the lane can be made to come after who lived there last.
bool RuntimeAllocator::take(Bytes offset, const Wish& wish) {
  const auto in_order = [&](const LastUse& last) { return order_.order(wish.lane, last, now_); };
  if (arena_.free_space.take_if(offset, wish.room, in_order)) return true;
  if (waiting_.empty() || !settle_overlapping(offset, wish)) return false;
  return arena_.free_space.take_if(offset, wish.room, in_order);
}

/// Releases freed blocks in the way of a request although other streams still use them: the block's own
/// stream and the request's wait for those. Whether there was one.
bool RuntimeAllocator::settle_overlapping(Bytes offset, const Wish& wish) {
  bool any = false;
  for (std::size_t i = 0; i < waiting_.size();) {
    const Waiting& waiting = waiting_[i];
    const bool in_the_way =
        overlaps({waiting.offset, waiting.offset + waiting.size}, {offset, offset + wish.room});
    const bool settled = in_the_way && !waiting.uncertain &&
                         std::all_of(waiting.events.begin(), waiting.events.end(), [&](DeviceEvent event) {
                           return event == kNoEvent || (device_.wait(order_.stream_of(waiting.lane), event) &&
                                                        device_.wait(wish.stream, event));
                         });
    if (!settled) {
      ++i;
      continue;
    }
    ++now_;  // what was recorded for the block's lane before it waited is no event behind these waits
    // Only the two streams know of the others, so whoever takes what is left must come after that.
    release(waiting, now_);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    any = true;
  }
  return any;
}

void* RuntimeAllocator::allocate_upstream(Bytes size, Stream stream, Pool pool, Miss why) {
  void* const memory = upstream_.allocate(size, stream, pool);
  const std::optional<Bytes> reserved =
      upstream_.may_have_grown() ? std::optional(upstream_.reserved()) : std::nullopt;
  const std::scoped_lock lock(mutex_);
  if (reserved) note_fallback(*reserved);
  if (memory == nullptr) return nullptr;
  const LivingBlock block = {.address = number_of(memory),
                             .size = size,
                             .lane = order_.lane_of(stream),
                             .source = Source::kFallback};
  // Upstream may have got a block back behind our back, and given it out again.
  if (LivingBlock* const stale = blocks_.find(block.address)) {
    if (recorder_ && stale->recorded != kNotRecorded) recorder_->free(stale->recorded);
    count_freed(*stale);
    blocks_.erase(stale);
  }
  add_block(block, stream, pool);
  count_served(block, why);
  return memory;
}

/// In any gap of the arena, whoever used it last and whoever is to use it next.
void* RuntimeAllocator::allocate_anywhere(Bytes size, Stream stream, Pool pool, Miss why) {
  const std::scoped_lock lock(mutex_);
  if (pool != 0 || size > arena_.mapped() || !come_to_rest()) return nullptr;
  const Wish wish = wish_of(size, stream, pool);
  if (wish.lane == kNobody) return nullptr;
  const auto anybody = [](const LastUse&) { return true; };
  if (matcher_) {
    if (const std::optional<Bytes> gap = arena_.free_space.best_fit(wish.room, plan_range(), anybody))
      return give(wish, reuse(*gap, wish), why);
  }
  if (!uses_free_form_) return nullptr;
  const std::optional<Bytes> gap = arena_.free_space.best_fit(wish.room, {0, arena_.addresses()}, anybody);
  if (!gap) return nullptr;
  arena_.free_space.take(*gap, wish.room);
  return give(wish, {Source::kFreeForm, *gap, false}, why);
}

/// Waits for all work of the device, after which any stream may use what is idle.
bool RuntimeAllocator::come_to_rest() {
  if (!device_.synchronize()) return false;
  order_.settle(now_);
  release_passed();
  return true;
}

/// Gives what is idle in the arena back to the device; the plan has holes until the next step boundary.
/// Whether there was any.
bool RuntimeAllocator::reclaim() {
  {
    const std::scoped_lock lock(mutex_);
    if (!come_to_rest()) return false;
    const Bytes before = arena_.mapped();
    arena_.unmap_idle({});
    if (arena_.mapped() == before) return false;
    free_form_.retry();
    has_holes_ = true;
    ++statistics_.reclaims;
    note_reserved();
  }
  upstream_.empty_cache();
  const Bytes reserved = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  note_fallback(reserved);
  return true;
}

void RuntimeAllocator::note_out_of_memory(Bytes size) {
  const Bytes reserved = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  note_fallback(reserved);
  ++statistics_.ooms;
  if (recorder_) recorder_->out_of_memory(size, device_.memory().free);
}

void RuntimeAllocator::add_block(LivingBlock block, Stream stream, Pool pool) {
  block.born = now_;
  if (recorder_) block.recorded = recorder_->allocate(block.size, stream, pool);
  blocks_.insert(block);
  count_living(block);
}

// ---- free ----

void RuntimeAllocator::free(void* memory) {
  if (memory == nullptr) return;
  std::unique_lock lock(mutex_);
  ++now_;
  order_.advance(now_);
  LivingBlock* const found = blocks_.find(number_of(memory));
  if (found == nullptr) {
    const bool ours = arena_.contains(number_of(memory));
    lock.unlock();
    if (ours) fail("no block begins at ", memory, " in the arena: freed twice, or not the start of a block");
    return upstream_.free(memory);
  }
  const LivingBlock block = *found;
  blocks_.erase(found);
  count_freed(block);
  if (block.source != Source::kFallback) return free_in_arena(block);
  if (recorder_ && block.recorded != kNotRecorded) recorder_->free(block.recorded);
  lock.unlock();
  upstream_.free(memory);
}

void RuntimeAllocator::free_in_arena(const LivingBlock& block) {
  const Waiting waiting = block.shared ? waiting_of(block) : Waiting{};
  if (waiting.is_over()) {
    make_idle(arena_.offset_of(block.address), block.room, {block.lane, now_}, block.recorded);
  } else {
    if (recorder_ && block.recorded != kNotRecorded) recorder_->drop(block.recorded);
    waiting_.push_back(waiting);
  }
  if (block.hands_over) order_.hand_over(block.lane, now_);
}

/// A freed block and the events of the streams that it was recorded for. What cannot be an event is waited
/// for otherwise, so that the block may be reused after the events alone.
RuntimeAllocator::Waiting RuntimeAllocator::waiting_of(const LivingBlock& block) {
  Waiting waiting = {arena_.offset_of(block.address), block.room, block.lane, now_, block.recorded, {}};
  std::size_t events = 0;
  bool is_still = false;
  for (const Shared& use : shared_) {
    if (use.address != block.address || is_still) continue;
    const DeviceEvent event = use.lane == kNobody ? kNoEvent : device_.record(order_.stream_of(use.lane));
    if (event == kNoEvent) {
      is_still = device_.synchronize();
      waiting.uncertain = !is_still;
    } else if (events < Waiting::kMostEvents) {
      waiting.events[events++] = event;
    } else {
      if (!device_.wait(order_.stream_of(block.lane), event) && !device_.synchronize())
        waiting.uncertain = true;
      device_.forget(event);
      waiting.freed = ++now_;  // what this call has recorded for the block's lane lies before the wait
    }
  }
  std::erase_if(shared_, [&](const Shared& use) { return use.address == block.address; });
  return waiting;
}

/// In the order of their frees, as far as the other streams have got.
void RuntimeAllocator::release_passed() {
  std::size_t passed = 0;
  while (passed < waiting_.size() && (!waiting_[passed].uncertain || device_.synchronize()) &&
         std::all_of(waiting_[passed].events.begin(), waiting_[passed].events.end(),
                     [&](DeviceEvent event) { return event == kNoEvent || device_.passed(event); })) {
    release(waiting_[passed], waiting_[passed].freed);
    ++passed;
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(passed));
}

/// Nobody waits any more; whoever takes the memory must come after the `freed` of its lane.
void RuntimeAllocator::release(const Waiting& waiting, Tick freed) {
  for (const DeviceEvent event : waiting.events) {
    if (event != kNoEvent) device_.forget(event);
  }
  make_idle(waiting.offset, waiting.size, {waiting.lane, freed}, waiting.recorded);
}

void RuntimeAllocator::make_idle(Bytes offset, Bytes size, const LastUse& last, RequestId recorded) {
  if (recorder_ && recorded != kNotRecorded) recorder_->free(recorded);
  arena_.free_space.give(offset, size, last);
  const Interval range = plan_range();
  if (offset < range.lower || offset + size > range.upper) is_trimmed_ = false;
  statistics_.allocated -= size;
}

void RuntimeAllocator::record_stream(void* memory, Stream stream) {
  std::unique_lock lock(mutex_);
  LivingBlock* const block = blocks_.find(number_of(memory));
  if (block == nullptr || block->source == Source::kFallback) {
    const bool ours = arena_.contains(number_of(memory));
    lock.unlock();
    if (ours) fail("no block begins at ", memory, " in the arena, so it cannot be used on another stream");
    return upstream_.record_stream(memory, stream);
  }
  const LaneId lane = order_.lane_of(stream);
  if (lane == block->lane) return;
  const bool known = std::any_of(shared_.begin(), shared_.end(), [&](const Shared& use) {
    return use.address == block->address && use.lane == lane;
  });
  if (!known) shared_.push_back({block->address, lane});
  block->shared = true;
}

// ---- steps and plans ----

void RuntimeAllocator::begin_step() {
  const Bytes reserved = upstream_.reserved();
  const Bytes idle = reserved - upstream_.allocated();
  bool release_fallback = false;
  {
    const std::scoped_lock lock(mutex_);
    end_step();
    collecting_.end_step(std::exchange(has_collected_, false));
    note_fallback(reserved);
    release_passed();
    free_form_.retry();
    if (!matcher_) {
      if (!uses_free_form_) arena_.unmap_idle({});  // what still lived when the plan was dropped
      return note_reserved();
    }
    matcher_->begin_step();
    compare_with_plan_from_here();
    const bool quiet = statistics_.last_step.served.misses() == 0;
    const Bytes bearable = quiet ? 0 : plan().arena / kWorthReleasing;
    const Bytes loose = is_trimmed_ ? 0 : free_form_.idle(plan_range());
    is_trimmed_ = loose <= bearable;
    const bool releases = releasing_.allows() && idle + loose > bearable;
    releasing_.end_step(releases);
    if (releases) {
      release_fallback = idle > 0;
      if (loose > 0) arena_.unmap_idle(plan_range());
      is_trimmed_ = true;
    }
    if (has_holes_) {
      // What was borrowed may be idle where it went.
      free_form_.make_room({plan_range(), arena_.missing(plan_range())}, plan_range());
      has_holes_ = !arena_.map(plan_range(), extent_for(matcher_->index()));
    }
    note_reserved();
  }
  if (!release_fallback) return;
  upstream_.empty_cache();
  const Bytes left = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  note_fallback(left);
}

void RuntimeAllocator::end_step() {
  step_before_began_ = std::exchange(step_began_, now_);
  statistics_.last_step = std::exchange(statistics_.step, {});
  statistics_.step.peaks.requested = statistics_.requested;
  ++statistics_.steps;
  if (recorder_) recorder_->mark(text("step ", statistics_.steps));
}

bool RuntimeAllocator::adopt(std::shared_ptr<const PlanIndex> plan) {
  upstream_.empty_cache();  // its idle memory is about to be the arena's
  const Bytes reserved = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  const Interval before = plan_range();
  const Bytes base = base_for(plan->plan().arena);
  const Interval range = {base, base + plan->plan().arena};
  release_passed();
  arena_.unmap_idle(range);
  const bool mapped = arena_.map(range, extent_for(*plan));
  if (mapped) {
    base_ = base;
    has_holes_ = false;
    blocks_.reserve(blocks_.size() + 2 * plan->most_alive());
    order_.set_spacing(std::max<Tick>(static_cast<Tick>(plan->plan().stream_gap) / 4, 1));
    matcher_.emplace(std::move(plan));
    slot_ = 0;
    compare_with_plan_from_here();
    if (this->plan().prologue > 0) beside_plan_ = statistics_.requested;
    ++statistics_.plans;
    statistics_.step.peaks = {.requested = statistics_.requested};  // a step begins
  } else {
    has_holes_ = !arena_.map(before);
  }
  free_form_.start_anew();
  note_fallback(reserved);
  return mapped;
}

void RuntimeAllocator::drop_plan() {
  const std::scoped_lock lock(mutex_);
  matcher_.reset();
  has_outgrown_plan_ = false;
  release_passed();
  arena_.unmap_idle({});
  note_reserved();
}

void RuntimeAllocator::empty_cache() {
  upstream_.empty_cache();
  const Bytes reserved = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  release_passed();
  arena_.unmap_idle(plan_range());
  free_form_.retry();
  note_fallback(reserved);
}

void RuntimeAllocator::use_free_form(bool on) {
  const std::scoped_lock lock(mutex_);
  uses_free_form_ = on;
}

bool RuntimeAllocator::follows_plan() const {
  const std::scoped_lock lock(mutex_);
  return matcher_.has_value();
}

Interval RuntimeAllocator::plan_range() const {
  return matcher_ ? Interval{base_, base_ + plan().arena} : Interval{};
}

/// Where sizes vary, steps outgrow the plan, and what they need comes from behind its idle places; but most
/// do not, so extents are twice as large as in free form.
Bytes RuntimeAllocator::extent_for(const PlanIndex& plan) const {
  return plan.varies() ? arena_.small_extent(2 * plan.plan().arena) : Arena::kExtent;
}

/// The lowest place for a plan of that size, at a page, where no block is in its way that has outlived a
/// step: such a block may stay for ever.
Bytes RuntimeAllocator::base_for(Bytes size) const {
  std::vector<Interval> old;
  blocks_.for_each([&](const LivingBlock& block) {
    if (block.source == Source::kFallback || block.born > step_before_began_) return;
    const Bytes offset = arena_.offset_of(block.address);
    old.push_back({offset, offset + block.room});
  });
  std::sort(old.begin(), old.end(), [](const Interval& a, const Interval& b) { return a.lower < b.lower; });
  Bytes base = 0;
  for (const Interval& block : old) {
    if (overlaps(block, {base, base + size})) base = align_up(block.upper, arena_.page_size());
  }
  return base;
}

void RuntimeAllocator::record(std::shared_ptr<Recorder> recorder) {
  const std::scoped_lock lock(mutex_);
  recorder_ = std::move(recorder);
  blocks_.change_each([&](LivingBlock& block) {
    const Stream stream = block.lane == kNobody ? 0 : order_.stream_of(block.lane);
    block.recorded = recorder_ ? recorder_->add_before(block.size, stream, 0) : kNotRecorded;
  });
  for (Waiting& waiting : waiting_) waiting.recorded = kNotRecorded;
  if (recorder_) recorder_->reserve(statistics_.reserved());
}

Trace RuntimeAllocator::recorded() const {
  const std::scoped_lock lock(mutex_);
  return recorder_ ? recorder_->trace() : Trace();
}

// ---- statistics ----

RuntimeStatistics RuntimeAllocator::statistics() const {
  const std::scoped_lock lock(mutex_);
  RuntimeStatistics all = statistics_;
  all.blocks = static_cast<std::int64_t>(blocks_.size());
  all.planned_arena = plan_range().length();
  all.waits = order_.waits();
  all.events = order_.events();
  all.mapping = arena_.mapping();
  return all;
}

Bytes RuntimeAllocator::size_in_arena(const void* memory) {
  const std::scoped_lock lock(mutex_);
  const LivingBlock* const block = blocks_.find(number_of(memory));
  return block != nullptr && block->source != Source::kFallback ? block->size : 0;
}

bool RuntimeAllocator::owns(const void* memory) {
  const std::scoped_lock lock(mutex_);
  return arena_.contains(number_of(memory)) || blocks_.find(number_of(memory)) != nullptr;
}

Meters RuntimeAllocator::meters() const {
  const std::scoped_lock lock(mutex_);
  return tally_.meters();
}

void RuntimeAllocator::reset_peaks() {
  const std::scoped_lock lock(mutex_);
  tally_.reset_peaks(statistics_.reserved());
}

void RuntimeAllocator::reset_accumulated() {
  const std::scoped_lock lock(mutex_);
  tally_.reset_accumulated();
}

void RuntimeAllocator::for_each_in_arena(
    const std::function<void(std::uintptr_t, Bytes, Stream)>& visit) const {
  std::vector<std::tuple<std::uintptr_t, Bytes, Stream>> found;
  {
    const std::scoped_lock lock(mutex_);
    blocks_.for_each([&](const LivingBlock& block) {
      if (block.source == Source::kFallback) return;
      found.emplace_back(block.address, block.size, order_.stream_of(block.lane));
    });
  }
  std::sort(found.begin(), found.end());
  for (const auto& [address, size, stream] : found) visit(address, size, stream);
}

std::vector<std::pair<std::uintptr_t, Bytes>> RuntimeAllocator::extents() const {
  const std::scoped_lock lock(mutex_);
  return arena_.extents();
}

void RuntimeAllocator::note_fallback(Bytes reserved) {
  statistics_.fallback_reserved = reserved;
  note_reserved();
}

void RuntimeAllocator::note_reserved() {
  const Bytes before = statistics_.reserved();
  statistics_.arena = arena_.mapped();
  for (Peaks* const peaks : {&statistics_.peaks, &statistics_.step.peaks}) {
    peaks->reserved = std::max(peaks->reserved, statistics_.reserved());
    peaks->fallback_reserved = std::max(peaks->fallback_reserved, statistics_.fallback_reserved);
  }
  tally_.note_reserved(statistics_.reserved());
  if (recorder_ && statistics_.reserved() != before) recorder_->reserve(statistics_.reserved());
}

Bytes& RuntimeAllocator::living_of(Source source) {
  if (source == Source::kPlanned) return statistics_.planned;
  if (source == Source::kReused) return statistics_.reused;
  return source == Source::kFreeForm ? statistics_.free_form : statistics_.fallback;
}

/// What is freed in the arena counts as allocated until release().
void RuntimeAllocator::count_freed(const LivingBlock& block) {
  statistics_.requested -= block.size;
  living_of(block.source) -= block.size;
  tally_.remove(block.size, rounded(block), block.source != Source::kFallback);
}

void RuntimeAllocator::count_living(const LivingBlock& block) {
  statistics_.requested += block.size;
  living_of(block.source) += block.size;
  tally_.add(block.size, rounded(block), block.source != Source::kFallback);
  statistics_.allocated += block.room;
  for (Peaks* const peaks : {&statistics_.peaks, &statistics_.step.peaks})
    peaks->requested = std::max(peaks->requested, statistics_.requested);
}

void RuntimeAllocator::count_served(const LivingBlock& block, Miss why) {
  const bool planned = block.source == Source::kPlanned || block.source == Source::kReused;
  for (Served* const served : {&statistics_.served, &statistics_.step.served}) {
    if (block.source == Source::kPlanned) ++served->planned;
    if (block.source == Source::kReused) ++served->reused;
    if (!planned) ++served->missed[static_cast<std::size_t>(why)];
  }
  if (!planned) statistics_.missed_bytes += block.size;
}

}  // namespace stweaver
