#include "runtime/free_space.h"

#include <algorithm>
#include <utility>

namespace stweaver {

/// The last gap that begins at or below `offset`; failing that the first of all.
FreeSpace::Place FreeSpace::find(Bytes offset) const {
  const auto chunk = std::partition_point(chunks_.begin(), chunks_.end(), [offset](const Held& held) {
    return held.chunk->gaps[0].offset <= offset;
  });
  if (chunk == chunks_.begin()) return {};
  const Chunk& found = *std::prev(chunk)->chunk;
  const auto* const end = found.gaps.data() + found.count;
  const auto* const gap =
      std::partition_point(found.gaps.data() + 1, end, [offset](const Gap& g) { return g.offset <= offset; });
  return {static_cast<std::size_t>(chunk - chunks_.begin()) - 1,
          static_cast<std::size_t>(gap - found.gaps.data()) - 1};
}

FreeSpace::Place FreeSpace::next(Place at) const {
  if (++at.index < chunks_[at.chunk].chunk->count) return at;
  return {at.chunk + 1, 0};
}

bool FreeSpace::is_idle(Bytes offset, Bytes size) const {
  Bytes idle = 0;
  const bool all = visit(offset, size, [&](const Gap& gap) {
    idle += std::min(gap.end, offset + size) - std::max(gap.offset, offset);
    return true;
  });
  return all && idle == size;
}

void FreeSpace::give(Bytes offset, Bytes size, LastUse last) {
  idle_ += size;
  const Bytes end = offset + size;
  if (chunks_.empty()) return insert({}, {offset, end, last});
  const Place below = find(offset);
  const bool is_below = gap(below).offset <= offset;
  const Place above = is_below ? next(below) : below;
  const bool joins_below = is_below && gap(below).end == offset && gap(below).last.lane == last.lane;
  const bool joins_above = exists(above) && gap(above).offset == end && gap(above).last.lane == last.lane;
  if (joins_above) last.freed = std::max(last.freed, gap(above).last.freed);
  if (joins_below) {
    Gap& grown = gap(below);
    grown.end = joins_above ? gap(above).end : end;
    grown.last.freed = std::max(last.freed, grown.last.freed);
    note_size(below);
    if (joins_above) erase(above);
  } else if (joins_above) {
    gap(above).offset = offset;
    gap(above).last = last;
    note_size(above);
  } else {
    insert(is_below ? Place{below.chunk, below.index + 1} : below, {offset, end, last});
  }
}

void FreeSpace::take(Bytes offset, Bytes size) {
  idle_ -= size;
  const Bytes end = offset + size;
  while (offset < end) {
    const Place at = find(offset);
    const Bytes piece = std::min(gap(at).end, end);
    take_from(at, offset, piece);
    offset = piece;
  }
}

/// Takes [offset, end) out of one gap.
void FreeSpace::take_from(Place at, Bytes offset, Bytes end) {
  Gap& whole = gap(at);
  const Gap above = {end, whole.end, whole.last};
  if (whole.offset == offset && whole.end == end) return erase(at);
  if (whole.offset == offset) {
    whole.offset = end;
    return;
  }
  whole.end = offset;
  if (above.offset < above.end) insert({at.chunk, at.index + 1}, above);
}

void FreeSpace::note_size(Place at) {
  Bytes& largest = chunks_[at.chunk].largest;
  largest = std::max(largest, gap(at).end - gap(at).offset);
}

std::unique_ptr<FreeSpace::Chunk> FreeSpace::new_chunk() {
  if (spare_.empty()) {
    spare_.reserve(chunks_.size() + 1);  // so that erase() never needs the heap
    return std::make_unique<Chunk>();
  }
  std::unique_ptr<Chunk> chunk = std::move(spare_.back());
  spare_.pop_back();
  return chunk;
}

/// Inserts before the gap at `at`, or at the end of that chunk.
void FreeSpace::insert(Place at, const Gap& gap) {
  if (chunks_.empty()) {
    chunks_.push_back({new_chunk()});
    chunks_.front().chunk->count = 0;
  }
  if (chunks_[at.chunk].chunk->count == kChunk) {
    constexpr std::size_t kHalf = kChunk / 2;
    std::unique_ptr<Chunk> upper = new_chunk();
    Chunk& lower = *chunks_[at.chunk].chunk;
    std::copy(lower.gaps.begin() + kHalf, lower.gaps.end(), upper->gaps.begin());
    upper->count = kChunk - kHalf;
    lower.count = kHalf;
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(at.chunk) + 1,
                   {std::move(upper), chunks_[at.chunk].largest});
    if (at.index > kHalf) at = {at.chunk + 1, at.index - kHalf};
  }
  Chunk& chunk = *chunks_[at.chunk].chunk;
  Gap* const to = chunk.gaps.data() + at.index;
  std::copy_backward(to, chunk.gaps.data() + chunk.count, chunk.gaps.data() + chunk.count + 1);
  *to = gap;
  ++chunk.count;
  note_size(at);
}

void FreeSpace::erase(Place at) {
  Chunk& chunk = *chunks_[at.chunk].chunk;
  Gap* const gone = chunk.gaps.data() + at.index;
  std::copy(gone + 1, chunk.gaps.data() + chunk.count, gone);
  if (--chunk.count > 0) return;
  spare_.push_back(std::move(chunks_[at.chunk].chunk));
  chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(at.chunk));
}

std::size_t FreeSpace::gaps() const {
  std::size_t count = 0;
  for (const Held& held : chunks_) count += held.chunk->count;
  return count;
}

}  // namespace stweaver
