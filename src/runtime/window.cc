#include "runtime/window.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace stweaver {
namespace {

/// Goes along addresses from the lowest on, and remembers the best window so far.
class Search {
 public:
  Search(Bytes room, Bytes begin) : room_(room), begin_(begin) {}

  /// Here is idle memory.
  void add_idle(const Interval& piece) {
    idle_.push_back({piece, idle_.empty() ? 0 : idle_.back().below + idle_.back().piece.length()});
  }

  /// Here a window ends at the latest, and behind it the next may begin.
  void add_taken(const Interval& taken) {
    if (taken.empty()) return;
    end_at(taken.lower);
    begin_ = taken.upper;
  }

  std::optional<Interval> end(Bytes end) && {
    end_at(end);
    return best_;
  }

 private:
  struct Idle {
    Interval piece;
    Bytes below = 0;  ///< idle bytes in the pieces below
  };

  /// A window that cannot be moved to hold more begins or ends with a piece.
  void end_at(Bytes end) {
    if (end - begin_ >= room_) {
      if (idle_.empty()) consider(begin_);
      for (const Idle& idle : idle_) {
        consider(std::min(idle.piece.lower, end - room_));
        consider(std::max(idle.piece.upper - room_, begin_));
      }
    }
    idle_.clear();
  }

  void consider(Bytes at) {
    const Bytes held = idle_below(at + room_) - idle_below(at);
    if (best_ && held <= best_held_) return;
    best_ = {at, at + room_};
    best_held_ = held;
  }

  [[nodiscard]] Bytes idle_below(Bytes offset) const {
    const auto above = std::partition_point(idle_.begin(), idle_.end(),
                                            [&](const Idle& idle) { return idle.piece.lower < offset; });
    if (above == idle_.begin()) return 0;
    const Idle& last = *std::prev(above);
    return last.below + std::min(offset, last.piece.upper) - last.piece.lower;
  }

  Bytes room_;
  Bytes begin_;             ///< of the addresses without a tenant that the search is in
  std::vector<Idle> idle_;  ///< pieces of those that have memory
  std::optional<Interval> best_;
  Bytes best_held_ = 0;
};

}  // namespace

std::optional<Window> find_window(const Arena& arena, Bytes room, const Interval& region,
                                  const std::function<bool(const LastUse&)>& usable) {
  Search search(room, region.lower);
  for (const Interval& run : arena.mapped_in(region)) {
    Bytes at = run.lower;
    (void)arena.free_space.visit(run.lower, run.length(), [&](const Gap& gap) {
      if (!usable(gap.last)) return true;
      const Interval piece = {std::max(gap.offset, run.lower), std::min(gap.end, run.upper)};
      search.add_taken({at, piece.lower});
      search.add_idle(piece);
      at = piece.upper;
      return true;
    });
    search.add_taken({at, run.upper});
  }
  const std::optional<Interval> best = std::move(search).end(region.upper);
  if (!best) return std::nullopt;
  const Bytes page = arena.page_size();
  return Window{*best, arena.missing({best->lower / page * page, align_up(best->upper, page)})};
}

}  // namespace stweaver
