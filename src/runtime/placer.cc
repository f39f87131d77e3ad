#include "runtime/placer.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace stweaver {
namespace {

/// Goes along free addresses from the lowest on, some with idle memory, and tells of each place for a window
/// that no other place beside it is better than: those that begin or end with a piece of idle memory.
class Candidates {
 public:
  using Visit = std::function<void(const Interval& window, Bytes held)>;

  Candidates(Bytes size, Bytes begin, Visit visit) : size_(size), begin_(begin), visit_(std::move(visit)) {}

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

  void end_at(Bytes end) {
    if (end - begin_ >= size_) {
      consider(begin_);
      for (const Idle& idle : idle_) {
        consider(std::min(idle.piece.lower, end - size_));
        consider(std::min(idle.piece.upper, end - size_));
        consider(std::max(idle.piece.upper - size_, begin_));
        consider(std::max(idle.piece.lower - size_, begin_));
      }
      consider(end - size_);
    }
    idle_.clear();
  }

 private:
  struct Idle {
    Interval piece;
    Bytes below = 0;  ///< idle bytes in the pieces below
  };

  void consider(Bytes at) const { visit_({at, at + size_}, idle_below(at + size_) - idle_below(at)); }

  [[nodiscard]] Bytes idle_below(Bytes offset) const {
    const auto above = std::partition_point(idle_.begin(), idle_.end(),
                                            [&](const Idle& idle) { return idle.piece.lower < offset; });
    if (above == idle_.begin()) return 0;
    const Idle& last = *std::prev(above);
    return last.below + std::min(offset, last.piece.upper) - last.piece.lower;
  }

  Bytes size_;
  Bytes begin_;  ///< of the free addresses that the search is in
  Visit visit_;
  std::vector<Idle> idle_;  ///< pieces of those that have memory, cut at extents
};

}  // namespace

Region Placer::region_of(Bytes size) const {
  if (size <= policy_->small) return Region::kSmall;
  return size < policy_->large ? Region::kMedium : Region::kLarge;
}

std::optional<Bytes> Placer::find(Bytes size, StreamIndex stream) {
  const Region which = region_of(size);
  const Interval region = memory_->region(which);
  if (which == Region::kLarge) return find_large(size, region, stream);
  return memory_->free_space.first_fit(size, region, order_->usable_by(stream));
}

std::optional<Bytes> Placer::find_large(Bytes size, const Interval& region, StreamIndex stream) {
  std::optional<Bytes> best;
  Bytes least = memory_->page_size() + 1;
  memory_->free_space.each_fitting(size, region, order_->usable_by(stream), [&](const Interval& gap) {
    for (const Bytes at : {gap.lower, gap.upper - size}) {
      const Bytes stranded = memory_->stranded({at, at + size});
      if (stranded >= least) continue;
      least = stranded;
      best = at;
    }
    return least > 0;
  });
  return best;
}

std::optional<Interval> Placer::find_window_in(Bytes size, const Interval& region, StreamIndex stream) const {
  const bool is_large = region_of(size) == Region::kLarge;
  const StreamOrder::Usable usable = order_->usable_by(stream);
  std::optional<Interval> best;
  Bytes least = std::numeric_limits<Bytes>::max();
  // What idle extents are torn by the window costs as much as what it lacks.
  const auto cost_of = [&](const Interval& window, Bytes held) {
    if (!is_large) return window.length() - held;
    const Interval pages = memory_->whole_pages(window);
    const Bytes lacking = memory_->missing(pages);
    const Bytes stranded = memory_->stranded(window);
    if (stranded > memory_->page_size()) return std::numeric_limits<Bytes>::max();
    return 2 * lacking + stranded - (window.length() - held);
  };
  Candidates candidates(size, region.lower, [&](const Interval& window, Bytes held) {
    const Bytes cost = cost_of(window, held);
    if (cost >= least) return;
    least = cost;
    best = window;
  });
  memory_->visit_extents(region, [&](const Interval& extent) {
    Bytes at = extent.lower;
    (void)memory_->free_space.visit(extent.lower, extent.length(), [&](const Gap& gap) {
      if (!usable(gap.last)) return true;
      const Interval piece = {std::max(gap.offset, extent.lower), std::min(gap.end, extent.upper)};
      candidates.add_taken({at, piece.lower});
      candidates.add_idle(piece);
      at = piece.upper;
      return true;
    });
    candidates.add_taken({at, extent.upper});
    return true;
  });
  candidates.end_at(region.upper);
  return best;
}

std::optional<Interval> Placer::find_window(Bytes size, StreamIndex stream) {
  const Region own = region_of(size);
  const std::optional<Interval> window = find_window_in(size, memory_->region(own), stream);
  if (window || own == Region::kLarge) return window;
  return find_window_in(size, memory_->region(Region::kLarge), stream);
}

std::optional<Bytes> Placer::extend(Bytes size, StreamIndex stream) {
  const std::optional<Interval> window = find_window(size, stream);
  if (!window) return std::nullopt;
  const Region own = region_of(size);
  const bool is_in_own = overlaps(*window, memory_->region(own));
  const Bytes block = own == Region::kLarge || !is_in_own ? memory_->page_size() : policy_->block;
  if (!memory_->back(*window, memory_->region(own), block)) return std::nullopt;
  return window->lower;
}

}  // namespace stweaver
