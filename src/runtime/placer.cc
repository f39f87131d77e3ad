#include "runtime/placer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

namespace stweaver {
namespace {

/// Sums up the idle bytes below offsets that are asked for in ascending order.
class IdleBelow {
 public:
  explicit IdleBelow(const std::vector<Interval>& pieces) : pieces_(&pieces) {}

  Bytes operator()(Bytes offset) {
    for (; next_ < pieces_->size() && (*pieces_)[next_].upper <= offset; ++next_)
      whole_ += (*pieces_)[next_].length();
    if (next_ == pieces_->size()) return whole_;
    return whole_ + std::max<Bytes>(offset - (*pieces_)[next_].lower, 0);
  }

 private:
  const std::vector<Interval>* pieces_;
  std::size_t next_ = 0;
  Bytes whole_ = 0;
};

/// Goes along free addresses from the lowest on, some with idle memory, and tells of each place for a window
/// that no other place beside it is better than: those that begin or end with a piece of idle memory.
class Candidates {
 public:
  using Visit = std::function<void(const Interval& window, Bytes held)>;

  Candidates(Bytes size, Bytes begin, Visit visit) : size_(size), begin_(begin), visit_(std::move(visit)) {}

  /// Here is idle memory.
  void add_idle(const Interval& piece) { idle_.push_back(piece); }

  /// Here a window ends at the latest, and behind it the next may begin.
  void add_taken(const Interval& taken) {
    if (taken.empty()) return;
    end_at(taken.lower);
    begin_ = taken.upper;
  }

  void end_at(Bytes end) {
    if (end - begin_ >= size_) {
      std::array<Sweep, 6> sweeps = {Sweep(*this), Sweep(*this), Sweep(*this),
                                     Sweep(*this), Sweep(*this), Sweep(*this)};
      sweeps[0].consider(begin_);
      for (const Interval& piece : idle_) {
        sweeps[1].consider(std::min(piece.lower, end - size_));
        sweeps[2].consider(std::min(piece.upper, end - size_));
        sweeps[3].consider(std::max(piece.upper - size_, begin_));
        sweeps[4].consider(std::max(piece.lower - size_, begin_));
      }
      sweeps[5].consider(end - size_);
    }
    idle_.clear();
  }

 private:
  /// Windows one above the other.
  class Sweep {
   public:
    explicit Sweep(const Candidates& of) : of_(&of), below_(of.idle_), below_end_(of.idle_) {}

    void consider(Bytes at) { of_->visit_({at, at + of_->size_}, below_end_(at + of_->size_) - below_(at)); }

   private:
    const Candidates* of_;
    IdleBelow below_;
    IdleBelow below_end_;
  };

  Bytes size_;
  Bytes begin_;  ///< of the free addresses that the search is in
  Visit visit_;
  std::vector<Interval> idle_;  ///< pieces of those that have memory, cut at extents
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
  const StreamOrder::Usable usable = order_->usable_by(stream);
  if (which == Region::kMedium) return memory_->free_space.best_fit(size, region, usable);
  return memory_->free_space.first_fit(size, region, usable);
}

std::optional<Bytes> Placer::find_large(Bytes size, const Interval& region, StreamIndex stream) {
  std::optional<Bytes> best;
  Bytes least = memory_->page_size() + 1;
  std::size_t from = 0;  // of extents: gaps come in order
  memory_->free_space.each_fitting(size, region, order_->usable_by(stream), [&](const Interval& gap) {
    for (const Bytes at : {gap.lower, gap.upper - size}) {
      const Memory::Ends ends = memory_->ends_of({at, at + size}, from);
      const Bytes stranded = ends.stranded;
      from = ends.from;
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
  // A window costs the memory that has to be mapped for it, whole pages, and what it strands.
  const auto cost_of = [&](const Interval& window, Bytes held) {
    if (!is_large) return window.length() - held;
    const Memory::Ends ends = memory_->ends_of(window);
    if (ends.stranded > memory_->page_size()) return std::numeric_limits<Bytes>::max();
    return window.length() - held + ends.lacking + ends.stranded;
  };
  Candidates candidates(size, region.lower, [&](const Interval& window, Bytes held) {
    if (size - held >= least) return;  // no window costs less than what it lacks
    const Bytes cost = cost_of(window, held);
    if (cost >= least) return;
    least = cost;
    best = window;
  });
  std::vector<Interval> gaps;
  (void)memory_->free_space.visit(region.lower, region.length(), [&](const Gap& gap) {
    if (usable(gap.last)) gaps.push_back({gap.offset, gap.end});
    return true;
  });
  auto gap = gaps.begin();
  memory_->visit_extents(region, [&](const Interval& extent) {
    Bytes at = extent.lower;
    for (; gap != gaps.end() && gap->lower < extent.upper; ++gap) {
      const Interval piece = {std::max(gap->lower, at), std::min(gap->upper, extent.upper)};
      candidates.add_taken({at, piece.lower});
      candidates.add_idle(piece);
      at = piece.upper;
      if (gap->upper > extent.upper) break;
    }
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

bool Placer::extend(const Interval& window) {
  const Interval region = memory_->region(region_of(window.length()));
  const bool is_exact = overlaps(window, memory_->region(Region::kLarge));
  return memory_->back(window, region, is_exact ? memory_->page_size() : policy_->block);
}

}  // namespace stweaver
