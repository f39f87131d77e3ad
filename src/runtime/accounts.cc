#include "runtime/accounts.h"

#include <algorithm>

namespace stweaver {
namespace {

/// What the block takes; of the fallback's nobody has told.
Bytes rounded(const LivingBlock& block) {
  return block.source == Source::kFallback ? align_up(block.size, kAlignment) : block.rounded;
}

}  // namespace

void Accounts::add(LivingBlock& block, Stream stream, Pool pool, Unplanned why) {
  if (recorder_) block.recorded = recorder_->allocate(block.size, stream, pool);
  if (recorder_ && recorder_->is_full()) recorder_.reset();
  statistics_.requested += block.size;
  living_of(block.source) += block.size;
  tally_.add(block.size, rounded(block), block.source != Source::kFallback);
  statistics_.allocated += block.rounded;
  for (Peaks* const peaks : {&statistics_.peaks, &statistics_.step.peaks})
    peaks->requested = std::max(peaks->requested, statistics_.requested);
  count_served(block, why);
}

void Accounts::count_served(const LivingBlock& block, Unplanned why) {
  const bool in_plan = block.source == Source::kPlanned || block.source == Source::kReused;
  if (block.source == Source::kPlanned) ++statistics_.served.planned;
  if (block.source == Source::kReused) ++statistics_.served.reused;
  if (in_plan) return;
  ++statistics_.served.unplanned[static_cast<std::size_t>(why)];
  if (why != Unplanned::kDynamic) statistics_.step.unplanned_bytes += block.size;
}

void Accounts::remove(const LivingBlock& block) {
  statistics_.requested -= block.size;
  living_of(block.source) -= block.size;
  tally_.remove(block.size, rounded(block), block.source != Source::kFallback);
  if (block.source == Source::kFallback && recorder_ && block.recorded != kNotRecorded)
    recorder_->free(block.recorded);
}

Bytes& Accounts::living_of(Source source) {
  if (source == Source::kPlanned) return statistics_.planned;
  if (source == Source::kReused) return statistics_.reused;
  return source == Source::kElsewhere ? statistics_.unplanned : statistics_.fallback;
}

void Accounts::note_held(Bytes arena, Bytes fallback) {
  const Bytes before = statistics_.reserved();
  statistics_.arena = arena;
  statistics_.fallback_reserved = fallback;
  for (Peaks* const peaks : {&statistics_.peaks, &statistics_.step.peaks}) {
    peaks->reserved = std::max(peaks->reserved, statistics_.reserved());
    peaks->arena = std::max(peaks->arena, statistics_.arena);
    peaks->fallback_reserved = std::max(peaks->fallback_reserved, statistics_.fallback_reserved);
  }
  tally_.note_reserved(statistics_.reserved());
  if (recorder_ && statistics_.reserved() != before) recorder_->reserve(statistics_.reserved());
}

void Accounts::note_out_of_memory(Bytes size, Bytes device_free) {
  ++statistics_.ooms;
  if (recorder_) recorder_->out_of_memory(size, device_free);
}

/// Peaks begin with what there is.
Peaks Accounts::now() const {
  return {statistics_.requested, statistics_.reserved(), statistics_.arena, statistics_.fallback_reserved};
}

/// The peaks of the step so far were not the plan's.
void Accounts::note_plan() {
  ++statistics_.plans;
  statistics_.step.peaks = now();
}

void Accounts::end_step(const MappingStatistics& mapping) {
  statistics_.last_step = statistics(mapping).step;
  peak_was_raised_ = statistics_.peaks.reserved > peak_before_;
  peak_before_ = statistics_.peaks.reserved;
  statistics_.step = {};
  statistics_.step.peaks = now();
  served_before_ = statistics_.served;
  spent_before_ = spent(mapping);
  calls_before_ = mapping.maps + mapping.unmaps;
  ++statistics_.steps;
  if (recorder_) recorder_->mark(text("step ", statistics_.steps));
}

RuntimeStatistics Accounts::statistics(const MappingStatistics& mapping) const {
  RuntimeStatistics all = statistics_;
  all.mapping = mapping;
  all.nanoseconds = spent(mapping);
  all.step.served = all.served - served_before_;
  all.step.nanoseconds = spent(mapping) - spent_before_;
  all.step.driver_calls = mapping.maps + mapping.unmaps - calls_before_;
  return all;
}

}  // namespace stweaver
