#include "arena/free_space.h"

#include <algorithm>
#include <utility>

namespace stweaver {

/// The last gap that begins at or below `offset`; failing that the first of all.
FreeSpace::Cursor FreeSpace::find(Bytes offset) const {
  const auto top = std::partition_point(branches_.begin(), branches_.end(), [offset](const Top& held) {
    return held.branch->first[0] <= offset;
  });
  if (top == branches_.begin()) return {};
  const Branch& branch = *std::prev(top)->branch;
  const auto above = [offset](const Bytes* begin, const Bytes* end) {
    return std::partition_point(begin, end, [offset](Bytes first) { return first <= offset; });
  };
  const auto number = static_cast<std::size_t>(
      above(branch.first.data() + 1, branch.first.data() + branch.count) - branch.first.data() - 1);
  const Leaf& leaf = *branch.leaves[number];
  const Gap* const gap =
      std::partition_point(leaf.gaps.data() + 1, leaf.gaps.data() + leaf.count,
                           [offset](const Gap& candidate) { return candidate.offset <= offset; });
  return {static_cast<std::size_t>(top - branches_.begin()) - 1, number,
          static_cast<std::size_t>(gap - leaf.gaps.data()) - 1};
}

FreeSpace::Cursor FreeSpace::next(Cursor at) const {
  if (++at.index < leaf(at).count) return at;
  if (++at.leaf < branch(at).count) return {at.branch, at.leaf, 0};
  return {at.branch + 1, 0, 0};
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
  if (branches_.empty()) return insert({}, {offset, end, last});
  const Cursor below = find(offset);
  const bool is_below = gap(below).offset <= offset;
  const Cursor above = is_below ? next(below) : below;
  const bool joins_below = is_below && gap(below).end == offset && gap(below).last.stream == last.stream;
  const bool joins_above = exists(above) && gap(above).offset == end && gap(above).last.stream == last.stream;
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
    note_begin(above);
    note_size(above);
  } else {
    insert(is_below ? Cursor{below.branch, below.leaf, below.index + 1} : below, {offset, end, last});
  }
}

void FreeSpace::take(Bytes offset, Bytes size) {
  idle_ -= size;
  const Bytes end = offset + size;
  while (offset < end) {
    const Cursor at = find(offset);
    const Bytes piece = std::min(gap(at).end, end);
    take_from(at, offset, piece);
    offset = piece;
  }
}

/// Takes [offset, end) out of one gap.
void FreeSpace::take_from(const Cursor& at, Bytes offset, Bytes end) {
  Gap& whole = gap(at);
  const Gap above = {end, whole.end, whole.last};
  if (whole.offset == offset && whole.end == end) return erase(at);
  if (whole.offset == offset) {
    whole.offset = end;
    return note_begin(at);
  }
  whole.end = offset;
  if (above.offset < above.end) insert({at.branch, at.leaf, at.index + 1}, above);
}

void FreeSpace::note_size(const Cursor& at) {
  branch(at).below[at.leaf].add(gap(at));
  branches_[at.branch].below.add(gap(at));
}

std::unique_ptr<FreeSpace::Leaf> FreeSpace::new_leaf() {
  if (spare_leaves_.empty()) {
    spare_leaves_.reserve(++leaves_);  // so that erase() never needs the heap
    return std::make_unique<Leaf>();
  }
  std::unique_ptr<Leaf> leaf = std::move(spare_leaves_.back());
  spare_leaves_.pop_back();
  leaf->count = 0;
  return leaf;
}

/// Moves the upper half of a full branch into one behind it.
void FreeSpace::split_branch(Cursor& at) {
  constexpr std::size_t kHalf = kFanOut / 2;
  if (spare_branches_.empty()) {
    spare_branches_.reserve(branches_.size() + 1);
    spare_branches_.push_back(std::make_unique<Branch>());
  }
  Top upper = {std::move(spare_branches_.back()), branches_[at.branch].below};
  spare_branches_.pop_back();
  Branch& lower = branch(at);
  for (std::size_t i = kHalf; i < kFanOut; ++i) {
    upper.branch->first[i - kHalf] = lower.first[i];
    upper.branch->below[i - kHalf] = lower.below[i];
    upper.branch->leaves[i - kHalf] = std::move(lower.leaves[i]);
  }
  upper.branch->count = kFanOut - kHalf;
  lower.count = kHalf;
  branches_.insert(branches_.begin() + static_cast<std::ptrdiff_t>(at.branch) + 1, std::move(upper));
  if (at.leaf >= kHalf) at = {at.branch + 1, at.leaf - kHalf, at.index};
}

/// Moves the upper half of a full leaf into one behind it.
void FreeSpace::split_leaf(Cursor& at) {
  constexpr std::size_t kHalf = kFanOut / 2;
  if (branch(at).count == kFanOut) split_branch(at);
  Branch& held = branch(at);
  Leaf& lower = leaf(at);
  std::unique_ptr<Leaf> upper = new_leaf();
  std::copy(lower.gaps.begin() + kHalf, lower.gaps.end(), upper->gaps.begin());
  upper->count = kFanOut - kHalf;
  lower.count = kHalf;
  for (std::size_t i = held.count++; i > at.leaf + 1; --i) {
    held.first[i] = held.first[i - 1];
    held.below[i] = held.below[i - 1];
    held.leaves[i] = std::move(held.leaves[i - 1]);
  }
  held.first[at.leaf + 1] = upper->gaps[0].offset;
  held.below[at.leaf + 1] = held.below[at.leaf];
  held.leaves[at.leaf + 1] = std::move(upper);
  if (at.index > kHalf) at = {at.branch, at.leaf + 1, at.index - kHalf};
}

/// Inserts before the gap at `at`, or at the end of that leaf.
void FreeSpace::insert(Cursor at, const Gap& gap) {
  if (branches_.empty()) {
    if (spare_branches_.empty()) spare_branches_.push_back(std::make_unique<Branch>());
    branches_.push_back({std::move(spare_branches_.back()), {}});
    spare_branches_.pop_back();
    branches_.front().branch->count = 1;
    branches_.front().branch->below[0] = {};
    branches_.front().branch->leaves[0] = new_leaf();
  }
  if (leaf(at).count == kFanOut) split_leaf(at);
  Leaf& to = leaf(at);
  Gap* const place = to.gaps.data() + at.index;
  std::copy_backward(place, to.gaps.data() + to.count, to.gaps.data() + to.count + 1);
  *place = gap;
  ++to.count;
  note_begin(at);
  note_size(at);
}

void FreeSpace::erase(const Cursor& at) {
  Leaf& from = leaf(at);
  Gap* const gone = from.gaps.data() + at.index;
  std::copy(gone + 1, from.gaps.data() + from.count, gone);
  if (--from.count > 0) return note_begin(at);
  Branch& held = branch(at);
  spare_leaves_.push_back(std::move(held.leaves[at.leaf]));
  --held.count;
  for (std::size_t i = at.leaf; i < held.count; ++i) {
    held.first[i] = held.first[i + 1];
    held.below[i] = held.below[i + 1];
    held.leaves[i] = std::move(held.leaves[i + 1]);
  }
  if (held.count > 0) return;
  spare_branches_.push_back(std::move(branches_[at.branch].branch));
  branches_.erase(branches_.begin() + static_cast<std::ptrdiff_t>(at.branch));
}

std::size_t FreeSpace::gaps() const {
  std::size_t count = 0;
  for (const Top& top : branches_) {
    for (std::size_t i = 0; i < top.branch->count; ++i) count += top.branch->leaves[i]->count;
  }
  return count;
}

}  // namespace stweaver
