#include "arena/pending_frees.h"

#include <algorithm>
#include <utility>

namespace stweaver {

PendingFrees::~PendingFrees() {
  for (const Queue& queue : queues_)
    for (const Pending& pending : queue.pending)
      for (const Mark& mark : pending.marks()) device_->forget(mark.event);
}

void PendingFrees::note_use(LivingBlock& block, Stream stream) {
  std::int32_t last = kNoUse;
  for (std::int32_t use = block.use; use != kNoUse; use = use_at(use).next) {
    if (use_at(use).stream == stream) return;
    last = use;
  }
  if (free_use_ == kNoUse) {
    free_use_ = static_cast<std::int32_t>(uses_.size());
    uses_.emplace_back();
  }
  const std::int32_t made = std::exchange(free_use_, use_at(free_use_).next);
  use_at(made) = {.stream = stream, .next = kNoUse};
  (last == kNoUse ? block.use : use_at(last).next) = made;
}

bool PendingFrees::add(const LivingBlock& block, Bytes offset, Tick now) {
  const Pending pending = pending_of(block, offset, now);
  if (pending.is_over()) return false;
  queue_of(pending).pending.push_back(pending);
  ++count_;
  return true;
}

/// The events of the streams that the block was recorded for. What cannot be an event is waited for, so that
/// the block may be reused after the events alone.
PendingFrees::Pending PendingFrees::pending_of(const LivingBlock& block, Bytes offset, Tick now) {
  Pending pending = {.range = {offset, block.rounded, {block.stream, now}, block.recorded}};
  bool is_still = false;
  std::int32_t last = kNoUse;
  for (std::int32_t use = block.use; use != kNoUse; use = use_at(use).next) {
    last = use;
    if (is_still) continue;
    const Stream stream = use_at(use).stream;
    const DeviceEvent event = pending.count < kMostMarks ? device_->record(stream) : kNoEvent;
    if (event != kNoEvent) {
      pending.events[pending.count++] = {stream, event};
    } else {
      is_still = device_->synchronize();
      pending.uncertain = !is_still;
    }
  }
  if (last != kNoUse) use_at(last).next = std::exchange(free_use_, block.use);
  return pending;
}

PendingFrees::Queue& PendingFrees::queue_of(const Pending& pending) {
  const std::optional<Stream> stream =
      pending.count > 0 ? std::optional(pending.marks().front().stream) : std::nullopt;
  const auto found = std::ranges::find(queues_, stream, &Queue::stream);
  if (found != queues_.end()) return *found;
  std::erase_if(queues_,
                [](const Queue& queue) { return queue.pending.empty(); });  // their streams may be gone
  return queues_.emplace_back(Queue{.stream = stream, .pending = {}});
}

bool PendingFrees::is_busy(std::optional<Stream> stream) const {
  return stream && std::ranges::find(busy_, *stream) != busy_.end();
}

/// A stream that has not come to a mark has not come to later ones either.
bool PendingFrees::has_passed(const Pending& pending) {
  if (pending.uncertain && !device_->synchronize()) return false;
  const std::span<const Mark> marks = pending.marks();
  if (std::ranges::any_of(marks, [&](const Mark& mark) { return is_busy(mark.stream); })) return false;
  return std::ranges::all_of(marks, [&](const Mark& mark) {
    if (device_->passed(mark.event)) return true;
    busy_.push_back(mark.stream);
    return false;
  });
}

void PendingFrees::release_passed() {
  busy_.clear();
  for (Queue& queue : queues_) {
    std::vector<Pending>& all = queue.pending;
    std::size_t asked = 0, kept = 0;
    for (; asked < all.size() && !is_busy(queue.stream); ++asked) {
      if (has_passed(all[asked])) {
        release(all[asked]);
      } else {
        all[kept++] = all[asked];
      }
    }
    const auto first = all.begin();
    all.erase(first + static_cast<std::ptrdiff_t>(kept), first + static_cast<std::ptrdiff_t>(asked));
  }
}

bool PendingFrees::release_overlapping(const Interval& place, Stream taker, Tick& now) {
  bool any = false;
  for (Queue& queue : queues_)
    std::erase_if(queue.pending, [&](const Pending& pending) {
      if (!overlaps({pending.range.offset, pending.range.offset + pending.range.size}, place)) return false;
      const auto waits = [&](const Mark& mark) {
        return device_->wait(order_->stream_of(pending.range.last.stream), mark.event) &&
               device_->wait(taker, mark.event);
      };
      if (pending.uncertain || !std::ranges::all_of(pending.marks(), waits)) return false;
      // What was recorded for the block's stream before it waited is no event behind these waits. Only the
      // two streams know of the others, so whoever takes what is left must come after that.
      Pending settled = pending;
      settled.range.last.freed = ++now;
      release(settled);
      return any = true;
    });
  return any;
}

void PendingFrees::release(const Pending& pending) {
  --count_;
  for (const Mark& mark : pending.marks()) device_->forget(mark.event);
  release_(pending.range);
}

Bytes PendingFrees::bytes() const {
  Bytes bytes = 0;
  for (const Queue& queue : queues_)
    for (const Pending& pending : queue.pending) bytes += pending.range.size;
  return bytes;
}

}  // namespace stweaver
