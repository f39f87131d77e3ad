#include "arena/placer.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace stweaver {
namespace {

constexpr Bytes kAny = std::numeric_limits<Bytes>::max();

/// Idle memory of one extent, or of a part of it, and what the free addresses around it hold below it.
struct Piece {
  Interval range;
  bool is_extent = false;  ///< all of one
  Bytes idle = 0;          ///< bytes with memory
  Bytes movable = 0;       ///< of them, in extents that are all idle
  Bytes stretches = 0;     ///< without memory
};

/// An end of a window that moves up through pieces. The first and the last of these are empty, where the free
/// addresses begin and end.
class Edge {
 public:
  explicit Edge(const std::vector<Piece>& pieces) : pieces_(&pieces) {}

  void move_to(Bytes offset) {
    at_ = offset;
    while (piece().range.upper <= offset && next_ + 1 < pieces_->size()) ++next_;
  }

  /// Bytes on either side of it, of an idle extent that it cuts.
  [[nodiscard]] Bytes cut_below() const { return cuts() ? at_ - piece().range.lower : 0; }
  [[nodiscard]] Bytes cut_above() const { return cuts() ? piece().range.upper - at_ : 0; }

  /// Below it: bytes with memory, those of idle extents, stretches without memory.
  [[nodiscard]] Bytes idle() const { return piece().idle + inside(); }
  [[nodiscard]] Bytes movable() const { return piece().movable + (piece().is_extent ? inside() : 0); }
  [[nodiscard]] Bytes stretches_ended() const { return piece().stretches - (is_outside() ? 1 : 0); }
  [[nodiscard]] Bytes stretches_begun() const {
    return piece().stretches - (is_outside() && at_ == (*pieces_)[next_ - 1].range.upper ? 1 : 0);
  }

 private:
  [[nodiscard]] const Piece& piece() const { return (*pieces_)[next_]; }
  [[nodiscard]] bool is_outside() const { return at_ < piece().range.lower; }
  [[nodiscard]] bool cuts() const { return piece().is_extent && piece().range.lower < at_; }
  [[nodiscard]] Bytes inside() const { return is_outside() ? 0 : at_ - piece().range.lower; }

  const std::vector<Piece>* pieces_;
  std::size_t next_ = 0;  ///< the first piece that ends above it
  Bytes at_ = 0;
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
      : size_(size), most_stranded_(most_stranded), visit_(std::move(visit)) {
    begin_at(begin);
  }

  void add_idle(const Interval& range, bool is_extent) {
    const Piece& last = pieces_.back();
    const Bytes idle = last.range.length();
    pieces_.push_back({.range = range,
                       .is_extent = is_extent,
                       .idle = last.idle + idle,
                       .movable = last.movable + (last.is_extent ? idle : 0),
                       .stretches = last.stretches + (last.range.upper < range.lower ? 1 : 0)});
  }

  /// Here a window ends at the latest, and behind it the next may begin.
  void add_taken(const Interval& taken) {
    if (taken.empty()) return;
    end_at(taken.lower);
    begin_at(taken.upper);
  }

  void end_at(Bytes end) {
    const Bytes begin = pieces_.front().range.lower;
    if (end - begin < size_) return;
    add_idle({end, end}, false);
    Sweep begins(*this);
    Sweep ends(*this);
    // Where one piece follows on another, the end of the one is the beginning of the other.
    Bytes last = -1;
    for (const Piece& piece : pieces_) {
      for (const Bytes at : {piece.range.lower, piece.range.upper}) {
        if (at == last) continue;
        last = at;
        if (at + size_ <= end) begins.consider(at);
        if (at - size_ >= begin) ends.consider(at - size_);
      }
    }
  }

 private:
  /// Windows one above the other.
  class Sweep {
   public:
    explicit Sweep(const Candidates& of) : of_(&of), lower_(of.pieces_), upper_(of.pieces_) {}

    void consider(Bytes at) {
      const Bytes size = of_->size_;
      lower_.move_to(at);
      upper_.move_to(at + size);
      if (std::max(lower_.cut_below(), upper_.cut_above()) > of_->most_stranded_) return;
      of_->visit_({.range = {at, at + size},
                   .lacking = size - (upper_.idle() - lower_.idle()),
                   .movable = upper_.movable() - lower_.movable(),
                   .stretches = upper_.stretches_begun() - lower_.stretches_ended()});
    }

   private:
    const Candidates* of_;
    Edge lower_;
    Edge upper_;
  };

  void begin_at(Bytes begin) {
    pieces_.clear();
    pieces_.push_back({.range = {begin, begin}});
  }

  Bytes size_;
  Bytes most_stranded_;
  Visit visit_;
  std::vector<Piece> pieces_;  ///< since the free addresses began
};

}  // namespace

Region Placer::region_of(Bytes size) const {
  if (size <= policy_->small) return Region::kSmall;
  return size < policy_->large ? Region::kMedium : Region::kLarge;
}

/// Memory that one may keep from moving to save so many driver calls that map extents, and those that take
/// what these lack from elsewhere, about one for each `large` bytes.
Bytes Placer::worth_of_calls(Bytes maps, Bytes lacking) const {
  return maps * policy_->pinned_per_call + lacking * policy_->pinned_per_call / policy_->large;
}

/// What a request may strand in a gap: no more than driver calls for a new place are worth, or a page.
Bytes Placer::most_stranded(Bytes size) const {
  return std::min(memory_->page_size(), worth_of_calls(1, size));
}

bool Placer::may_take(const Interval& place) const {
  const Bytes size = place.length();
  return memory_->may_hold(size) || memory_->pinned_by(place) <= most_stranded(size);
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
  Bytes least = most_stranded(size) + 1;
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
  // A large request costs the memory that cannot move for as long as it lives, and driver calls.
  const auto cost_of = [&](const Window& window, const Memory::Ends& ends) {
    if (!is_large) return window.lacking;
    const Bytes pinned = window.lacking + window.movable + ends.lacking + ends.stranded;
    const Bytes calls = window.stretches + ends.unfilled;
    return pinned + worth_of_calls(calls, window.lacking);
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
      candidates.add_idle(piece, piece.length() == mapped.length());
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
  if (is_exact) return memory_->back(window, region, memory_->page_size(), policy_->most_extent);
  return memory_->back(window, region, policy_->block, policy_->block);
}

}  // namespace stweaver
