#include "plan/live_blocks.h"

#include <algorithm>

namespace stweaver {
namespace {

template <typename T>
void insert_at(std::vector<T>& vector, std::size_t index, const T& value) {
  vector.insert(vector.begin() + static_cast<std::ptrdiff_t>(index), value);
}

template <typename T>
void erase_at(std::vector<T>& vector, std::size_t index) {
  vector.erase(vector.begin() + static_cast<std::ptrdiff_t>(index));
}

}  // namespace

void LiveBlocks::clear() {
  free_.insert(free_.end(), chunks_.begin(), chunks_.end());
  chunks_.clear();
  firsts_.clear();
  summaries_.clear();
  groups_.clear();
}

void LiveBlocks::insert(const Interval& block) {
  if (chunks_.empty()) split(0);
  std::size_t c = chunk_for(block.lower);
  if (pool_[chunks_[c]].count == kChunk) {
    split(c);
    if (firsts_[c + 1] <= block.lower) ++c;
  }
  Chunk& chunk = pool_[chunks_[c]];
  Interval* const begin = chunk.blocks.data();
  Interval* const end = begin + chunk.count;
  Interval* const at = std::upper_bound(
      begin, end, block, [](const Interval& a, const Interval& b) { return a.lower < b.lower; });
  const Summary& summary = summaries_[c];
  const bool in_largest_gap = at != end && at->lower - end_below(c, at) >= summary.gap;
  const bool at_rim = at == begin || at == end;
  std::copy_backward(at, end, end + 1);
  *at = block;
  ++chunk.count;
  firsts_[c] = begin->lower;
  if (in_largest_gap || at_rim || block.upper > summary.end) touch(c);
}

void LiveBlocks::erase(const Interval& block) {
  // Blocks of one offset may lie in several chunks; chunk_for() finds the last.
  for (std::size_t c = chunk_for(block.lower);; --c) {
    Chunk& chunk = pool_[chunks_[c]];
    Interval* const begin = chunk.blocks.data();
    Interval* const end = begin + chunk.count;
    Interval* at = std::lower_bound(begin, end, block,
                                    [](const Interval& a, const Interval& b) { return a.lower < b.lower; });
    while (at != end && at->lower == block.lower && at->upper != block.upper) ++at;
    if (at == end || at->lower != block.lower) continue;
    std::copy(at + 1, end, at);
    --chunk.count;
    if (chunk.count == 0) {
      remove(c);
      return;
    }
    firsts_[c] = begin->lower;
    const bool was_last = at + 1 == end;  // what lies behind it has moved down
    if (at == begin || was_last || block.upper >= summaries_[c].end || block.upper > at->lower) {
      touch(c);
    } else {
      widen(c, at->lower - end_below(c, at));
    }
    return;
  }
}

/// The end of the block below `at`, which is in chunk c or at its end.
Bytes LiveBlocks::end_below(std::size_t c, const Interval* at) const {
  if (at != pool_[chunks_[c]].blocks.data()) return (at - 1)->upper;
  return c == 0 ? 0 : summaries_[c - 1].end;
}

/// The last chunk that begins at or below the offset, or the first.
std::size_t LiveBlocks::chunk_for(Bytes offset) const {
  const auto after = std::upper_bound(firsts_.begin(), firsts_.end(), offset) - firsts_.begin();
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(after - 1, 0));
}

/// Moves the upper half of a chunk into a new one behind it; makes the first chunk when there is none.
void LiveBlocks::split(std::size_t c) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(pool_.size()));
    pool_.emplace_back();
  }
  const std::uint32_t id = free_.back();
  free_.pop_back();
  Chunk& added = pool_[id];
  added.count = 0;
  const std::size_t index = chunks_.empty() ? 0 : c + 1;
  insert_at(chunks_, index, id);
  insert_at(firsts_, index, Bytes{0});
  insert_at(summaries_, index, Summary());
  regroup(index);
  if (index == 0) return;
  Chunk& chunk = pool_[chunks_[c]];
  added.count = chunk.count / 2;
  chunk.count -= added.count;
  std::copy_n(chunk.blocks.data() + chunk.count, added.count, added.blocks.data());
  firsts_[index] = added.blocks.front().lower;
  touch(c);
  touch(index);
}

void LiveBlocks::remove(std::size_t c) {
  free_.push_back(chunks_[c]);
  erase_at(chunks_, c);
  erase_at(firsts_, c);
  erase_at(summaries_, c);
  regroup(c);
  if (c < chunks_.size()) touch(c);
}

/// Notes that a chunk changed, and the gap between it and the next one with it.
void LiveBlocks::touch(std::size_t c) {
  widen(c, kUnknown);
  if (c + 1 < chunks_.size()) widen(c + 1, kUnknown);
}

void LiveBlocks::widen(std::size_t c, Bytes gap) {
  for (Summary* summary : {&summaries_[c], &groups_[c / kGroup]}) summary->gap = std::max(summary->gap, gap);
}

/// Notes that from c on there are other chunks than before.
void LiveBlocks::regroup(std::size_t c) {
  groups_.resize((chunks_.size() + kGroup - 1) / kGroup);
  for (std::size_t g = c / kGroup; g < groups_.size(); ++g) groups_[g].gap = kUnknown;
}

}  // namespace stweaver
