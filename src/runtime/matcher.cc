#include "runtime/matcher.h"

#include <algorithm>
#include <cmath>
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
/// By so much may a request's share of its slot differ from those before it: sizes are rounded.
constexpr double kSameShare = 0.01;
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

/// Whether a request of that size may be the one of a slot whose sizes vary.
bool plausible(const Entry& entry, Bytes size) {
  return size >= entry.size / kSpread && size <= entry.size * 2;
}

double share_of(const Entry& entry, Bytes size) {
  return static_cast<double>(size) / static_cast<double>(entry.size);
}

}  // namespace

void Matcher::Cursors::set(std::size_t entry) {
  entries_[0] = entry;
  count_ = 1;
}

void Matcher::Cursors::add(std::size_t entry) {
  if (std::find(begin(), end(), entry) != end()) return;
  if (count_ < entries_.size()) ++count_;
  entries_[count_ - 1] = entry;
}

Matcher::Matcher(std::shared_ptr<const PlanIndex> index)
    : index_(std::move(index)), followers_(index_->streams().size(), Follower(0)) {
  stream_of_lane_.reserve(64);
}

void Matcher::begin_step() {
  const bool repeats = ++steps_begun_ > index_->plan().prologue_steps;
  for (std::size_t s = 0; s < followers_.size(); ++s) {
    Follower& follower = followers_[s];
    // A stream that is nothing like what it was taken for is somebody else.
    if (follower.lost > follower.matched && follower.lane != kNobody) {
      stream_of_lane_[follower.lane] = kNowhere;
      follower.lane = kNobody;
    }
    follower.matched = follower.lost = 0;
    if (!repeats) continue;
    const std::size_t before = follower.cursors.front();
    follower.cursors.set(index_->streams()[s].prologue);
    follower.cursors.add(before);
  }
}

std::optional<Match> Matcher::match(LaneId lane, Stream stream, Bytes size, Pool pool) {
  Wish wish = {size, pool};
  const std::optional<std::size_t> planned = stream_of(lane, stream, wish);
  if (!planned) return std::nullopt;
  Follower& follower = followers_[*planned];
  wish.share = follower.share;
  const PlannedStream& slots = index_->streams()[*planned];
  follower.trail.add(size);
  const Found found = follow(slots, follower, wish);
  if (found.entry != kNowhere && !found.guess && size >= kTelling)
    follower.share = share_of(slots.entries[found.entry], size);
  follower.astray = found.entry == kNowhere || found.guess ? follower.astray + 1 : 0;
  if (found.entry == kNowhere) {
    ++follower.lost;
    return std::nullopt;
  }
  ++follower.matched;
  return Match{slots.entries[found.entry].slot, found.guess};
}

bool Matcher::is_astray(LaneId lane) const {
  if (lane >= stream_of_lane_.size() || stream_of_lane_[lane] == kNowhere) return false;
  return followers_[stream_of_lane_[lane]].astray >= kAnchor;
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
    followers_[known].lane = lane;
  }
  return found;
}

std::optional<std::size_t> Matcher::find_stream(Stream stream, const Wish& wish) const {
  std::optional<std::size_t> found;
  for (std::size_t s = 0; s < followers_.size(); ++s) {
    if (followers_[s].lane != kNobody) continue;
    const PlannedStream& slots = index_->streams()[s];
    if (slots.stream == stream) return s;
    // The default stream is the default stream in every process.
    if (found || slots.stream == 0 || stream == 0) continue;
    if (find_size(slots, followers_[s].cursors.front(), 1, wish) != kNowhere) found = s;
  }
  return found;
}

/// Whether the request has the size that the slot was made for.
bool Matcher::alike(const Entry& entry, const Wish& wish) const {
  if (wish.pool != 0 && entry.planned) return false;
  return wish.size <= entry.size && entry.size - wish.size < index_->plan().alignment;
}

/// Whether the request needs as much of a varying slot as the ones before it did of theirs.
bool Matcher::in_proportion(const Entry& entry, const Wish& wish) {
  return entry.likeness == Likeness::kShare && wish.pool == 0 && wish.size >= kTelling &&
         std::abs(share_of(entry, wish.size) - wish.share) <= kSameShare * wish.share;
}

/// Whether the request agrees with a job that has got to `entry`.
Matcher::Agreement Matcher::agreement(const PlannedStream& stream, std::size_t entry,
                                      const Wish& wish) const {
  if (entry >= stream.entries.size()) return Agreement::kNone;  // no step repeats
  const Entry& slot = stream.entries[entry];
  if (slot.likeness == Likeness::kSize) return alike(slot, wish) ? Agreement::kSize : Agreement::kNone;
  if (in_proportion(slot, wish)) return Agreement::kSize;
  if (wish.pool != 0 || !plausible(slot, wish.size)) return Agreement::kNone;
  // What follows a row of slots of any size says where the row ends, if its size is not everybody's.
  const bool row_ends = wish.size >= kTelling && find_end_of_row(stream, entry, kRow, wish) != kNowhere;
  return row_ends ? Agreement::kNone : Agreement::kMayBe;
}

/// The entry that the request stands for, kNowhere when there is none; moves the cursors on.
Matcher::Found Matcher::follow(const PlannedStream& stream, Follower& follower, const Wish& wish) const {
  Cursors& cursors = follower.cursors;
  if (cursors.front() >= stream.entries.size()) return {};  // no step repeats
  const std::size_t followed = follow_cursors(stream, cursors, wish);
  if (followed != kNowhere) return {followed};
  const std::size_t anchor = find_anchor(stream, follower, wish);
  if (anchor == kNowhere) return look_around(stream, cursors, wish);
  cursors.set(behind(stream, anchor));
  return {anchor};
}

/// Keeps the cursors that agree with the request and moves them on. A size that is right says more than one
/// that may be; among equals the first is the likeliest.
std::size_t Matcher::follow_cursors(const PlannedStream& stream, Cursors& cursors, const Wish& wish) const {
  if (cursors.size() == 1) {  // as nearly always
    const std::size_t entry = cursors.front();
    if (agreement(stream, entry, wish) == Agreement::kNone) return kNowhere;
    cursors.set(behind(stream, entry));
    return entry;
  }
  std::size_t best = kNowhere;
  Agreement strongest = Agreement::kNone;
  for (const std::size_t entry : cursors) {
    const Agreement agrees = agreement(stream, entry, wish);
    if (agrees <= strongest) continue;
    strongest = agrees;
    best = entry;
  }
  if (best == kNowhere) return kNowhere;
  const Cursors before = cursors;
  cursors.set(behind(stream, best));
  for (const std::size_t entry : before) {
    if (agreement(stream, entry, wish) != Agreement::kNone) cursors.add(behind(stream, entry));
  }
  return best;
}

/// The request agrees with no cursor. The first of them stays, for the request may not be in the plan; others
/// are added for what else it may be.
Matcher::Found Matcher::look_around(const PlannedStream& stream, Cursors& cursors, const Wish& wish) const {
  const std::size_t next = cursors.front();
  const Entry& slot = stream.entries[next];
  const auto go_on_behind = [&](std::size_t entry) {
    cursors.set(behind(stream, entry));
    return Found{entry};
  };
  const auto guess = [&](std::size_t entry) {
    if (entry != kNowhere) cursors.add(behind(stream, entry));
    return Found{entry, true};
  };

  if (slot.likeness != Likeness::kSize) {
    const std::size_t end = find_end_of_row(stream, next, kFar, wish);
    if (end != kNowhere) {
      // The size is right where sizes vary: likelier than that the request is not in the plan.
      const Cursors others = cursors;
      cursors.set(behind(stream, end));
      for (const std::size_t entry : others) cursors.add(entry);
      return {end, true};
    }
    return wish.pool == 0 ? go_on_behind(next) : Found{};
  }
  for (const std::size_t entry : Cursors(cursors)) {
    const std::size_t near = find_size(stream, entry, kNear, wish);
    if (near != kNowhere) return guess(near);
  }
  if (wish.pool == 0) {
    if (slot.may_vary && plausible(slot, wish.size)) return go_on_behind(next);
    const std::size_t loose = find_loose(stream, next, wish);
    if (loose != kNowhere) return guess(loose);
  }
  cursors.add(behind(stream, next));
  const std::size_t first = find_size(stream, stream.prologue, 1, wish);
  if (next >= stream.prologue && first != kNowhere) return guess(first);
  return guess(find_size(stream, next, kFar, wish));
}

/// The first entry of the next few whose size varies and that the request is in proportion to; or else may
/// be, if nothing lies before it that would be missed.
std::size_t Matcher::find_loose(const PlannedStream& stream, std::size_t from, const Wish& wish) {
  const std::size_t end = std::min(part_end(stream, from), from + kRow);
  std::size_t may_be = kNowhere;
  bool misses = false;
  for (std::size_t i = from; i < end; ++i) {
    const Entry& slot = stream.entries[i];
    if (in_proportion(slot, wish)) return i;
    misses = misses || (slot.likeness == Likeness::kSize && slot.size >= kTelling);
    if (may_be == kNowhere && !misses && slot.likeness != Likeness::kSize && plausible(slot, wish.size))
      may_be = i;
  }
  return may_be;
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

/// The entry at which the last sizes end; if the plan has them several times, the nearest ahead.
std::size_t Matcher::find_anchor(const PlannedStream& stream, const Follower& follower,
                                 const Wish& wish) const {
  const std::optional<std::uint64_t> hash = follower.trail.hash(index_->plan().alignment);
  if (!hash) return kNowhere;
  const std::size_t next = follower.cursors.front();
  const std::size_t end = part_end(stream, next);
  const auto less = [](const PlannedStream::Anchor& anchor, std::uint64_t h) { return anchor.hash < h; };
  auto at = std::lower_bound(stream.anchors.begin(), stream.anchors.end(), *hash, less);
  std::size_t first = kNowhere;
  for (; at != stream.anchors.end() && at->hash == *hash; ++at) {
    if (at->entry >= end || !alike(stream.entries[at->entry], wish)) continue;
    if (at->entry >= next) return at->entry;
    if (first == kNowhere && at->entry >= stream.prologue) first = at->entry;
  }
  return first;
}

}  // namespace stweaver
