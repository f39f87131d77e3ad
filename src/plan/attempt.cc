#include "plan/attempt.h"

#include <algorithm>

namespace stweaver::exact {
namespace {

/// Deeper than this a search is given up: each level is a call on the stack.
constexpr int kDeepest = 8000;

}  // namespace

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
      floor_keys_(board.sections.count()),
      item_keys_(board.sections.count()),
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
  for (std::size_t s = 0; s < floors_.size(); ++s) set_floor(s, 0);
  for (Rank u = 0; u < pieces_.size(); ++u) {
    item_keys_[pieces_[u].lower] ^= key_of(u);
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
  set_fixed(u, true);
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
  set_floor(s, to);
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
  item_keys_[piece.lower] ^= key_of(u);
  erase(waiting_, u);
  erase(fixed_, u);
  for (std::size_t s = piece.lower; s < piece.upper; ++s) {
    trail_.push_back({Change::kFloor, static_cast<std::uint32_t>(s), floors_[s], slack_[s]});
    set_floor(s, top);
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
      set_floor(last.subject, last.before);
      slack_[last.subject] = last.slack;
    } else if (last.change == Change::kLow) {
      lows_[last.subject] = last.before;
    } else if (last.change == Change::kWitness) {
      set_witness(last.subject, static_cast<Rank>(last.before));
    } else {
      const Piece& piece = pieces_[last.subject];
      if (piece.twin != kNone && !waits(piece.twin)) {
        insert(fixed_, last.subject);
      } else if (piece.twin != kNone && has(fixed_, piece.twin)) {
        set_fixed(piece.twin, false);
        ++pairs_;
      }
      insert(waiting_, last.subject);
      item_keys_[piece.lower] ^= key_of(last.subject);
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

std::uint64_t Attempt::key_of(Rank u) const {
  const bool is_echo = pieces_[u].twin < u;
  const std::uint64_t fixed = has(fixed_, u) ? hash_of(static_cast<std::uint64_t>(lows_[u])) : 0;
  return hash_of(2 * std::uint64_t{pieces_[u].id} + (is_echo ? 1 : 0) + fixed);
}

void Attempt::set_fixed(Rank u, bool is_fixed) {
  item_keys_[pieces_[u].lower] ^= key_of(u);
  if (is_fixed) {
    insert(fixed_, u);
  } else {
    erase(fixed_, u);
  }
  item_keys_[pieces_[u].lower] ^= key_of(u);
}

void Attempt::set_floor(std::size_t s, Bytes height) {
  floors_[s] = height;
  floor_keys_[s] = hash_of(hash_of(static_cast<std::uint64_t>(height)) + s);
}

std::uint64_t Attempt::key_of(std::size_t first, std::size_t end) const {
  std::uint64_t floors = 0;
  std::uint64_t items = 0;
  for (std::size_t s = first; s < end; ++s) {
    floors += floor_keys_[s];
    items ^= item_keys_[s];
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
}  // namespace stweaver::exact
