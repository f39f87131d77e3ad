#include "runtime/matcher.h"

#include <algorithm>
#include <utility>

namespace stweaver {
namespace {

/// How far ahead a request looks for a slot of its size: near, where it is worth believing, and far, where
/// requests must have been left out in numbers.
constexpr std::size_t kNear = 5;
constexpr std::size_t kFar = 256;
/// How far ahead the end of a row of slots of any size is looked for before the next of the row is believed.
constexpr std::size_t kRow = 16;
/// Many requests are smaller than this, and what is larger has a size that tells it from others.
constexpr Bytes kTelling = 64 * kKiB;
/// A slot's size is the largest seen; a request of less than that by this is hardly the same.
constexpr Bytes kSpread = 8;

/// Where the search for an entry ends: the prologue does not reach into the step.
std::size_t part_end(const PlannedStream& stream, std::size_t from) {
  return from < stream.prologue ? stream.prologue : stream.entries.size();
}

/// The entry behind this one; the step's last is followed by its first.
std::size_t behind(const PlannedStream& stream, std::size_t entry) {
  return entry + 1 < stream.entries.size() ? entry + 1 : stream.prologue;
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const PlanIndex> index)
    : index_(std::move(index)), cursors_(index_->streams().size()) {
  stream_of_lane_.reserve(64);
}

void Matcher::begin_step() {
  const bool repeats = ++steps_begun_ > index_->plan().prologue_steps;
  for (std::size_t s = 0; s < cursors_.size(); ++s) {
    Cursor& cursor = cursors_[s];
    // A stream that is nothing like what it was taken for is somebody else.
    if (cursor.lost > cursor.matched && cursor.lane != kNobody) {
      stream_of_lane_[cursor.lane] = kNowhere;
      cursor.lane = kNobody;
    }
    cursor.matched = cursor.lost = 0;
    const std::size_t begin = index_->streams()[s].prologue;
    if (!repeats || cursor.next == begin) continue;
    cursor.otherwise = std::exchange(cursor.next, begin);
  }
}

std::optional<std::uint32_t> Matcher::match(LaneId lane, Stream stream, Bytes size, Pool pool) {
  const Wish wish = {size, pool};
  const std::optional<std::size_t> planned = stream_of(lane, stream, wish);
  if (!planned) return std::nullopt;
  Cursor& cursor = cursors_[*planned];
  const PlannedStream& slots = index_->streams()[*planned];
  cursor.trail.add(size, index_->plan().alignment);
  const std::size_t entry = find_entry(slots, cursor, wish);
  if (entry == kNowhere) {
    ++cursor.lost;
    return std::nullopt;
  }
  ++cursor.matched;
  return slots.entries[entry].slot;
}

/// The stream of the plan that a lane's requests follow. Handles differ from process to process, so a stream
/// that is not known by its handle takes the place of one that nobody has taken and whose turn it could be.
std::optional<std::size_t> Matcher::stream_of(LaneId lane, Stream stream, const Wish& wish) {
  if (lane >= stream_of_lane_.size()) stream_of_lane_.resize(lane + 1, kNowhere);
  std::size_t& known = stream_of_lane_[lane];
  if (known != kNowhere) return known;
  const std::optional<std::size_t> found = find_stream(stream, wish);
  if (found) {
    known = *found;
    cursors_[known].lane = lane;
  }
  return found;
}

std::optional<std::size_t> Matcher::find_stream(Stream stream, const Wish& wish) const {
  std::optional<std::size_t> found;
  for (std::size_t s = 0; s < cursors_.size(); ++s) {
    if (cursors_[s].lane != kNobody) continue;
    const PlannedStream& slots = index_->streams()[s];
    if (slots.stream == stream) return s;
    // The default stream is the default stream in every process.
    if (found || slots.stream == 0 || stream == 0) continue;
    if (find_size(slots, cursors_[s].next, 1, wish) != kNowhere) found = s;
  }
  return found;
}

/// Whether the request has the size that the slot was made for.
bool Matcher::alike(const Entry& entry, const Wish& wish) const {
  if (wish.pool != 0 && entry.planned) return false;
  return wish.size <= entry.size && entry.size - wish.size < index_->plan().alignment;
}

/// Whether it may be the request of a slot whose sizes vary.
bool Matcher::plausible(const Entry& entry, const Wish& wish) {
  return wish.pool == 0 && wish.size >= entry.size / kSpread && wish.size <= entry.size * 2;
}

/// Whether the request may be the one of the slot at `entry`, if the job has got there.
bool Matcher::may_be(const PlannedStream& stream, std::size_t entry, const Wish& wish) const {
  const Entry& slot = stream.entries[entry];
  if (slot.likeness == Likeness::kSize) return alike(slot, wish);
  if (!plausible(slot, wish)) return false;
  // What follows a row of slots of any size says where the row ends, if its size is not everybody's.
  return wish.size < kTelling || find_end_of_row(stream, entry, kRow, wish) == kNowhere;
}

/// The entry that the request stands for, kNowhere when there is none; moves the cursor on.
std::size_t Matcher::find_entry(const PlannedStream& stream, Cursor& cursor, const Wish& wish) const {
  if (cursor.next >= stream.entries.size()) return kNowhere;  // no step repeats
  const auto go_on_behind = [&](std::size_t entry) {
    cursor.next = behind(stream, entry);
    cursor.otherwise = kNowhere;
    return entry;
  };
  const auto guess = [&](std::size_t entry) {
    if (entry != kNowhere) cursor.otherwise = behind(stream, entry);
    return entry;
  };

  const Entry& next = stream.entries[cursor.next];
  const bool is_next = may_be(stream, cursor.next, wish);
  // A size that is right says more than one that may be.
  if (is_next && (next.likeness == Likeness::kSize || cursor.otherwise == kNowhere))
    return go_on_behind(cursor.next);
  if (cursor.otherwise != kNowhere) {
    if (may_be(stream, cursor.otherwise, wish)) return go_on_behind(cursor.otherwise);
    const std::size_t found = find_size(stream, cursor.otherwise, kNear, wish);
    if (found != kNowhere) return go_on_behind(found);
  }
  if (is_next) return go_on_behind(cursor.next);
  const std::size_t anchor = find_anchor(stream, cursor, wish);
  if (anchor != kNowhere) return go_on_behind(anchor);

  if (next.likeness != Likeness::kSize) {
    const std::size_t end = find_end_of_row(stream, cursor.next, kFar, wish);
    if (end != kNowhere) return guess(end);
    return wish.pool == 0 ? go_on_behind(cursor.next) : kNowhere;
  }
  const std::size_t near = find_size(stream, cursor.next, kNear, wish);
  if (near != kNowhere) return guess(near);
  if (next.may_vary && plausible(next, wish)) return go_on_behind(cursor.next);
  const std::size_t loose = find_loose(stream, cursor.next, kRow, wish);
  if (loose != kNowhere) return guess(loose);
  return guess(find_size(stream, cursor.next, kFar, wish));
}

/// The first entry from `from` on whose size is known, if the request has it.
std::size_t Matcher::find_end_of_row(const PlannedStream& stream, std::size_t from, std::size_t reach,
                                     const Wish& wish) const {
  const std::size_t end = std::min(part_end(stream, from), from + reach);
  for (std::size_t i = from; i < end; ++i) {
    if (stream.entries[i].likeness == Likeness::kSize) return alike(stream.entries[i], wish) ? i : kNowhere;
  }
  return kNowhere;
}

/// The first of the `reach` entries from `from` on that has the request's size.
std::size_t Matcher::find_size(const PlannedStream& stream, std::size_t from, std::size_t reach,
                               const Wish& wish) const {
  const std::size_t end = std::min(part_end(stream, from), from + reach);
  for (std::size_t i = from; i < end; ++i) {
    if (stream.entries[i].likeness == Likeness::kSize && alike(stream.entries[i], wish)) return i;
  }
  return kNowhere;
}

/// The first of the `reach` entries from `from` on whose size varies and may be the request's.
std::size_t Matcher::find_loose(const PlannedStream& stream, std::size_t from, std::size_t reach,
                                const Wish& wish) {
  const std::size_t end = std::min(part_end(stream, from), from + reach);
  for (std::size_t i = from; i < end; ++i) {
    if (stream.entries[i].likeness != Likeness::kSize && plausible(stream.entries[i], wish)) return i;
  }
  return kNowhere;
}

/// The entry at which the last sizes end; if the plan has them several times, the nearest ahead.
std::size_t Matcher::find_anchor(const PlannedStream& stream, const Cursor& cursor, const Wish& wish) const {
  const std::optional<std::uint64_t> hash = cursor.trail.hash();
  if (!hash) return kNowhere;
  const auto less = [](const PlannedStream::Anchor& anchor, std::uint64_t h) { return anchor.hash < h; };
  auto at = std::lower_bound(stream.anchors.begin(), stream.anchors.end(), *hash, less);
  const std::size_t end = part_end(stream, cursor.next);
  std::size_t first = kNowhere;
  for (; at != stream.anchors.end() && at->hash == *hash; ++at) {
    if (at->entry >= end || !alike(stream.entries[at->entry], wish)) continue;
    if (at->entry >= cursor.next) return at->entry;
    if (first == kNowhere && at->entry >= stream.prologue) first = at->entry;
  }
  return first;
}

}  // namespace stweaver
