#include "arena/pending_frees.h"

#include <algorithm>

namespace stweaver {

PendingFrees::~PendingFrees() {
  for (const Pending& pending : pending_)
    for (const Mark& mark : pending.marks()) device_->forget(mark.event);
}

void PendingFrees::note_use(const LivingBlock& block, Stream stream) {
  const bool known = std::any_of(uses_.begin(), uses_.end(), [&](const Use& use) {
    return use.address == block.address && use.stream == stream;
  });
  if (!known) uses_.push_back({block.address, stream});
}

bool PendingFrees::add(const LivingBlock& block, Bytes offset, Tick now) {
  const Pending pending = pending_of(block, offset, now);
  if (pending.is_over()) return false;
  pending_.push_back(pending);
  return true;
}

/// The events of the streams that the block was recorded for. What cannot be an event is waited for, so that
/// the block may be reused after the events alone.
PendingFrees::Pending PendingFrees::pending_of(const LivingBlock& block, Bytes offset, Tick now) {
  Pending pending = {.range = {offset, block.rounded, {block.stream, now}, block.recorded}};
  bool is_still = false;
  for (const Use& use : uses_) {
    if (use.address != block.address || is_still) continue;
    const DeviceEvent event = pending.count < kMostMarks ? device_->record(use.stream) : kNoEvent;
    if (event != kNoEvent) {
      pending.places[pending.count++] = {use.stream, event};
    } else {
      is_still = device_->synchronize();
      pending.uncertain = !is_still;
    }
  }
  std::erase_if(uses_, [&](const Use& use) { return use.address == block.address; });
  return pending;
}

/// A stream that has not come to a mark has not come to later ones either.
bool PendingFrees::has_passed(const Pending& pending) {
  if (pending.uncertain && !device_->synchronize()) return false;
  return std::ranges::all_of(pending.marks(), [&](const Mark& mark) {
    if (std::ranges::find(busy_, mark.stream) != busy_.end()) return false;
    if (device_->passed(mark.event)) return true;
    busy_.push_back(mark.stream);
    return false;
  });
}

void PendingFrees::release_passed() {
  busy_.clear();
  std::erase_if(pending_, [&](const Pending& pending) {
    if (!has_passed(pending)) return false;
    release(pending);
    return true;
  });
}

bool PendingFrees::release_overlapping(const Interval& place, Stream taker, Tick& now) {
  bool any = false;
  for (std::size_t i = 0; i < pending_.size();) {
    Pending& pending = pending_[i];
    const Released& range = pending.range;
    const auto waits = [&](const Mark& mark) {
      return device_->wait(order_->stream_of(range.last.stream), mark.event) &&
             device_->wait(taker, mark.event);
    };
    const bool settled = overlaps({range.offset, range.offset + range.size}, place) && !pending.uncertain &&
                         std::ranges::all_of(pending.marks(), waits);
    if (!settled) {
      ++i;
      continue;
    }
    // What was recorded for the block's stream before it waited is no event behind these waits. Only the two
    // streams know of the others, so whoever takes what is left must come after that.
    pending.range.last.freed = ++now;
    release(pending);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    any = true;
  }
  return any;
}

void PendingFrees::release(const Pending& pending) {
  for (const Mark& mark : pending.marks()) device_->forget(mark.event);
  release_(pending.range);
}

Bytes PendingFrees::bytes() const {
  Bytes bytes = 0;
  for (const Pending& pending : pending_) bytes += pending.range.size;
  return bytes;
}

}  // namespace stweaver
