#include "runtime/matcher.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

namespace stweaver {
namespace {

/// Where the search for an entry ends: the prologue does not reach into the step.
std::size_t part_end(const PlannedStream& stream, std::size_t from) {
  return from < stream.prologue ? stream.prologue : stream.entries.size();
}

/// The entry behind this one; the step's last is followed by its first.
std::size_t behind(const PlannedStream& stream, std::size_t entry) {
  return entry + 1 < stream.entries.size() ? entry + 1 : stream.prologue;
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const PlanIndex> index, const Policy& policy)
    : index_(std::move(index)),
      policy_(&policy),
      followers_(index_->streams().size(), Follower(index_->lengths())),
      steps_begun_(index_->plan().prologue == 0 ? 1 : 0),
      begin_(steps_begun_ == 1 ? 0 : kNowhere) {
  planned_stream_.reserve(64);
}

void Matcher::begin_step() {
  const Plan& plan = index_->plan();
  const bool repeats = ++steps_begun_ > plan.prologue_steps;
  const std::size_t turn = repeats ? (steps_begun_ - plan.prologue_steps - 1) % plan.steps : 0;
  begin_ = repeats ? plan.prologue + turn * ((plan.slots.size() - plan.prologue) / plan.steps) : kNowhere;
  beside_.reset();
  for (std::size_t s = 0; s < followers_.size(); ++s) {
    Follower& follower = followers_[s];
    // A stream that is nothing like the one it was taken for is another one.
    if (follower.lost > follower.matched && follower.stream != kNoStream) {
      planned_stream_[follower.stream] = kNowhere;
      follower.stream = kNoStream;
    }
    std::ranges::fill(follower.lengths, Length());
    if (!repeats) continue;
    follower.matched = follower.lost = follower.first_lost = 0;
    const PlannedStream& stream = index_->streams()[s];
    const std::size_t length = (stream.entries.size() - stream.prologue) / plan.steps;
    const std::size_t before = follower.cursors.first;
    follower.cursors = {stream.prologue + turn * length};
    follower.cursors.add(before);
  }
}

std::optional<Match> Matcher::match(StreamIndex stream, Stream handle, Bytes size, Pool pool,
                                    std::optional<Bytes> alive) {
  Asked asked = {size, pool, alive};
  if (alive && !beside_ && begin_ < index_->plan().slots.size())
    beside_ = *alive - index_->alive_before(begin_);
  const std::optional<std::size_t> planned = planned_stream_of(stream, handle, asked);
  if (!planned) return std::nullopt;
  Follower& follower = followers_[*planned];
  asked.lengths = &follower.lengths;
  const PlannedStream& slots = index_->streams()[*planned];
  follower.trail.add(size);
  const Found found = follow(slots, follower, asked);
  const bool is_sure = found.entry != kNowhere && !found.guess;
  follower.unmatched = is_sure ? 0 : follower.unmatched + 1;
  Bytes& bytes = is_sure ? follower.matched : follower.lost;
  bytes = std::min(bytes + size, kMostMemory);
  if (!is_sure && follower.first_lost == 0) follower.first_lost = size;
  if (found.entry == kNowhere) return std::nullopt;
  const Entry& entry = slots.entries[found.entry];
  return Match{entry.slot, found.guess, note_share(follower, entry, asked)};
}

void Matcher::forget(StreamIndex stream, Bytes size) {
  if (follower_of(stream) == nullptr) return;
  Follower& follower = followers_[planned_stream_[stream]];
  if (follower.unmatched == 0 || follower.lost < size) return;
  --follower.unmatched;
  follower.lost -= size;
  follower.first_lost = std::min(follower.first_lost, follower.lost);
}

const Matcher::Follower* Matcher::follower_of(StreamIndex stream) const {
  const bool is_known = stream < planned_stream_.size() && planned_stream_[stream] != kNowhere;
  return is_known ? &followers_[planned_stream_[stream]] : nullptr;
}

bool Matcher::is_astray(StreamIndex stream) const {
  const Follower* const follower = follower_of(stream);
  return follower != nullptr && follower->unmatched >= policy_->lost;
}

bool Matcher::knows(StreamIndex stream) const {
  const Follower* const found = follower_of(stream);
  return found != nullptr && found->lost - found->first_lost <= found->matched / policy_->misfit_share;
}

/// The stream of the plan that a stream's requests follow. Handles differ from process to process, so a
/// stream that is not known by its handle takes the place of one that no other has taken and that could come
/// next.
std::optional<std::size_t> Matcher::planned_stream_of(StreamIndex stream, Stream handle, const Asked& asked) {
  if (stream >= planned_stream_.size()) planned_stream_.resize(stream + 1, kNowhere);
  std::size_t& known = planned_stream_[stream];
  if (known != kNowhere) return known;
  const std::optional<std::size_t> found = find_stream(handle, asked);
  if (found) {
    known = *found;
    followers_[known].stream = stream;
  }
  return found;
}

std::optional<std::size_t> Matcher::find_stream(Stream handle, const Asked& asked) const {
  std::optional<std::size_t> found;
  for (std::size_t s = 0; s < followers_.size(); ++s) {
    if (followers_[s].stream != kNoStream) continue;
    const PlannedStream& slots = index_->streams()[s];
    if (slots.stream == handle) return s;
    // The default stream is the default stream in every process.
    if (found || slots.stream == 0 || handle == 0) continue;
    if (find_size(slots, followers_[s].cursors.first, 1, asked) != kNowhere) found = s;
  }
  return found;
}

/// Whether the request has the size that the slot was made for, or, where that varies, the share of it that
/// others have been asked for.
bool Matcher::has_size(const Entry& entry, const Asked& asked) const {
  if (asked.pool != 0 && entry.planned) return false;
  const Bytes alignment = index_->plan().alignment;
  if (!entry.of_any_size) return asked.size <= entry.size && entry.size - asked.size < alignment;
  const double length = asked.lengths == nullptr ? 0 : (*asked.lengths)[entry.length].share;
  if (length == 0) return false;
  const double share = entry.power == 2 ? length * length : length;
  const auto size = static_cast<Bytes>(share * static_cast<double>(entry.size));
  return std::abs(asked.size - size) <= alignment + entry.size / policy_->rounding + entry.tile;
}

/// Whether it is the first of the step, or slots of two sizes have shown its share: requests that are taken
/// for others are out of proportion there. A small size is rounded too much to tell, and so is one in tiles.
bool Matcher::note_share(Follower& follower, const Entry& entry, const Asked& asked) const {
  const Bytes least = index_->plan().alignment * policy_->rounding;
  if (entry.power != 1 || entry.tile > 0 || asked.size < least) return false;
  Length& length = follower.lengths[entry.length];
  if (length.share > 0 && !has_size(entry, asked)) {
    length.shown_by = entry.size;
  } else if (length.share == 0 || entry.size != length.shown_by) {
    length.shown_by = 0;
  }
  length.share = static_cast<double>(asked.size) / static_cast<double>(entry.size);
  return length.shown_by == 0;
}

/// Whether the request agrees with a job that has got to `entry`.
bool Matcher::agrees(const PlannedStream& stream, std::size_t entry, const Asked& asked) const {
  if (entry >= stream.entries.size()) return false;  // no step repeats
  const Entry& slot = stream.entries[entry];
  if (has_size(slot, asked)) return true;
  // Where sizes follow several lengths, one of them may have been the same in all recorded steps.
  if (!slot.of_any_size && index_->lengths() == 1) return false;
  const bool plausible =
      asked.size >= slot.size / policy_->size_spread && asked.size <= policy_->size_spread * slot.size;
  // Micro-batches have lengths of their own. But where one of the next slots has the request's size, the
  // request is that one.
  return asked.pool == 0 && plausible && find_size(stream, entry, policy_->near, asked) == kNowhere;
}

/// The entry that the request stands for, kNowhere when there is none; moves the cursors on.
Matcher::Found Matcher::follow(const PlannedStream& stream, Follower& follower, const Asked& asked) const {
  Cursors& cursors = follower.cursors;
  if (cursors.first >= stream.entries.size()) return {};  // no step repeats
  const std::size_t followed = follow_cursors(stream, cursors, asked);
  if (followed != kNowhere) return {followed};
  const std::size_t anchor = find_anchor(stream, follower, asked);
  if (anchor == kNowhere) return look_around(stream, cursors, asked);
  cursors = {behind(stream, anchor)};
  return {anchor};
}

/// Keeps the cursors that agree with the request and moves them on.
std::size_t Matcher::follow_cursors(const PlannedStream& stream, Cursors& cursors, const Asked& asked) const {
  const auto [first, other] = cursors;
  const bool first_agrees = agrees(stream, first, asked);
  const bool other_agrees = other != kNowhere && agrees(stream, other, asked);
  if (!first_agrees && !other_agrees) return kNowhere;
  const std::size_t entry = first_agrees ? first : other;
  cursors = {behind(stream, entry)};
  if (first_agrees && other_agrees) cursors.other = behind(stream, other);
  return entry;
}

/// The request agrees with no cursor. The first of them stays, for the request may not be in the plan; the
/// other is set to what else it may be.
Matcher::Found Matcher::look_around(const PlannedStream& stream, Cursors& cursors, const Asked& asked) const {
  const std::size_t next = cursors.first;
  const auto guess = [&](std::size_t entry) {
    cursors.add(behind(stream, entry));
    return Found{entry, true};
  };
  // Some requests were left out.
  for (const std::size_t entry : {next, cursors.other}) {
    if (entry == kNowhere) continue;
    const std::size_t near = find_size(stream, entry, policy_->near, asked);
    if (near != kNowhere) return guess(near);
  }
  // A step begins.
  const std::size_t first = find_size(stream, stream.prologue, 1, asked);
  if (next >= stream.prologue && first != kNowhere) return guess(first);
  // Many requests were left out.
  const std::size_t far = find_size(stream, next, policy_->far, asked);
  if (far != kNowhere) return guess(far);
  // It is the next one, of another size: the one behind it will show.
  cursors.add(behind(stream, next));
  return {};
}

/// The first of the `reach` entries from `from` on that has the request's size.
std::size_t Matcher::find_size(const PlannedStream& stream, std::size_t from, std::size_t reach,
                               const Asked& asked) const {
  const std::size_t end = std::min(part_end(stream, from), from + reach);
  for (std::size_t i = from; i < end; ++i) {
    if (has_size(stream.entries[i], asked)) return i;
  }
  return kNowhere;
}

/// By how many bytes more or less lives than when the entry's request comes; 0 where that is not known.
Bytes Matcher::out_of_place(const Entry& entry, const Asked& asked) const {
  return asked.alive && beside_ ? std::abs(*asked.alive - *beside_ - index_->alive_before(entry.slot)) : 0;
}

/// The entry at which the last sizes end; if the plan has them several times, the one that agrees best with
/// what lives, and of equals the nearest ahead.
std::size_t Matcher::find_anchor(const PlannedStream& stream, const Follower& follower,
                                 const Asked& asked) const {
  const std::optional<std::uint64_t> hash = follower.trail.hash(index_->plan().alignment);
  if (!hash) return kNowhere;
  const std::size_t next = follower.cursors.first;
  const std::size_t end = part_end(stream, next);
  const auto less = [](const PlannedStream::Anchor& anchor, std::uint64_t h) { return anchor.hash < h; };
  auto at = std::lower_bound(stream.anchors.begin(), stream.anchors.end(), *hash, less);
  std::size_t best = kNowhere;
  std::pair<Bytes, bool> least = {std::numeric_limits<Bytes>::max(), true};
  for (; at != stream.anchors.end() && at->hash == *hash && at->entry < end; ++at) {
    const Entry& entry = stream.entries[at->entry];
    const bool is_behind = at->entry < next;
    if ((is_behind && at->entry < stream.prologue) || !has_size(entry, asked)) continue;
    const std::pair<Bytes, bool> odds = {out_of_place(entry, asked), is_behind};
    if (odds < least) best = at->entry;
    least = std::min(least, odds);
  }
  return best;
}

}  // namespace stweaver
