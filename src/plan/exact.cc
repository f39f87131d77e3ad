#include "plan/exact.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <utility>

namespace stweaver {
namespace {

using Rank = std::uint32_t;  ///< an item, numbered in the order in which it is tried
using Word = std::uint64_t;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr Bytes kNever = std::numeric_limits<Bytes>::max() / 4;
constexpr std::size_t kWordBits = 64;
/// Deeper than this a search is given up: each level is a call on the stack.
constexpr int kDeepest = 8000;
/// Nodes of the first attempts, for each item; Luby's sequence multiplies it. Without a failure it takes one.
constexpr std::int64_t kFirstNodes = 2;
/// What items are ordered by; so many attempts come before those that shuffle.
constexpr std::int64_t kKeys = 4;

std::uint64_t hash_of(std::uint64_t x) {  // the finalizer of SplitMix64 (Steele et al. 2014)
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

/// The states that failed, as many as there is room for.
class Nogoods {
 public:
  [[nodiscard]] bool contain(std::uint64_t key) const {
    const auto set = keys_.begin() + static_cast<std::ptrdiff_t>(first_of(key));
    return std::find(set, set + kWays, key) != set + kWays;
  }

  void add(std::uint64_t key) {
    if (used_ > keys_.size() / 2 && keys_.size() < kMost) grow();
    const std::size_t first = first_of(key);
    std::size_t place = first;
    while (place < first + kWays && keys_[place] != 0) ++place;
    if (place < first + kWays) {
      ++used_;
    } else {
      place = first + (key >> 60U) % kWays;
    }
    keys_[place] = key;
  }

 private:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kMost = std::size_t{1} << 20U;

  [[nodiscard]] std::size_t first_of(std::uint64_t key) const {
    return key & (keys_.size() - 1) & ~(kWays - 1);
  }

  void grow() {
    const std::vector<std::uint64_t> before =
        std::exchange(keys_, std::vector<std::uint64_t>(4 * keys_.size()));
    used_ = 0;
    for (const std::uint64_t key : before) {
      if (key != 0) add(key);
    }
  }

  std::vector<std::uint64_t> keys_ = std::vector<std::uint64_t>(std::size_t{1} << 10U);  ///< 0: free
  std::size_t used_ = 0;
};

/// What all attempts at one puzzle share.
struct Board {
  Board(const Puzzle& of, Bytes capacity);

  [[nodiscard]] bool blocks(std::size_t s) const { return !sections.sections[s].blocked.empty(); }
  /// Bytes of obstacles in [from, to) of section s.
  [[nodiscard]] Bytes blocked(std::size_t s, Bytes from, Bytes to) const;
  /// Where the first obstacle of section s that reaches above `height` ends.
  [[nodiscard]] Bytes next_top(std::size_t s, Bytes height) const;
  /// The lowest offset from `from` upwards at which item `id` meets no obstacle; kNever if there is none
  /// below its ceiling.
  [[nodiscard]] Bytes fit(ItemId id, Bytes from) const;

  const Puzzle& puzzle;
  Sections sections;
  std::size_t pieces = 0;                          ///< items, and again those with an echo
  std::vector<Bytes> ceilings;                     ///< by item: no item ends above it
  std::vector<Bytes> slack;                        ///< by section: bytes that may be lost
  std::vector<Bytes> load;                         ///< by section
  std::vector<std::vector<Interval>> blocked_for;  ///< by item: what it cannot use
};

Board::Board(const Puzzle& of, Bytes capacity) : puzzle(of), sections(sections_of(of)) {
  load.resize(sections.count());
  for (std::size_t s = 0; s < sections.count(); ++s) {
    const Bytes below = capacity - sections.sections[s].above;
    slack.push_back(below - blocked(s, 0, below));
  }
  for (ItemId id = 0; id < puzzle.items.size(); ++id) {
    std::vector<Interval> met;
    for (const Interval& span : {sections.spans[id], sections.echoes[id]}) {
      if (!span.empty()) ++pieces;
      for (auto s = static_cast<std::size_t>(span.lower); s < static_cast<std::size_t>(span.upper); ++s) {
        slack[s] -= puzzle.items[id].size;
        load[s] += puzzle.items[id].size;
        met.insert(met.end(), sections.sections[s].blocked.begin(), sections.sections[s].blocked.end());
      }
    }
    ceilings.push_back(capacity - puzzle.items[id].above);
    blocked_for.push_back(joined(std::move(met)));
  }
}

Bytes Board::blocked(std::size_t s, Bytes from, Bytes to) const {
  Bytes sum = 0;
  for (const Interval& interval : sections.sections[s].blocked) {
    if (interval.lower >= to) break;
    sum += std::max<Bytes>(0, std::min(interval.upper, to) - std::max(interval.lower, from));
  }
  return sum;
}

Bytes Board::next_top(std::size_t s, Bytes height) const {
  for (const Interval& interval : sections.sections[s].blocked) {
    if (interval.upper > height) return interval.upper;
  }
  return kNever;
}

Bytes Board::fit(ItemId id, Bytes from) const {
  const Bytes size = puzzle.items[id].size;
  for (const Interval& interval : blocked_for[id]) {
    if (interval.lower >= from + size) break;
    from = std::max(from, interval.upper);
  }
  return from + size <= ceilings[id] ? from : kNever;
}

/// An item as one attempt sees it. One with an echo is two pieces, twins, that have to lie at the same
/// offset: once one of them has its place, the other is *fixed*.
struct Piece {
  Bytes size = 0;
  std::size_t lower = 0, upper = 0;  ///< sections
  ItemId id = 0;
  Rank twin = kNone;
};

/// How an attempt goes about it.
struct Strategy {
  std::vector<ItemId> order;  ///< in which items are tried
  bool by_failures = false;   ///< prefer sections in which the attempt failed before
};

/// One attempt: one strategy, so many nodes.
class Attempt {
 public:
  Attempt(const Board& board, const Strategy& strategy, Nogoods& nogoods, std::int64_t nodes,
          const Budget& budget);

  Verdict run() {
    if (std::any_of(slack_.begin(), slack_.end(), [](Bytes slack) { return slack < 0; }) || !begin())
      return Verdict::kImpossible;
    if (settle(0, floors_.size())) return Verdict::kFound;
    return gave_up_ ? Verdict::kUndecided : Verdict::kImpossible;
  }

  [[nodiscard]] Placement placement() const {
    Placement placement(board_.puzzle.items.size());
    for (Rank u = 0; u < pieces_.size(); ++u) placement[pieces_[u].id] = lows_[u];
    return placement;
  }
  [[nodiscard]] std::int64_t nodes() const { return nodes_; }

 private:
  enum class Change : std::uint8_t { kFloor, kLow, kPlaced, kWitness };
  struct Undo {
    Change change;
    std::uint32_t subject;  ///< a section or an item
    Bytes before;
    Bytes slack;
  };
  /// Where the search goes on.
  struct Choice {
    std::size_t section = 0;
    double cost = std::numeric_limits<double>::infinity();
    Bytes slack = 0;
    Bytes raised = kNever;  ///< how high the floor gets when nobody lies on it; kNever: that cannot be
    std::optional<Rank> settled = {};  ///< an item that is right here in any case
  };

  [[nodiscard]] std::span<const Word> cover(std::size_t s) const { return {&covers_[s * words_], words_}; }
  static bool has(const std::vector<Word>& set, Rank u) {
    return (set[u / kWordBits] >> (u % kWordBits) & 1U) != 0;
  }
  static void insert(std::vector<Word>& set, Rank u) { set[u / kWordBits] |= Word{1} << (u % kWordBits); }
  static void erase(std::vector<Word>& set, Rank u) { set[u / kWordBits] &= ~(Word{1} << (u % kWordBits)); }
  [[nodiscard]] bool waits(Rank u) const { return has(waiting_, u); }

  /// Calls visit(item) for each item of `set` that waits for its place, in order, until visit says false.
  template <typename Visit>
  void each_waiting(std::span<const Word> set, Visit visit) const {
    for (std::size_t w = 0; w < words_; ++w) {
      for (Word bits = set[w] & waiting_[w]; bits != 0; bits &= bits - 1) {
        if (!visit(static_cast<Rank>(w * kWordBits + static_cast<std::size_t>(std::countr_zero(bits)))))
          return;
      }
    }
  }

  void add(const Piece& piece);
  bool begin();
  bool place(Rank u);
  bool fix(Rank u);
  [[nodiscard]] Bytes fit(Rank u, Bytes from) const;
  bool lift(std::size_t s, Bytes to);
  bool push(Rank u, Bytes to);
  void set_witness(std::uint32_t s, Rank u);
  bool propagate();
  bool settle(std::size_t first, std::size_t end);
  bool branch(std::size_t first, std::size_t end);
  bool try_each(const Choice& choice, std::size_t first, std::size_t end);
  bool look(std::size_t first, std::size_t end, Choice& choice);
  bool look_into(std::size_t first, std::size_t end, Bytes wall, Choice& choice);
  [[nodiscard]] std::uint64_t key_of(std::size_t first, std::size_t end) const;
  [[nodiscard]] bool spent();
  void undo(std::size_t mark);
  void touch(std::size_t s) {
    if (std::exchange(is_touched_[s], 1) != 0) return;
    touched_.push_back(static_cast<std::uint32_t>(s));
  }

  const Board& board_;
  Nogoods& nogoods_;
  std::int64_t limit_;
  const Budget& budget_;
  bool by_failures_;
  std::int64_t nodes_ = 0;
  int depth_ = 0;
  bool gave_up_ = false;

  // The pieces.
  std::size_t words_;
  std::vector<Piece> pieces_;
  std::vector<Word> fixed_;                ///< those whose twin has its place
  int pairs_ = 0;                          ///< of twins that both wait and are not fixed
  std::vector<Word> waiting_;              ///< set of items
  std::vector<Bytes> lows_;                ///< by item: it lies no lower; once placed, its offset
  std::vector<Word> covers_;               ///< by section: the items that live there
  std::vector<Word> meets_;                ///< by item: the items that share a section with it
  std::vector<std::vector<Rank>> begins_;  ///< by section

  // The sections.
  std::vector<Bytes> floors_;                   ///< whoever waits and lives there lies no lower
  std::vector<Bytes> slack_;                    ///< bytes that may still be lost
  std::vector<int> waits_;                      ///< how many wait that live there
  std::vector<int> bridges_;                    ///< and in the next section too
  std::vector<double> weights_;                 ///< one more for each failure there (Boussemart et al. 2004)
  std::vector<Rank> witness_;                   ///< one that waits and may lie on the floor
  std::vector<std::uint32_t> witnessed_;        ///< by item: the first section that it is the witness of
  std::vector<std::uint32_t> next_, previous_;  ///< by section: others with the same witness

  std::vector<Undo> trail_;
  std::vector<std::uint32_t> touched_;  ///< sections whose witness is to be looked at
  std::vector<char> is_touched_;

  // What look_into() counts, by section.
  std::vector<int> inside_;
  std::vector<Bytes> inside_sizes_, least_before_, least_from_;
  std::vector<Rank> candidates_;  ///< of all levels
};

Attempt::Attempt(const Board& board, const Strategy& strategy, Nogoods& nogoods, std::int64_t nodes,
                 const Budget& budget)
    : board_(board),
      nogoods_(nogoods),
      limit_(nodes),
      budget_(budget),
      by_failures_(strategy.by_failures),
      words_((board.pieces + kWordBits - 1) / kWordBits),
      fixed_(words_),
      waiting_(words_),
      lows_(board.pieces),
      covers_(board.sections.count() * words_),
      meets_(board.pieces * words_),
      begins_(board.sections.count()),
      floors_(board.sections.count()),
      slack_(board.slack),
      waits_(board.sections.count()),
      bridges_(board.sections.count()),
      weights_(board.sections.count(), 1),
      witness_(board.sections.count(), kNone),
      witnessed_(board.pieces, kNone),
      next_(board.sections.count(), kNone),
      previous_(board.sections.count(), kNone),
      is_touched_(board.sections.count()),
      inside_(board.sections.count() + 1),
      inside_sizes_(board.sections.count() + 1),
      least_before_(board.sections.count() + 1),
      least_from_(board.sections.count() + 1) {
  for (const ItemId id : strategy.order) {
    const Interval& span = board.sections.spans[id];
    const Interval& echo = board.sections.echoes[id];
    const auto u = static_cast<Rank>(pieces_.size());
    Piece piece{board.puzzle.items[id].size, static_cast<std::size_t>(span.lower),
                static_cast<std::size_t>(span.upper), id};
    if (!echo.empty()) {
      piece.twin = u + 1;
      ++pairs_;
    }
    add(piece);
    if (echo.empty()) continue;
    piece.lower = static_cast<std::size_t>(echo.lower);
    piece.upper = static_cast<std::size_t>(echo.upper);
    piece.twin = u;
    add(piece);
  }
  for (Rank u = 0; u < pieces_.size(); ++u) {
    for (std::size_t s = pieces_[u].lower; s < pieces_[u].upper; ++s) {
      for (std::size_t w = 0; w < words_; ++w) meets_[u * words_ + w] |= covers_[s * words_ + w];
    }
  }
}

void Attempt::add(const Piece& piece) {
  const auto u = static_cast<Rank>(pieces_.size());
  pieces_.push_back(piece);
  insert(waiting_, u);
  begins_[piece.lower].push_back(u);
  for (std::size_t s = piece.lower; s < piece.upper; ++s) {
    covers_[s * words_ + u / kWordBits] |= Word{1} << (u % kWordBits);
    ++waits_[s];
    if (s + 1 < piece.upper) ++bridges_[s];
  }
}

/// Lifts everything over the obstacles that lie on the ground.
bool Attempt::begin() {
  for (Rank u = 0; u < pieces_.size(); ++u) {
    if (!push(u, 0)) return false;
  }
  for (std::size_t s = 0; s < floors_.size(); ++s) touch(s);
  return propagate();
}

/// The lowest offset from `from` upwards at which a piece meets neither obstacles nor fixed pieces; kNever if
/// there is none below its ceiling.
Bytes Attempt::fit(Rank u, Bytes from) const {
  const Piece& piece = pieces_[u];
  Bytes low = board_.fit(piece.id, from);
  for (bool meets = true; std::exchange(meets, false) && low != kNever;) {
    for (std::size_t w = 0; w < words_ && low != kNever; ++w) {
      for (Word bits = meets_[u * words_ + w] & fixed_[w]; bits != 0 && low != kNever; bits &= bits - 1) {
        const Rank f = static_cast<Rank>(w * kWordBits + static_cast<std::size_t>(std::countr_zero(bits)));
        const Bytes top = lows_[f] + pieces_[f].size;
        if (f == u || low >= top || low + piece.size <= lows_[f]) continue;
        low = board_.fit(piece.id, top);
        meets = true;
      }
    }
  }
  return low;
}

/// Says that a piece that waits lies no lower than `to`.
bool Attempt::push(Rank u, Bytes to) {
  if (has(fixed_, u)) return to <= lows_[u];
  const Bytes low = fit(u, to);
  if (low == kNever) return false;
  trail_.push_back({Change::kLow, u, lows_[u], 0});
  lows_[u] = low;
  for (std::uint32_t s = witnessed_[u]; s != kNone; s = next_[s]) touch(s);
  const Rank twin = pieces_[u].twin;
  return twin == kNone || lows_[twin] >= low || push(twin, low);
}

/// The twin of a piece was placed: nobody who waits may lie where it will.
bool Attempt::fix(Rank u) {
  insert(fixed_, u);
  --pairs_;
  const Bytes offset = lows_[u];
  const Bytes top = offset + pieces_[u].size;
  bool possible = true;
  each_waiting({&meets_[u * words_], words_}, [&](Rank v) {
    if (v != u && lows_[v] < top && lows_[v] + pieces_[v].size > offset) possible = push(v, top);
    return possible;
  });
  return possible;
}

void Attempt::set_witness(std::uint32_t s, Rank u) {
  if (witness_[s] != kNone) {
    (previous_[s] == kNone ? witnessed_[witness_[s]] : next_[previous_[s]]) = next_[s];
    if (next_[s] != kNone) previous_[next_[s]] = previous_[s];
  }
  witness_[s] = u;
  if (u == kNone) return;
  previous_[s] = kNone;
  next_[s] = std::exchange(witnessed_[u], s);
  if (next_[s] != kNone) previous_[next_[s]] = s;
}

/// Gives up the bytes between the floor of section s and `to`.
bool Attempt::lift(std::size_t s, Bytes to) {
  trail_.push_back({Change::kFloor, static_cast<std::uint32_t>(s), floors_[s], slack_[s]});
  slack_[s] -= to - floors_[s] - (board_.blocks(s) ? board_.blocked(s, floors_[s], to) : 0);
  floors_[s] = to;
  if (slack_[s] < 0) {
    ++weights_[s];
    return false;
  }
  bool possible = true;
  each_waiting(cover(s), [&](Rank u) {
    if (lows_[u] < to) possible = push(u, to);
    return possible;
  });
  return possible;
}

/// Lifts floors to the lowest place where anybody who lives there can lie, until nothing changes.
bool Attempt::propagate() {
  bool possible = true;
  for (std::size_t i = 0; i < touched_.size() && possible; ++i) {
    const std::size_t s = touched_[i];
    is_touched_[s] = 0;
    if (waits_[s] == 0) continue;
    Bytes lowest = kNever;
    Rank witness = 0;
    each_waiting(cover(s), [&](Rank u) {
      if (lows_[u] < lowest) {
        lowest = lows_[u];
        witness = u;
      }
      return lowest > floors_[s];
    });
    if (witness != witness_[s]) {
      trail_.push_back({Change::kWitness, static_cast<std::uint32_t>(s), static_cast<Bytes>(witness_[s]), 0});
      set_witness(static_cast<std::uint32_t>(s), witness);
    }
    if (lowest > floors_[s]) possible = lift(s, lowest);
  }
  for (const std::uint32_t s : touched_) is_touched_[s] = 0;
  touched_.clear();
  return possible;
}

/// Puts an item on the floor; its sections are all of one height.
bool Attempt::place(Rank u) {
  const Piece& piece = pieces_[u];
  const Bytes top = lows_[u] + piece.size;
  trail_.push_back({Change::kPlaced, u, 0, 0});
  erase(waiting_, u);
  erase(fixed_, u);
  for (std::size_t s = piece.lower; s < piece.upper; ++s) {
    trail_.push_back({Change::kFloor, static_cast<std::uint32_t>(s), floors_[s], slack_[s]});
    floors_[s] = top;
    --waits_[s];
    if (s + 1 < piece.upper) --bridges_[s];
    touch(s);
  }
  bool possible = true;
  each_waiting({&meets_[u * words_], words_}, [&](Rank v) {
    if (lows_[v] < top) possible = push(v, top);
    return possible;
  });
  return possible && (piece.twin == kNone || !waits(piece.twin) || fix(piece.twin));
}

void Attempt::undo(std::size_t mark) {
  for (; trail_.size() > mark; trail_.pop_back()) {
    const Undo& last = trail_.back();
    if (last.change == Change::kFloor) {
      floors_[last.subject] = last.before;
      slack_[last.subject] = last.slack;
    } else if (last.change == Change::kLow) {
      lows_[last.subject] = last.before;
    } else if (last.change == Change::kWitness) {
      set_witness(last.subject, static_cast<Rank>(last.before));
    } else {
      const Piece& piece = pieces_[last.subject];
      insert(waiting_, last.subject);
      if (piece.twin != kNone && !waits(piece.twin)) {
        insert(fixed_, last.subject);
      } else if (piece.twin != kNone && has(fixed_, piece.twin)) {
        erase(fixed_, piece.twin);
        ++pairs_;
      }
      for (std::size_t s = piece.lower; s < piece.upper; ++s) {
        ++waits_[s];
        if (s + 1 < piece.upper) ++bridges_[s];
      }
    }
  }
  for (const std::uint32_t s : touched_) is_touched_[s] = 0;
  touched_.clear();
}

/// Places whatever waits in [first, end). Parts that nobody bridges are settled on their own, the small ones
/// first: they fail sooner.
bool Attempt::settle(std::size_t first, std::size_t end) {
  if (pairs_ > 0) return branch(first, end);  // twins connect what no piece bridges
  struct Part {
    int waits = 0;
    std::size_t first = 0, end = 0;
  };
  std::vector<Part> parts;
  for (std::size_t s = first; s < end; ++s) {
    if (waits_[s] == 0) continue;
    Part part{0, s, s};
    while (true) {
      part.waits += waits_[s];
      if (bridges_[s] == 0) break;
      ++s;
    }
    part.end = s + 1;
    parts.push_back(part);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.waits < b.waits; });
  return std::all_of(parts.begin(), parts.end(),
                     [&](const Part& part) { return branch(part.first, part.end); });
}

bool Attempt::spent() {
  constexpr std::int64_t kNodesBetweenLooks = 256;
  gave_up_ = gave_up_ || nodes_ >= limit_ || depth_ > kDeepest ||
             (nodes_ % kNodesBetweenLooks == 0 && budget_.over());
  return gave_up_;
}

std::uint64_t Attempt::key_of(std::size_t first, std::size_t end) const {
  std::uint64_t floors = 0;
  std::uint64_t items = 0;
  for (std::size_t s = first; s < end; ++s) {
    floors += hash_of(hash_of(static_cast<std::uint64_t>(floors_[s])) + s);
    for (const Rank u : begins_[s]) {
      if (!waits(u)) continue;
      const bool is_echo = pieces_[u].twin < u;
      const std::uint64_t fixed = has(fixed_, u) ? hash_of(static_cast<std::uint64_t>(lows_[u])) : 0;
      items ^= hash_of(2 * std::uint64_t{pieces_[u].id} + (is_echo ? 1 : 0) + fixed);
    }
  }
  return std::max<std::uint64_t>(hash_of(floors) ^ items, 1);
}

/// Settles one part, in which items connect all sections.
bool Attempt::branch(std::size_t first, std::size_t end) {
  if (spent()) return false;
  ++nodes_;
  const std::uint64_t key = key_of(first, end);
  if (nogoods_.contain(key)) return false;
  Choice choice;
  ++depth_;
  const bool done = look(first, end, choice) && try_each(choice, first, end);
  --depth_;
  if (!done && !gave_up_) nogoods_.add(key);
  return done;
}

bool Attempt::try_each(const Choice& choice, std::size_t first, std::size_t end) {
  const std::size_t mark = trail_.size();
  const std::size_t begin = candidates_.size();
  if (choice.settled) {
    candidates_.push_back(*choice.settled);
  } else {
    each_waiting(cover(choice.section), [&](Rank u) {
      if (lows_[u] == floors_[choice.section]) candidates_.push_back(u);
      return true;
    });
  }
  const std::size_t behind = candidates_.size();
  const auto is_tried = [&](std::size_t i) {  // its equal was
    const Piece& piece = pieces_[candidates_[i]];
    return std::any_of(&candidates_[begin], &candidates_[i], [&](Rank v) {
      return piece.twin == kNone && pieces_[v].twin == kNone && pieces_[v].lower == piece.lower &&
             pieces_[v].upper == piece.upper && pieces_[v].size == piece.size &&
             board_.ceilings[pieces_[v].id] == board_.ceilings[piece.id];
    });
  };
  bool done = false;
  for (std::size_t i = begin; i < behind && !done && !gave_up_; ++i) {
    if (is_tried(i)) continue;
    done = place(candidates_[i]) && propagate() && settle(first, end);
    if (!done) undo(mark);
  }
  if (!done && !gave_up_ && !choice.settled && choice.raised != kNever) {
    touch(choice.section);
    done = lift(choice.section, choice.raised) && propagate() && settle(first, end);
    if (!done) undo(mark);
  }
  candidates_.resize(begin);
  return done;
}

/// Looks for the section with the fewest options. False when some well cannot be filled.
bool Attempt::look(std::size_t first, std::size_t end, Choice& choice) {
  const auto height = [&](std::size_t s) {
    return s < first || s >= end || waits_[s] == 0 ? kNever : floors_[s];
  };
  for (std::size_t s = first; s < end;) {
    const std::size_t begin = s;
    while (s < end && height(s) == height(begin)) ++s;
    if (waits_[begin] == 0) continue;
    const Bytes left = height(begin - 1);  // of nothing before 0: wraps around to what is behind everything
    const Bytes right = height(s);
    if (left < floors_[begin] || right < floors_[begin]) continue;
    if (!look_into(begin, s, std::min(left, right), choice)) return false;
  }
  return true;
}

/// Looks at the well [first, end), at whose lower end the floor is at `wall`.
bool Attempt::look_into(std::size_t first, std::size_t end, Bytes wall, Choice& choice) {
  const Bytes floor = floors_[first];
  for (std::size_t s = first; s <= end; ++s) {
    inside_[s] = 0;
    inside_sizes_[s] = 0;
    least_before_[s] = least_from_[s] = kNever;
  }
  Bytes next =
      kNever;  // the first height above the floor on which somebody might lie who rests on nobody here
  std::optional<Rank> settled;
  for (std::size_t s = first; s < end; ++s) {
    if (board_.blocks(s)) next = std::min(next, board_.next_top(s, floor));
    for (const Rank u : begins_[s]) {
      const Piece& piece = pieces_[u];
      if (!waits(u) || piece.upper > end || lows_[u] >= wall) continue;
      inside_sizes_[s] += piece.size;
      inside_sizes_[piece.upper] -= piece.size;
      if (has(fixed_, u)) next = std::min(next, lows_[u] + piece.size);
      if (lows_[u] > floor) {
        next = std::min(next, lows_[u]);
        continue;
      }
      // What spans all that is left of this part of time can as well lie below everything else.
      if (wall == kNever && piece.lower == first && piece.upper == end) settled = u;
      ++inside_[s];
      --inside_[piece.upper];
      least_before_[piece.upper] = std::min(least_before_[piece.upper], piece.size);
      least_from_[s] = std::min(least_from_[s], piece.size);
    }
  }
  if (settled && next == kNever && pairs_ == 0) choice = {.section = first, .cost = 0, .settled = settled};
  for (std::size_t s = first + 1; s <= end; ++s) {
    inside_[s] += inside_[s - 1];
    inside_sizes_[s] += inside_sizes_[s - 1];
    least_before_[s] = std::min(least_before_[s], least_before_[s - 1]);
  }
  for (std::size_t s = end; s-- > first;) least_from_[s] = std::min(least_from_[s], least_from_[s + 1]);
  for (std::size_t s = first; s < end; ++s) {
    // Below the wall there is room for what lives inside only.
    if (wall != kNever) {
      const Bytes blocked = board_.blocks(s) ? board_.blocked(s, floor, wall) : 0;
      if (wall - floor - blocked - inside_sizes_[s] > slack_[s]) {
        ++weights_[s];
        return false;
      }
    }
    // Whoever lies above the floor here rests on a wall, on an obstacle or on somebody who does not live
    // here.
    const Bytes least = std::min(least_before_[s], least_from_[s + 1]);
    Bytes raised = std::min({wall, next, least == kNever ? kNever : floor + least});
    if (raised - floor > slack_[s]) raised = kNever;
    const double options = inside_[s] + (raised != kNever ? 1 : 0);
    const double cost = options / (by_failures_ ? weights_[s] : 1);
    if (std::pair(cost, slack_[s]) < std::pair(choice.cost, choice.slack))
      choice = {.section = s, .cost = cost, .slack = slack_[s], .raised = raised};
  }
  return true;
}

/// Luby's sequence: 1 1 2 1 1 2 4 1 1 2 ...; the number `i` from 0.
std::int64_t luby(std::int64_t i) {
  // It begins with itself up to before a power of two, and then has that power.
  auto n = static_cast<std::uint64_t>(i) + 1;
  while (!std::has_single_bit(n + 1)) n -= std::bit_floor(n) - 1;
  return static_cast<std::int64_t>((n + 1) / 2);
}

/// Attempt number `round` tries the largest items first, by length, area, size, or by how full it gets where
/// they live, shuffled a little from the fifth attempt on; four attempts go by choices alone, the next four
/// by failures too.
Strategy strategy_of(const Board& board, std::int64_t round, std::uint64_t seed) {
  constexpr double kNoise = 0.6;
  std::mt19937_64 random(hash_of(seed) + static_cast<std::uint64_t>(round));
  const auto noise = [&] {
    if (round < kKeys) return 1.0;
    constexpr double kRange = 1 << 20;
    return std::exp(kNoise * (2 * static_cast<double>(random() % (1 << 20)) / kRange - 1));
  };
  std::vector<double> keys;
  for (ItemId id = 0; id < board.puzzle.items.size(); ++id) {
    const Interval& span = board.sections.spans[id];
    const auto length = static_cast<double>(span.length());
    const auto size = static_cast<double>(board.puzzle.items[id].size);
    const Bytes fullest = *std::max_element(board.load.begin() + span.lower, board.load.begin() + span.upper);
    const std::array<double, kKeys> key = {length, size * length, size,
                                           static_cast<double>(fullest) + length};
    keys.push_back(key[static_cast<std::size_t>(round % kKeys)] * noise());
  }
  std::vector<ItemId> order(keys.size());
  std::iota(order.begin(), order.end(), ItemId{0});
  std::stable_sort(order.begin(), order.end(), [&](ItemId a, ItemId b) { return keys[a] > keys[b]; });
  return {std::move(order), round / kKeys % 2 == 1};
}

}  // namespace

ExactResult exact_search(const Puzzle& puzzle, Bytes capacity, const ExactOptions& options) {
  ExactResult result;
  if (puzzle.items.size() > kExactItems || capacity > kExactCapacity) return result;
  const Board board(puzzle, capacity);
  const Budget budget{.deadline = options.deadline, .stop = options.stop};
  const std::int64_t first_round = options.shuffled ? kKeys : 0;
  const std::int64_t first_nodes = kFirstNodes * static_cast<std::int64_t>(puzzle.items.size() + 1);
  // Thread t makes the attempts t, t + threads, ...: who finds what does not depend on who is faster.
  struct Found {
    std::int64_t round = std::numeric_limits<std::int64_t>::max();
    Placement placement;
  };
  const int threads = std::max(1, options.threads);
  std::vector<Found> found(static_cast<std::size_t>(threads));
  std::atomic<std::int64_t> first_found = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> nodes = 0;
  std::atomic<bool> impossible = false;
  const auto work = [&](int thread) {
    Nogoods nogoods;
    std::int64_t used = 0;
    for (std::int64_t round = first_round + thread;
         round < first_found && !impossible && used < options.nodes; round += threads) {
      Attempt attempt(board, strategy_of(board, round, options.seed), nogoods,
                      std::min(first_nodes * luby((round - first_round) / threads), options.nodes - used),
                      budget);
      const Verdict verdict = attempt.run();
      used += attempt.nodes();
      if (verdict == Verdict::kImpossible) impossible = true;
      if (verdict == Verdict::kFound) {
        found[static_cast<std::size_t>(thread)] = {round, attempt.placement()};
        std::int64_t first = first_found;
        while (round < first && !first_found.compare_exchange_weak(first, round)) {
        }
      }
      if (budget.over()) break;
    }
    nodes += used;
  };
  {
    std::vector<std::jthread> helpers;
    for (int thread = 1; thread < threads; ++thread) helpers.emplace_back(work, thread);
    work(0);
  }
  const auto best = std::min_element(found.begin(), found.end(),
                                     [](const Found& a, const Found& b) { return a.round < b.round; });
  result.nodes = nodes;
  if (first_found != std::numeric_limits<std::int64_t>::max()) {
    result.verdict = Verdict::kFound;
    result.placement = std::move(best->placement);
  } else if (impossible) {
    result.verdict = Verdict::kImpossible;
  }
  return result;
}

}  // namespace stweaver
