// What goes on beside serving requests: steps, plans, recording, statistics.
#include <algorithm>
#include <numeric>
#include <utility>

#include "arena/lasting_blocks.h"
#include "runtime/runtime_allocator.h"

namespace stweaver {
namespace {

/// Whether a step was as planned, but for a few requests: it took the plan's places, and asked for nothing
/// that the plan does not know.
bool proves_plan(const Served& step, std::int64_t places, const Policy& policy) {
  const std::int64_t unknown =
      step.beside_plan() - step.unplanned[static_cast<std::size_t>(Unplanned::kDynamic)];
  const std::int64_t few = places / policy.misfit_share;
  return unknown <= few && step.planned >= places - few;
}

}  // namespace

void RuntimeAllocator::begin_step() {
  const Bytes reserved = upstream_.reserved();
  const Bytes allocated = upstream_.allocated();
  bool empties = false;
  {
    const std::scoped_lock lock(mutex_);
    step_before_began_ = std::exchange(step_began_, now_);
    accounts_.end_step(memory_.statistics());
    accounts_.note_fallback(reserved);
    order_.watch_frees(accounts_.memory_moved());
    pending_.release_passed();
    refused_until_ = 0;
    const Served& last = accounts_.last_step();
    const bool as_planned = follower_ && last.beside_plan() == 0;
    const bool proves = follower_ && proves_plan(last, follower_->index().planned_in_step(), policy_);
    // Once: what such steps allocate upstream all the same, each would allocate again.
    empties = !std::exchange(was_as_planned_, as_planned) && as_planned && reserved > allocated;
    if (proves) follower_->prove();
    if (follower_)
      follower_->begin_step();
    else
      excess_ = std::max(excess_, held_in_last_step() - memory_.budget());
    // What still lived when the plan was dropped, or what the step did without.
    if (as_planned || (!follower_ && !places_unplanned_)) memory_.reclaim_all(plan_range());
    memory_.spare(plan_range(), proves && follower_->uses_all());
    note_arena();
  }
  if (empties) empty_upstream();
}

void RuntimeAllocator::empty_upstream() {
  upstream_.empty_cache();
  const Bytes reserved = upstream_.reserved();
  const std::scoped_lock lock(mutex_);
  accounts_.note_fallback(reserved);
}

bool RuntimeAllocator::adopt(std::shared_ptr<const PlanIndex> plan, bool is_proven) {
  empty_upstream();  // its idle memory is about to be the arena's
  const std::scoped_lock lock(mutex_);
  const LastingBlocks lasting(memory_, blocks_, step_before_began_);
  const Interval region = memory_.addresses() > 0 ? memory_.region(Region::kPlanned) : Interval{};
  std::optional<Bytes> base = lasting.lowest_place(region, policy_.size_spread * plan->plan().arena);
  if (!base) base = lasting.lowest_place(region, plan->plan().arena);
  if (!base) return false;
  pending_.release_passed();
  blocks_.reserve(blocks_.size() + 2 * static_cast<std::size_t>(plan->most_alive()));
  order_.set_spacing(std::max<Tick>(static_cast<Tick>(plan->plan().stream_gap) / 4, 1));
  follower_.emplace(std::move(plan), *base, policy_, region.upper);
  if (is_proven) follower_->prove();
  loose_steps_ = costly_steps_ = 0;
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
  empty_upstream();
  const std::scoped_lock lock(mutex_);
  if (!pending_.empty()) come_to_rest();  // what other streams still use is handed over, too
  memory_.reclaim_all();
  refused_until_ = 0;
  note_arena();
}

void RuntimeAllocator::place_unplanned(bool on) {
  const std::scoped_lock lock(mutex_);
  places_unplanned_ = on;
}

void RuntimeAllocator::hold(Bytes most) {
  const std::scoped_lock lock(mutex_);
  memory_.hold(most);
}

bool RuntimeAllocator::follows_plan() const {
  const std::scoped_lock lock(mutex_);
  return follower_.has_value();
}

bool RuntimeAllocator::fit_lengths() {
  const std::scoped_lock lock(mutex_);
  if (!follower_ || !accounts_.peak_was_raised()) return false;
  if (held_in_last_step() <= memory_.budget() + memory_.budget() / policy_.misfit_share) return false;
  if (++loose_steps_ < policy_.patience || !follower_->fit_lengths()) return false;
  memory_.spare(plan_range());
  return true;
}

bool RuntimeAllocator::plan_costs_memory() {
  const std::scoped_lock lock(mutex_);
  if (!follower_ || !accounts_.peak_was_raised()) return false;
  // A job with a saved plan may come to hold what that needs; what it asks for beside the plan is slack's.
  const Bytes needed = follower_->plan().arena;
  // Without a plan the job holds more than it uses, too: a plan may take that, and slack of its own.
  const Bytes without = memory_.budget() + excess_ + policy_.slack(memory_.budget());
  const Bytes cost = held_in_last_step() - std::max(without, needed + policy_.slack(needed));
  return cost > memory_.budget() / policy_.misfit_share || (cost > 0 && ++costly_steps_ >= policy_.patience);
}

/// The most behind the arena.
Bytes RuntimeAllocator::held_in_last_step() const {
  return accounts_.statistics(memory_.statistics()).last_step.peaks.arena;
}

Gaps RuntimeAllocator::lasting_gaps() {
  const std::scoped_lock lock(mutex_);
  const LastingBlocks lasting(memory_, blocks_, step_before_began_);
  return lasting.gaps_outside(memory_.region(Region::kPlanned));
}

Bytes RuntimeAllocator::pinned_beside_plan() const {
  const std::scoped_lock lock(mutex_);
  if (follower_ && follower_->is_proven()) return 0;
  const std::vector<Interval> gaps =
      LastingBlocks(memory_, blocks_, step_before_began_).gaps_outside(plan_range());
  const auto add = [](Bytes sum, const Interval& gap) { return sum + gap.length(); };
  return std::accumulate(gaps.begin(), gaps.end(), Bytes{0}, add);
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

RuntimeStatistics RuntimeAllocator::statistics() const {
  const std::scoped_lock lock(mutex_);
  RuntimeStatistics all = accounts_.statistics(memory_.statistics());
  all.blocks = static_cast<std::int64_t>(blocks_.size());
  all.planned_arena = plan_range().length();
  all.excess = excess_;
  all.waiting = pending_.bytes();
  all.waits = order_.waits();
  all.events = order_.events();
  return all;
}

RuntimeAllocator::ArenaBlock RuntimeAllocator::block_in_arena(const void* memory) {
  const std::scoped_lock lock(mutex_);
  const LivingBlock* const block = blocks_.find(number_of(memory));
  if (block == nullptr || block->source == Source::kFallback) return {};
  return {.size = block->size, .stream = order_.stream_of(block->stream)};
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

RuntimeAllocator::ArenaContents RuntimeAllocator::contents() const {
  const std::scoped_lock lock(mutex_);
  ArenaContents now = {.blocks = {}, .extents = memory_.extents()};
  blocks_.for_each([&](const LivingBlock& block) {
    if (block.source != Source::kFallback) now.blocks.emplace_back(block.address, block.size);
  });
  std::sort(now.blocks.begin(), now.blocks.end());
  return now;
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

}  // namespace stweaver
