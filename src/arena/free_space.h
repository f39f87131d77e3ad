// What is idle in the arena: asked on every grant, whatever a plan says.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/base.h"

namespace stweaver {

/// A number for each stream of the process, in the order in which they were first seen (stream_order.h).
using StreamIndex = std::uint32_t;
inline constexpr StreamIndex kNoStream = 0xffffffffU;

/// Counts the calls of an allocator.
using Tick = std::uint64_t;

/// Who used some memory last: the stream that it was freed on, and when. None when the memory is new.
struct LastUse {
  StreamIndex stream = kNoStream;
  Tick freed = 0;
};

/// A range that is in no block.
struct Gap {
  Bytes offset = 0;
  Bytes end = 0;
  LastUse last;
};

/// What is known of many gaps, so that a search can skip them: by stream, the largest gap is no larger and
/// none was freed earlier. Streams share the first entries; the last is that of gaps that no stream has used.
struct GapSummary {
  static constexpr std::size_t kGroups = 5;
  static std::size_t group_of(StreamIndex stream) {
    return stream == kNoStream ? kGroups - 1 : stream % (kGroups - 1);
  }

  std::array<Bytes, kGroups> largest = {};
  std::array<Tick, kGroups> oldest = {};

  void add(const Gap& gap) {
    const std::size_t group = group_of(gap.last.stream);
    if (largest[group] == 0 || gap.last.freed < oldest[group]) oldest[group] = gap.last.freed;
    largest[group] = std::max(largest[group], gap.end - gap.offset);
  }
  void add(const GapSummary& other) {
    for (std::size_t group = 0; group < kGroups; ++group) {
      if (other.largest[group] == 0) continue;
      if (largest[group] == 0 || other.oldest[group] < oldest[group]) oldest[group] = other.oldest[group];
      largest[group] = std::max(largest[group], other.largest[group]);
    }
  }
};

/// Accepts whatever stream used memory last.
struct AnyStream {
  bool operator()(const LastUse&) const { return true; }
  [[nodiscard]] static bool may_use(std::size_t, Tick) { return true; }
};

/// Accepts every place.
struct Anywhere {
  bool operator()(Bytes) const { return true; }
};

/// The gaps of an address range, in order of offset. Neighbours freed on the same stream are one gap; those
/// of different streams stay apart, because another stream may take them only behind a wait.
///
/// A tree of two levels over sorted leaves of 64 gaps: a search touches a few cache lines, and skips leaves
/// and branches by what their summaries say of the gaps below. `usable` in searches says which last uses will
/// do (operator()) and which of a summary's groups may hold one (may_use()): StreamOrder::usable_by() or
/// AnyStream. Memory comes from the heap only when there are more leaves than ever before.
class FreeSpace {
 public:
  /// The range becomes idle; it must not overlap what is idle already.
  void give(Bytes offset, Bytes size, LastUse last);

  /// Whether no block is in [offset, offset + size), and memory behind all of it.
  [[nodiscard]] bool is_idle(Bytes offset, Bytes size) const;

  /// Calls visit(const Gap&) for every gap that overlaps the range, until it returns false. Whether all did.
  template <typename Visit>
  [[nodiscard]] bool visit(Bytes offset, Bytes size, Visit visit) const {
    for (Cursor at = find(offset); exists(at) && gap(at).offset < offset + size; at = next(at)) {
      if (gap(at).end > offset && !visit(gap(at))) return false;
    }
    return true;
  }

  /// Takes the range away if it is idle and `allowed(LastUse)` accepts every piece of it. Whether it did.
  template <typename Allowed>
  bool take_if(Bytes offset, Bytes size, Allowed allowed) {
    const Cursor at = find(offset);
    if (exists(at) && gap(at).offset <= offset && offset + size <= gap(at).end) {
      if (!allowed(gap(at).last)) return false;
      idle_ -= size;
      take_from(at, offset, offset + size);
      return true;
    }
    if (!is_idle(offset, size)) return false;
    if (!visit(offset, size, [&](const Gap& piece) { return allowed(piece.last); })) return false;
    take(offset, size);
    return true;
  }

  /// Takes an idle range away.
  void take(Bytes offset, Bytes size);

  /// Where the smallest gap of at least `size` bytes begins, the lowest of equals: inside `within`, usable,
  /// beside the ranges of `taken` (ordered, no two touching), and where `may_begin(offset)`.
  template <typename Usable, typename MayBegin = Anywhere>
  std::optional<Bytes> best_fit(Bytes size, Interval within, const Usable& usable,
                                std::span<const Interval> taken = {}, MayBegin may_begin = {}) {
    Bytes best = 0;
    Bytes best_length = kNone;
    each_fitting(size, within, usable, [&](const Interval& gap) {
      each_rest(gap, taken, [&](const Interval& rest) {
        if (rest.length() < size || rest.length() >= best_length || !may_begin(rest.lower)) return;
        best = rest.lower;
        best_length = rest.length();
      });
      return best_length > size;
    });
    return best_length == kNone ? std::nullopt : std::optional(best);
  }

  /// Where the lowest usable gap of at least `size` bytes begins inside `within`. The gap's part inside
  /// `within` counts.
  template <typename Usable>
  std::optional<Bytes> first_fit(Bytes size, Interval within, const Usable& usable) {
    std::optional<Bytes> first;
    each_fitting(size, within, usable, [&](const Interval& gap) {
      first = gap.lower;
      return false;
    });
    return first;
  }

  /// Calls visit(Interval) with the part inside `within` of each usable gap where that is at least `size`
  /// bytes, lowest first, until it returns false.
  template <typename Usable, typename Visit>
  void each_fitting(Bytes size, Interval within, const Usable& usable, Visit visit);

  [[nodiscard]] Bytes idle() const { return idle_; }  ///< bytes in all gaps
  [[nodiscard]] std::size_t gaps() const;

 private:
  static constexpr std::size_t kFanOut = 64;
  static constexpr Bytes kNone = std::numeric_limits<Bytes>::max();

  struct Leaf {
    std::size_t count = 0;
    std::array<Gap, kFanOut> gaps;
  };

  struct Branch {
    std::size_t count = 0;
    std::array<Bytes, kFanOut> first;  ///< offset of each leaf's first gap
    std::array<GapSummary, kFanOut> below;
    std::array<std::unique_ptr<Leaf>, kFanOut> leaves;
  };

  struct Top {
    std::unique_ptr<Branch> branch;
    GapSummary below;
  };

  struct Cursor {
    std::size_t branch = 0;
    std::size_t leaf = 0;
    std::size_t index = 0;
  };

  template <typename Usable>
  static bool may_fit(const GapSummary& below, Bytes size, const Usable& usable) {
    for (std::size_t group = 0; group < GapSummary::kGroups; ++group) {
      if (below.largest[group] >= size && usable.may_use(group, below.oldest[group])) return true;
    }
    return false;
  }

  template <typename Usable, typename Visit>
  bool visit_leaf(Branch& branch, std::size_t number, Bytes size, Interval within, const Usable& usable,
                  Visit& visit) {
    const Leaf& leaf = *branch.leaves[number];
    bool fits = false;
    for (std::size_t i = 0; i < leaf.count; ++i) {
      const Gap& gap = leaf.gaps[i];
      const Interval inside = common({gap.offset, gap.end}, within);
      if (inside.length() < size || !usable(gap.last)) continue;
      fits = true;
      if (!visit(inside)) return false;
    }
    if (fits) return true;  // as its summary promised
    GapSummary below;
    for (std::size_t i = 0; i < leaf.count; ++i) below.add(leaf.gaps[i]);
    branch.below[number] = below;
    return true;
  }

  /// What `taken` leaves of a gap.
  template <typename Visit>
  static void each_rest(Interval gap, std::span<const Interval> taken, Visit visit) {
    auto at = std::partition_point(taken.begin(), taken.end(),
                                   [&](const Interval& range) { return range.upper <= gap.lower; });
    for (; at != taken.end() && at->lower < gap.upper; ++at) {
      visit(Interval{gap.lower, at->lower});
      gap.lower = at->upper;
    }
    visit(gap);
  }

  [[nodiscard]] Cursor find(Bytes offset) const;
  [[nodiscard]] bool exists(const Cursor& at) const { return at.branch < branches_.size(); }
  [[nodiscard]] Branch& branch(const Cursor& at) const { return *branches_[at.branch].branch; }
  [[nodiscard]] Leaf& leaf(const Cursor& at) const { return *branch(at).leaves[at.leaf]; }
  [[nodiscard]] Gap& gap(const Cursor& at) const { return leaf(at).gaps[at.index]; }
  [[nodiscard]] Cursor next(Cursor at) const;
  void insert(Cursor at, const Gap& gap);
  void erase(const Cursor& at);
  void note_begin(const Cursor& at) { branch(at).first[at.leaf] = leaf(at).gaps[0].offset; }
  void note_size(const Cursor& at);
  void take_from(const Cursor& at, Bytes offset, Bytes end);
  void split_leaf(Cursor& at);
  void split_branch(Cursor& at);
  std::unique_ptr<Leaf> new_leaf();

  std::vector<Top> branches_;  ///< none is empty, nor is any of their leaves
  std::vector<std::unique_ptr<Leaf>> spare_leaves_;
  std::vector<std::unique_ptr<Branch>> spare_branches_;
  std::size_t leaves_ = 0;  ///< made so far
  Bytes idle_ = 0;
};

template <typename Usable, typename Visit>
void FreeSpace::each_fitting(Bytes size, Interval within, const Usable& usable, Visit visit) {
  Cursor at = find(within.lower);
  for (std::size_t b = at.branch; b < branches_.size(); ++b, at.leaf = 0) {
    Branch& branch = *branches_[b].branch;
    if (branch.first[0] >= within.upper) return;
    if (!may_fit(branches_[b].below, size, usable)) continue;
    for (std::size_t i = at.leaf; i < branch.count; ++i) {
      if (branch.first[i] >= within.upper) return;
      if (!may_fit(branch.below[i], size, usable)) continue;
      if (!visit_leaf(branch, i, size, within, usable, visit)) return;
    }
    GapSummary below;
    for (std::size_t i = 0; i < branch.count; ++i) below.add(branch.below[i]);
    branches_[b].below = below;
  }
}

}  // namespace stweaver
