#include "arena/placer.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace stweaver {
namespace {

constexpr Bytes kAny = std::numeric_limits<Bytes>::max();

/// Idle memory of one extent, or of a part of it.
struct Piece {
  Interval range;
  bool is_extent = false;  ///< all of one
};

/// What free addresses hold below some offset.
struct Below {
  Bytes idle = 0;     ///< bytes with memory
  Bytes movable = 0;  ///< of them, in extents that are all idle
  Bytes begun = 0;    ///< stretches without memory that begin there
  Bytes ended = 0;    ///< of them, those that end there, too
};

/// Tells what free addresses from `begin` on hold below offsets that are asked for in ascending order.
class IdleBelow {
 public:
  IdleBelow(const std::vector<Piece>& pieces, Bytes begin) : pieces_(&pieces), end_(begin) {}

  Below at(Bytes offset) {
    for (; next_ < pieces_->size() && (*pieces_)[next_].range.upper <= offset; ++next_) {
      passed_ = with((*pieces_)[next_], (*pieces_)[next_].range.length());
      end_ = (*pieces_)[next_].range.upper;
    }
    if (next_ < pieces_->size() && (*pieces_)[next_].range.lower <= offset)
      return with((*pieces_)[next_], offset - (*pieces_)[next_].range.lower);
    Below below = passed_;
    if (end_ < offset) ++below.begun;
    return below;
  }

  /// The idle extent that the offset last asked for lies in; empty, and there, where there is none.
  [[nodiscard]] Interval extent_at(Bytes offset) const {
    if (next_ == pieces_->size() || !(*pieces_)[next_].is_extent) return {offset, offset};
    const Interval& extent = (*pieces_)[next_].range;
    return extent.lower < offset ? extent : Interval{offset, offset};
  }

 private:
  /// All before the piece, and so many bytes of it.
  [[nodiscard]] Below with(const Piece& piece, Bytes bytes) const {
    const Bytes stretches = piece.range.lower > end_ ? 1 : 0;
    return {passed_.idle + bytes, passed_.movable + (piece.is_extent ? bytes : 0), passed_.begun + stretches,
            passed_.ended + stretches};
  }

  const std::vector<Piece>* pieces_;
  std::size_t next_ = 0;
  Below passed_;  ///< below `end_`
  Bytes end_;     ///< of the piece before the next
};

/// Where a request might lie.
struct Window {
  Interval range;
  Bytes lacking = 0;    ///< bytes without memory
  Bytes movable = 0;    ///< bytes in extents that are all idle
  Bytes stretches = 0;  ///< without memory
};

/// Goes along free addresses from the lowest on, some with idle memory, and tells of the places for a window
/// that begin or end with a piece of idle memory: none between them lacks less.
template <typename Visit>
class Candidates {
 public:
  /// No window is told of that leaves more than `most_stranded` bytes of an idle extent at one of its ends.
  Candidates(Bytes size, Bytes begin, Bytes most_stranded, Visit visit)
      : size_(size), begin_(begin), most_stranded_(most_stranded), visit_(std::move(visit)) {}

  void add_idle(const Piece& piece) { idle_.push_back(piece); }

  /// Here a window ends at the latest, and behind it the next may begin.
  void add_taken(const Interval& taken) {
    if (taken.empty()) return;
    end_at(taken.lower);
    begin_ = taken.upper;
  }

  void end_at(Bytes end) {
    if (end - begin_ >= size_) {
      Sweep begins(*this);
      Sweep ends(*this);
      // Where one piece follows on another, the end of the one is the beginning of the other.
      Bytes last = begin_;
      begins.consider(begin_);
      for (const auto& [piece, is_extent] : idle_) {
        for (const Bytes at : {piece.lower, piece.upper}) {
          if (at == last) continue;
          last = at;
          if (at <= end - size_) begins.consider(at);
          if (at >= begin_ + size_) ends.consider(at - size_);
        }
      }
      if (last != end) ends.consider(end - size_);
    }
    idle_.clear();
  }

 private:
  /// Windows one above the other.
  class Sweep {
   public:
    explicit Sweep(const Candidates& of) : of_(&of), below_(of.idle_, of.begin_), below_end_(below_) {}

    void consider(Bytes at) {
      const Bytes end = at + of_->size_;
      const Below to = below_end_.at(end);
      const Below from = below_.at(at);
      if (at - below_.extent_at(at).lower > of_->most_stranded_) return;
      if (below_end_.extent_at(end).upper - end > of_->most_stranded_) return;
      of_->visit_({.range = {at, end},
                   .lacking = of_->size_ - (to.idle - from.idle),
                   .movable = to.movable - from.movable,
                   .stretches = to.begun - from.ended});
    }

   private:
    const Candidates* of_;
    IdleBelow below_;
    IdleBelow below_end_;
  };

  Bytes size_;
  Bytes begin_;  ///< of the free addresses that the search is in
  Bytes most_stranded_;
  Visit visit_;
  std::vector<Piece> idle_;
};

}  // namespace

Region Placer::region_of(Bytes size) const {
  if (size <= policy_->small) return Region::kSmall;
  return size < policy_->large ? Region::kMedium : Region::kLarge;
}

std::optional<Bytes> Placer::find(Bytes size, StreamIndex stream) {
  const Region which = region_of(size);
  const Interval region = memory_->region(which);
  const StreamOrder::Usable usable = order_->usable_by(stream);
  if (which == Region::kSmall) return memory_->free_space.first_fit(size, region, usable);
  // What a large request strands costs nothing while memory need not move.
  if (which == Region::kMedium || memory_->may_hold(size))
    return memory_->free_space.best_fit(size, region, usable);
  return find_large(size, region, usable);
}

std::optional<Bytes> Placer::find_large(Bytes size, const Interval& region,
                                        const StreamOrder::Usable& usable) {
  std::optional<Bytes> best;
  Bytes least = memory_->page_size() + 1;
  std::size_t from = 0;  // of extents: gaps come in order
  memory_->free_space.each_fitting(size, region, usable, [&](const Interval& gap) {
    if (const std::optional<Bytes> at = memory_->fit_at_ends(gap, size, least, from)) best = at;
    return least > 0;
  });
  return best;
}

std::optional<Interval> Placer::find_window_in(Bytes size, const Interval& region, StreamIndex stream) const {
  const bool is_large = region_of(size) == Region::kLarge;
  const Bytes most_stranded = is_large ? memory_->page_size() : kAny;
  const StreamOrder::Usable usable = order_->usable_by(stream);
  std::optional<Interval> best;
  Bytes least = kAny;
  // A large request costs the memory that cannot move for as long as it lives, and driver calls: one for each
  // extent that is mapped, and about one for each `large` bytes that are taken from elsewhere for them.
  const auto cost_of = [&](const Window& window, const Memory::Ends& ends) {
    if (!is_large) return window.lacking;
    const Bytes pinned = window.lacking + window.movable + ends.lacking + ends.stranded;
    const Bytes calls = window.stretches + ends.unfilled;
    return pinned + calls * policy_->pinned_per_call +
           window.lacking * policy_->pinned_per_call / policy_->large;
  };
  Candidates candidates(size, region.lower, most_stranded, [&](const Window& window) {
    if (cost_of(window, {}) >= least) return;
    const Memory::Ends ends = is_large ? memory_->ends_of(window.range) : Memory::Ends{};
    const Bytes cost = cost_of(window, ends);
    if (cost >= least || ends.stranded > most_stranded) return;
    least = cost;
    best = window.range;
  });
  std::vector<Interval> gaps;
  (void)memory_->free_space.visit(region.lower, region.length(), [&](const Gap& gap) {
    if (usable(gap.last)) gaps.push_back({gap.offset, gap.end});
    return true;
  });
  // Most extents are taken: all up to the next gap come as one, and are passed at once.
  Interval taken = {region.lower, region.lower};
  auto gap = gaps.begin();
  const auto next_gap = [&] { return gap == gaps.end() ? region.upper : gap->lower; };
  memory_->visit_joined_extents(region, next_gap, [&](const Interval& mapped) {
    if (taken.upper < mapped.lower) {
      candidates.add_taken(taken);
      taken.lower = mapped.lower;
    }
    taken.upper = mapped.upper;
    for (; gap != gaps.end() && gap->lower < mapped.upper; ++gap) {
      const Interval piece = {std::max(gap->lower, mapped.lower), std::min(gap->upper, mapped.upper)};
      candidates.add_taken({taken.lower, piece.lower});
      candidates.add_idle({piece, piece.length() == mapped.length()});
      taken.lower = piece.upper;
      if (gap->upper > mapped.upper) break;
    }
    return true;
  });
  candidates.add_taken(taken);
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
