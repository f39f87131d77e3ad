#include "plan/row.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "plan/exact_sum.h"

namespace stweaver {
namespace {

/// All places may lose this share of the capacity.
constexpr Bytes kLostShare = 4096;
/// Micro-batches that hold more different sizes get no pieces: finding trades would take too long.
constexpr std::size_t kSizes = 256;

/// What one micro-batch keeps.
struct Turn {
  std::size_t first = 0;          ///< of the items in order of death
  std::size_t last = 0;           ///< one past
  Lifespan life;                  ///< from the first birth to the last death
  const Counts* sizes = nullptr;  ///< the same for all turns of the same sizes
  std::size_t tail = 0;           ///< so many die up to its backward's fullest moment, if room is scarce
  std::size_t gone = 0;           ///< turns that are over when it begins
};

/// What makes one piece: `moved` lies there, unless the tail does. Then `filler` fills what the tail leaves,
/// and `moved` is where tail and filler had been.
struct Trade {
  Counts moved;
  Counts filler;
};

/// Where turns of the same sizes lie one after the other.
struct Place {
  std::vector<std::size_t> turns;
  std::vector<std::size_t> tails;  ///< those of them that have one; the last piece is at home with the last
  std::vector<Trade> trades;       ///< one for each piece but the last
  std::vector<Bytes> sizes;        ///< of each piece
  std::vector<Bytes> begins;       ///< of each piece, while the gap is below it
};

/// All of `counts` are in `from`.
void take(Counts& from, const Counts& counts) {
  for (const auto& [size, count] : counts) from[size] -= count;
}

/// Finds disjoint trades among what a turn holds beside its tail, in which tail and filler are as large as
/// `moved` but for `slack`; fewer than wanted where there are no more.
std::vector<Trade> find_trades(Counts left, Bytes tail, std::size_t wanted, Bytes slack) {
  std::vector<Trade> trades;
  Counts fillers;  // whatever is in any of them stays
  const auto trade = [&](Counts moved, Counts filler) {
    take(left, moved);
    for (const auto& [size, count] : filler) fillers[size] = std::max(fillers[size], count);
    trades.push_back({std::move(moved), std::move(filler)});
  };
  const auto trade_one = [&](Bytes size) {
    if (left[size] <= fillers[size]) return false;
    Counts others = left;
    --others[size];
    std::optional<Counts> filler = exact_sum(others, size - tail + slack, 2 * slack);
    if (filler) trade({{size, 1}}, std::move(*filler));
    return filler.has_value();
  };
  const auto trade_some = [&] {
    Counts free = left;
    take(free, fillers);
    std::optional<Counts> moved = exact_sum(free, tail + slack, 2 * slack);
    if (moved) trade(std::move(*moved), {});
    return moved.has_value();
  };
  for (const auto& [size, _] : Counts(left)) {
    while (size + slack >= tail && trades.size() < wanted && trade_one(size)) {
    }
  }
  while (trades.size() < wanted && trade_some()) {
  }
  return trades;
}

class Row {
 public:
  Row(const Instance& instance, const Classes& classes, Bytes capacity)
      : instance_(instance),
        turns_(turns_of(instance, classes)),
        capacity_(capacity_below(instance, turns_, capacity)) {
    form_turns();
    const std::vector<LoadSince> loads = loads_of(instance);
    if (!find_tails(capacity, loads) || !assign_places() || !cut_places()) return;
    line_up();
    for (const Bytes common : commons_of(instance, classes, loads)) {
      if (capacity_ - common > length_) gaps_.push_back(capacity_ - common - length_);
    }
  }

  /// Widths that the gap may have; none when there is no row.
  [[nodiscard]] const std::vector<Bytes>& gaps() const { return gaps_; }

  [[nodiscard]] Placement lined_up(Bytes gap) const {
    Placement placement(instance_.items.size(), kNowhere);
    for (const Place& place : places_) {
      for (const std::size_t turn : place.turns) lay(place, turn, gap, placement);
    }
    remove_misfits(instance_, turns_, placement);
    return placement;
  }

 private:
  [[nodiscard]] const Item& item(std::size_t i) const { return instance_.items[turns_.items[i]]; }

  void form_turns() {
    for (std::size_t i = 0; i < turns_.items.size(); ++i) {
      const Lifespan& life = item(i).life;
      if (turns_.numbers[i] == all_.size()) all_.push_back({.first = i, .life = life});
      Turn& turn = all_.back();
      turn.last = i + 1;
      turn.life = {std::min(turn.life.lower, life.lower), std::max(turn.life.upper, life.upper)};
    }
  }

  /// The tail of a turn is what dies up to the fullest moment between its first and its last death, if less
  /// than the tail is free then. False when no turn has one.
  bool find_tails(Bytes capacity, const std::vector<LoadSince>& loads) {
    bool has_tails = false;
    auto at = loads.begin();
    for (Turn& turn : all_) {
      const Time begin = item(turn.first).life.upper;
      while (at != loads.end() && at->time < begin) ++at;
      LoadSince fullest;
      for (auto next = at; next != loads.end() && next->time < turn.life.upper; ++next) {
        if (next->load >= fullest.load) fullest = *next;
      }
      Bytes bytes = 0;
      std::size_t end = turn.first;
      while (end < turn.last && item(end).life.upper <= fullest.time) bytes += item(end++).size;
      if (capacity - fullest.load >= bytes) continue;
      turn.tail = end - turn.first;
      has_tails = true;
    }
    return has_tails;
  }

  [[nodiscard]] Counts sizes_of(std::size_t first, std::size_t last) const {
    Counts sizes;
    for (std::size_t i = first; i < last; ++i) ++sizes[item(i).size];
    return sizes;
  }

  /// Gives each turn the place of one of the same sizes that is over, the first that ended. False when all
  /// places together do not fit.
  bool assign_places() {
    std::vector<std::size_t> births(all_.size());
    for (std::size_t i = 0; i < births.size(); ++i) births[i] = i;
    std::stable_sort(births.begin(), births.end(), [this](std::size_t a, std::size_t b) {
      return all_[a].life.lower < all_[b].life.lower;
    });
    std::map<const Counts*, std::set<std::pair<std::size_t, std::size_t>>> empty;  // since which turn, place
    std::vector<std::size_t> place_of(all_.size());
    std::size_t gone = 0;
    for (const std::size_t i : births) {
      Turn& turn = all_[i];
      for (; gone < all_.size() && all_[gone].life.upper <= turn.life.lower; ++gone)
        empty[all_[gone].sizes].emplace(gone, place_of[gone]);
      turn.gone = gone;
      turn.sizes = &*kinds_.insert(sizes_of(turn.first, turn.last)).first;
      auto& fitting = empty[turn.sizes];
      if (fitting.empty()) {
        const Bytes size = sum_of(*turn.sizes);
        if (size >= capacity_ - length_) return false;
        length_ += size;
        place_of[i] = places_.size();
        places_.emplace_back();
      } else {
        place_of[i] = fitting.begin()->second;
        fitting.erase(fitting.begin());
      }
      places_[place_of[i]].turns.push_back(i);
    }
    return true;
  }

  /// False when a place has not enough pieces.
  bool cut_places() {
    const Bytes slack = capacity_ / kLostShare / static_cast<Bytes>(all_.size() + 1);
    for (Place& place : places_) {
      std::copy_if(place.turns.begin(), place.turns.end(), std::back_inserter(place.tails),
                   [this](std::size_t turn) { return all_[turn].tail > 0; });
      std::sort(place.tails.begin(), place.tails.end());
      if (!cut(place, 0) && !cut(place, slack)) return false;
    }
    return true;
  }

  /// False when there are not enough trades, whose two sides differ by `slack` at most.
  bool cut(Place& place, Bytes slack) const {
    const Turn& home = all_[place.tails.empty() ? place.turns.back() : place.tails.back()];
    const Counts tail = sizes_of(home.first, home.first + home.tail);
    for (const std::size_t turn : place.tails) {
      if (sizes_of(all_[turn].first, all_[turn].first + all_[turn].tail) != tail) return false;
    }
    const std::size_t wanted = std::max<std::size_t>(1, place.tails.size()) - 1;
    const Counts rest = sizes_of(home.first + home.tail, home.last);
    if (wanted > 0 && rest.size() > kSizes) return false;
    place.trades = find_trades(rest, sum_of(tail), wanted, slack);
    if (place.trades.size() < wanted) return false;
    Bytes last = sum_of(tail) + sum_of(rest);
    Bytes most_added = 0;  // when a trade brings more to the last piece than it takes
    place.sizes.clear();
    for (const Trade& trade : place.trades) {
      const Bytes moved = sum_of(trade.moved);
      const Bytes instead = sum_of(tail) + sum_of(trade.filler);
      place.sizes.push_back(std::max(moved, instead));
      last -= moved;
      most_added = std::max(most_added, moved - instead);
    }
    place.sizes.push_back(last + most_added);
    return true;
  }

  /// The piece of each tail in the order in which these die, then what has none.
  void line_up() {
    std::map<std::size_t, std::pair<std::size_t, std::size_t>> pieces;  // by turn: place, piece
    for (std::size_t i = 0; i < places_.size(); ++i) {
      Place& place = places_[i];
      place.begins.resize(place.sizes.size());
      for (std::size_t piece = 0; piece < place.begins.size(); ++piece)
        pieces[place.tails.empty() ? all_.size() + i : place.tails[piece]] = {i, piece};
    }
    Bytes at = 0;
    for (const auto& [_, piece] : pieces) {
      Place& place = places_[piece.first];
      place.begins[piece.second] = at;
      at += place.sizes[piece.second];
    }
  }

  /// Places what a turn holds.
  void lay(const Place& place, std::size_t number, Bytes gap, Placement& placement) const {
    const Turn& turn = all_[number];
    std::vector<Bytes> ends;  // of what lies in each piece
    for (std::size_t piece = 0; piece < place.begins.size(); ++piece) {
      const bool is_passed = !place.tails.empty() && place.tails[piece] < turn.gone;
      ends.push_back(place.begins[piece] + (is_passed ? 0 : gap));
    }
    const auto lie_down = [&](std::size_t i, std::size_t piece) {
      placement[turns_.items[i]] = ends[piece];
      ends[piece] += item(i).size;
    };

    const std::size_t home = place.trades.size();
    const auto own = std::find(place.tails.begin(), place.tails.end(), number);
    const std::size_t with_tail =
        own == place.tails.end() ? home : static_cast<std::size_t>(own - place.tails.begin());
    std::map<Bytes, std::vector<std::size_t>> wanted;  // by size: pieces, the first of them last
    for (std::size_t piece = home; piece-- > 0;) {
      const Trade& trade = place.trades[piece];
      for (const auto& [size, count] : piece == with_tail ? trade.filler : trade.moved)
        wanted[size].insert(wanted[size].end(), count, piece);
    }
    const std::size_t begin = turn.first + (own == place.tails.end() ? 0 : turn.tail);
    for (std::size_t i = turn.first; i < begin; ++i) lie_down(i, with_tail);
    for (std::size_t i = begin; i < turn.last; ++i) {
      std::vector<std::size_t>& pieces = wanted[item(i).size];
      lie_down(i, pieces.empty() ? home : pieces.back());
      if (!pieces.empty()) pieces.pop_back();
    }
  }

  const Instance& instance_;
  Turns turns_;
  Bytes capacity_;
  std::set<Counts> kinds_;
  std::vector<Turn> all_;  // in order of death
  std::vector<Place> places_;
  Bytes length_ = 0;  // of all pieces
  std::vector<Bytes> gaps_;
};

}  // namespace

NextFrame rows_of(const Instance& instance, const Classes& classes, Bytes capacity) {
  const auto row = std::make_shared<const Row>(instance, classes, capacity);
  return [row, next = std::size_t{0}]() mutable -> std::optional<Placement> {
    if (next == row->gaps().size()) return std::nullopt;
    return row->lined_up(row->gaps()[next++]);
  };
}

}  // namespace stweaver
