#include "arena/pending_frees.h"

#include <algorithm>

namespace stweaver {

PendingFrees::~PendingFrees() {
  for (const Pending& pending : pending_) {
    for (const DeviceEvent event : pending.events) {
      if (event != kNoEvent) device_->forget(event);
    }
  }
}

void PendingFrees::note_use(const LivingBlock& block, Stream stream) {
  const bool known = std::any_of(uses_.begin(), uses_.end(), [&](const Use& use) {
    return use.address == block.address && use.stream == stream;
  });
  if (!known) uses_.push_back({block.address, stream});
}

bool PendingFrees::add(const LivingBlock& block, Bytes offset, Tick& now) {
  const Pending pending = pending_of(block, offset, now);
  if (pending.is_over()) return false;
  pending_.push_back(pending);
  return true;
}

/// The events of the streams that the block was recorded for. What cannot be an event is waited for
/// otherwise, so that the block may be reused after the events alone.
PendingFrees::Pending PendingFrees::pending_of(const LivingBlock& block, Bytes offset, Tick& now) {
  Pending pending = {.range = {offset, block.rounded, {block.stream, now}, block.recorded}};
  std::size_t events = 0;
  bool is_still = false;
  for (const Use& use : uses_) {
    if (use.address != block.address || is_still) continue;
    const DeviceEvent event = device_->record(use.stream);
    if (event == kNoEvent) {
      is_still = device_->synchronize();
      pending.uncertain = !is_still;
    } else if (events < kMostEvents) {
      pending.events[events++] = event;
    } else {
      if (!device_->wait(order_->stream_of(block.stream), event) && !device_->synchronize())
        pending.uncertain = true;
      device_->forget(event);
      pending.range.last.freed =
          ++now;  // what this call recorded for the block's stream lies before the wait
    }
  }
  std::erase_if(uses_, [&](const Use& use) { return use.address == block.address; });
  return pending;
}

void PendingFrees::release_passed() {
  std::size_t passed = 0;
  while (passed < pending_.size() && (!pending_[passed].uncertain || device_->synchronize()) &&
         std::all_of(pending_[passed].events.begin(), pending_[passed].events.end(),
                     [&](DeviceEvent event) { return event == kNoEvent || device_->passed(event); })) {
    release(pending_[passed]);
    ++passed;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(passed));
}

bool PendingFrees::release_overlapping(const Interval& place, Stream taker, Tick& now) {
  bool any = false;
  for (std::size_t i = 0; i < pending_.size();) {
    Pending& pending = pending_[i];
    const Released& range = pending.range;
    const auto waits = [&](DeviceEvent event) {
      return event == kNoEvent ||
             (device_->wait(order_->stream_of(range.last.stream), event) && device_->wait(taker, event));
    };
    const bool settled = overlaps({range.offset, range.offset + range.size}, place) && !pending.uncertain &&
                         std::all_of(pending.events.begin(), pending.events.end(), waits);
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
  for (const DeviceEvent event : pending.events) {
    if (event != kNoEvent) device_->forget(event);
  }
  release_(pending.range);
}

Bytes PendingFrees::bytes() const {
  Bytes bytes = 0;
  for (const Pending& pending : pending_) bytes += pending.range.size;
  return bytes;
}

}  // namespace stweaver
