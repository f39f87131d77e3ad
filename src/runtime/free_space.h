// What is idle in an arena: the liveness structure that is asked on every grant.
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
using LaneId = std::uint32_t;
inline constexpr LaneId kNobody = 0xffffffffU;

/// Counts the calls of an allocator.
using Tick = std::uint64_t;

/// Who used some memory last: the lane that freed it, and when. Nobody when it is new.
struct LastUse {
  LaneId lane = kNobody;
  Tick freed = 0;
};

/// A range that nobody lives in.
struct Gap {
  Bytes offset = 0;
  Bytes end = 0;
  LastUse last;
};

/// The gaps of an address range, in order of offset. Neighbours that the same lane freed are one gap; of
/// different lanes they stay apart, because another lane may take them only behind a wait.
///
/// A sorted array cut into chunks: a search touches one or two cache lines of a chunk, and a chunk is small
/// enough to be moved. Calls take O(log gaps + kChunk); best_fit() skips all chunks without a gap that large.
/// Memory comes from the heap only when there are more chunks than ever before.
class FreeSpace {
 public:
  /// The range becomes idle; it must not overlap what is idle already.
  void give(Bytes offset, Bytes size, LastUse last);

  /// Whether nobody lives in [offset, offset + size).
  [[nodiscard]] bool is_idle(Bytes offset, Bytes size) const;

  /// Calls visit(const Gap&) for every gap that overlaps the range, until it returns false. Whether all did.
  template <typename Visit>
  [[nodiscard]] bool visit(Bytes offset, Bytes size, Visit visit) const {
    for (Place at = find(offset); exists(at) && gap(at).offset < offset + size; at = next(at)) {
      if (gap(at).end > offset && !visit(gap(at))) return false;
    }
    return true;
  }

  /// Takes the range away if it is idle and `allowed(LastUse)` accepts every piece of it. Whether it did.
  template <typename Allowed>
  bool take_if(Bytes offset, Bytes size, Allowed allowed) {
    const Place at = find(offset);
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

  /// Where the smallest gap of at least `size` bytes begins, the lowest of equals: inside [within.lower,
  /// within.upper), beside the ranges of `taken` (ordered, no two touching), and only if `allowed(LastUse)`
  /// accepts who used it last.
  template <typename Allowed>
  std::optional<Bytes> best_fit(Bytes size, Interval within, Allowed allowed,
                                std::span<const Interval> taken = {}) {
    Bytes best = 0;
    Bytes best_room = kNoRoom;
    each_fitting(size, within, allowed, [&](const Interval& gap) {
      each_rest(gap, taken, [&](const Interval& rest) {
        if (rest.length() < size || rest.length() >= best_room) return;
        best = rest.lower;
        best_room = rest.length();
      });
      return true;
    });
    return best_room == kNoRoom ? std::nullopt : std::optional(best);
  }

  /// Where the lowest gap of at least `size` bytes begins inside `within`, if `allowed(LastUse)` accepts who
  /// used it last. The gap's part inside `within` counts.
  template <typename Allowed>
  std::optional<Bytes> first_fit(Bytes size, Interval within, Allowed allowed) {
    std::optional<Bytes> first;
    each_fitting(size, within, allowed, [&](const Interval& gap) {
      first = gap.lower;
      return false;
    });
    return first;
  }

  [[nodiscard]] Bytes idle() const { return idle_; }  ///< bytes in all gaps
  [[nodiscard]] std::size_t gaps() const;

 private:
  static constexpr std::size_t kChunk = 64;
  static constexpr Bytes kNoRoom = std::numeric_limits<Bytes>::max();

  struct Chunk {
    std::size_t count = 0;
    std::array<Gap, kChunk> gaps;
  };

  /// What searches skip a chunk by, side by side.
  struct Held {
    std::unique_ptr<Chunk> chunk;
    Bytes largest = 0;  ///< no gap in it is larger; the largest may be smaller
  };

  struct Place {
    std::size_t chunk = 0;
    std::size_t index = 0;
  };

  /// Calls visit(part) with the part inside `within` of each gap where that is at least `size` bytes and
  /// allowed(LastUse) accepts who used it last, lowest first, until visit says false. Notes what it learns of
  /// the largest gap in each chunk.
  template <typename Allowed, typename Visit>
  void each_fitting(Bytes size, Interval within, Allowed allowed, Visit visit) {
    for (std::size_t c = find(within.lower).chunk; c < chunks_.size(); ++c) {
      if (chunks_[c].largest < size) continue;
      const Chunk& chunk = *chunks_[c].chunk;
      if (chunk.gaps[0].offset >= within.upper) break;
      Bytes largest = 0;
      for (std::size_t i = 0; i < chunk.count; ++i) {
        const Gap& gap = chunk.gaps[i];
        largest = std::max(largest, gap.end - gap.offset);
        const Interval inside = {std::max(gap.offset, within.lower), std::min(gap.end, within.upper)};
        if (inside.length() >= size && allowed(gap.last) && !visit(inside)) return;
      }
      chunks_[c].largest = largest;
    }
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

  [[nodiscard]] Place find(Bytes offset) const;
  [[nodiscard]] bool exists(Place at) const { return at.chunk < chunks_.size(); }
  [[nodiscard]] const Gap& gap(Place at) const { return chunks_[at.chunk].chunk->gaps[at.index]; }
  [[nodiscard]] Gap& gap(Place at) { return chunks_[at.chunk].chunk->gaps[at.index]; }
  [[nodiscard]] Place next(Place at) const;
  void insert(Place at, const Gap& gap);
  void erase(Place at);
  void note_size(Place at);
  void take_from(Place at, Bytes offset, Bytes end);
  std::unique_ptr<Chunk> new_chunk();

  std::vector<Held> chunks_;  ///< none is empty
  std::vector<std::unique_ptr<Chunk>> spare_;
  Bytes idle_ = 0;
};

}  // namespace stweaver
