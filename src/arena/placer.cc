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
  std::size_t extent = kNoExtent;  ///< its number
  bool is_extent = false;          ///< all of it
  Bytes idle = 0;                  ///< bytes with memory
  Bytes movable = 0;               ///< of them, in extents that are all idle
  Bytes stretches = 0;             ///< without memory
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

  /// The extents on either side of it: kNoExtent where no memory is.
  [[nodiscard]] std::size_t extent_above() const { return is_outside() ? kNoExtent : piece().extent; }
  [[nodiscard]] std::size_t extent_below() const {
    if (piece().range.lower < at_) return piece().extent;
    return touches_last() ? (*pieces_)[next_ - 1].extent : kNoExtent;
  }

  /// Below it: bytes with memory, those of idle extents, stretches without memory.
  [[nodiscard]] Bytes idle() const { return piece().idle + inside(); }
  [[nodiscard]] Bytes movable() const { return piece().movable + (piece().is_extent ? inside() : 0); }
  [[nodiscard]] Bytes stretches_ended() const { return piece().stretches - (is_outside() ? 1 : 0); }
  [[nodiscard]] Bytes stretches_begun() const {
    return piece().stretches - (is_outside() && touches_last() ? 1 : 0);
  }

 private:
  [[nodiscard]] const Piece& piece() const { return (*pieces_)[next_]; }
  [[nodiscard]] bool is_outside() const { return at_ < piece().range.lower; }
  [[nodiscard]] bool touches_last() const { return next_ > 0 && (*pieces_)[next_ - 1].range.upper == at_; }
  [[nodiscard]] bool cuts() const { return piece().is_extent && piece().range.lower < at_; }
  [[nodiscard]] Bytes inside() const { return is_outside() ? 0 : at_ - piece().range.lower; }

  const std::vector<Piece>* pieces_;
  std::size_t next_ = 0;  ///< the first piece that ends above it
  Bytes at_ = 0;
};

/// Where a request might lie.
struct Window {
  Interval range;
  std::size_t first = kNoExtent;  ///< the extents that it begins and ends in
  std::size_t last = kNoExtent;
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
  Candidates(Bytes size, Bytes most_stranded, Visit visit)
      : size_(size), most_stranded_(most_stranded), visit_(std::move(visit)) {}

  void begin_at(Bytes begin) {
    pieces_.clear();
    pieces_.push_back({.range = {begin, begin}});
  }

  /// An extent, or a part of it.
  void add_idle(const Interval& range, std::size_t extent, bool is_extent) {
    const Piece& last = pieces_.back();
    const Bytes idle = last.range.length();
    pieces_.push_back({.range = range,
                       .extent = extent,
                       .is_extent = is_extent,
                       .idle = last.idle + idle,
                       .movable = last.movable + (last.is_extent ? idle : 0),
                       .stretches = last.stretches + (last.range.upper < range.lower ? 1 : 0)});
  }

  /// Here a window ends at the latest, and behind it the next may begin.
  void add_taken(const Interval& taken) {
    end_at(taken.lower);
    begin_at(taken.upper);
  }

  void end_at(Bytes end) {
    const Bytes begin = pieces_.front().range.lower;
    if (end - begin < size_) return;
    add_idle({end, end}, kNoExtent, false);
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
      if (lower_.cut_below() > of_->most_stranded_) return;
      upper_.move_to(at + size);
      if (upper_.cut_above() > of_->most_stranded_) return;
      of_->visit_({.range = {at, at + size},
                   .first = lower_.extent_above(),
                   .last = upper_.extent_below(),
                   .lacking = size - (upper_.idle() - lower_.idle()),
                   .movable = upper_.movable() - lower_.movable(),
                   .stretches = upper_.stretches_begun() - lower_.stretches_ended()});
    }

   private:
    const Candidates* of_;
    Edge lower_;
    Edge upper_;
  };

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
  const Bytes each = policy_->pinned_per_call, moved = policy_->large;
  return maps * each + lacking / moved * each + lacking % moved * each / moved;
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

std::optional<Interval> Placer::find_window_in(Bytes size, Region which, StreamIndex stream) const {
  const bool is_large = region_of(size) == Region::kLarge;
  const Bytes most_stranded = is_large ? memory_->page_size() : kAny;
  std::optional<Interval> best;
  Bytes least = kAny;
  // A large request costs the memory that cannot move for as long as it lives, and driver calls.
  const auto cost_of = [&](const Window& window, const Memory::Ends& ends) {
    if (!is_large) return window.lacking;
    const Bytes pinned = window.lacking + window.movable + ends.lacking + ends.stranded;
    const Bytes calls = window.stretches + ends.unfilled;
    return pinned + worth_of_calls(calls, window.lacking);
  };
  Candidates candidates(size, most_stranded, [&](const Window& window) {
    if (cost_of(window, {}) >= least) return;
    const Memory::Ends ends =
        is_large ? memory_->ends_of(window.range, window.first, window.last) : Memory::Ends{};
    const Bytes cost = cost_of(window, ends);
    if (cost >= least || ends.stranded > most_stranded) return;
    least = cost;
    best = window.range;
  });
  const StreamOrder::Usable usable = order_->usable_by(stream);
  std::size_t from = 0;  // of extents: gaps come in order
  const auto add = [&](const Gap& gap) {
    const Interval idle = {gap.offset, gap.end};
    if (!usable(gap.last)) {
      candidates.add_taken(idle);
      return true;
    }
    memory_->visit_numbers(idle, from, [&](std::size_t number) {
      const Interval& extent = memory_->extent(number);
      const Interval piece = common(idle, extent);
      candidates.add_idle(piece, number, piece.length() == extent.length());
      return true;
    });
    return true;
  };
  memory_->each_vacant(size, which, [&](const Interval& stretch) {
    candidates.begin_at(stretch.lower);
    (void)memory_->free_space.visit(stretch.lower, stretch.length(), add);
    candidates.end_at(stretch.upper);
  });
  return best;
}

std::optional<Interval> Placer::find_window(Bytes size, StreamIndex stream) {
  const Region own = region_of(size);
  const std::optional<Interval> window = find_window_in(size, own, stream);
  if (window || own == Region::kLarge) return window;
  return find_window_in(size, Region::kLarge, stream);
}

bool Placer::extend(const Interval& window) {
  const Interval region = memory_->region(region_of(window.length()));
  const bool is_exact = overlaps(window, memory_->region(Region::kLarge));
  if (is_exact) return memory_->back(window, region, memory_->page_size(), policy_->most_extent);
  return memory_->back(window, region, policy_->block, policy_->block);
}

}  // namespace stweaver
