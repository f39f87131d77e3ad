#include "plan/search_state.h"

#include <algorithm>

#include "plan/nogoods.h"

namespace stweaver::exact {

SearchState::SearchState(const Board& board, std::span<const ItemId> order)
    : board_(board),
      pieces_(board, order),
      waiting_(pieces_.count()),
      fixed_(pieces_.count()),
      lows_(pieces_.count()),
      floors_(board.sections.count()),
      slack_(board.slack),
      waiting_in_(board.sections.count()),
      bridges_(board.sections.count()),
      weights_(board.sections.count(), 1),
      witnesses_(board.sections.count(), pieces_.count()),
      floor_keys_(board.sections.count()),
      piece_keys_(board.sections.count()),
      is_touched_(board.sections.count()) {
  for (std::size_t s = 0; s < floors_.size(); ++s) set_floor(s, 0);
  for (Rank u = 0; u < pieces_.count(); ++u) {
    const Piece& piece = pieces_[u];
    if (piece.has_twin() && u < piece.twin) ++pairs_;
    waiting_.insert(u);
    piece_keys_[piece.lower] ^= key_of(u);
    count_waiting(piece, 1);
  }
}

bool SearchState::begin() {
  if (std::any_of(slack_.begin(), slack_.end(), [](Bytes slack) { return slack < 0; })) return false;
  for (Rank u = 0; u < pieces_.count(); ++u) {
    if (!push(u, 0)) return false;
  }
  for (std::size_t s = 0; s < floors_.size(); ++s) touch(s);
  return propagate();
}

bool SearchState::place(Rank u) {
  return put(u) && propagate();
}

bool SearchState::lift(std::size_t section, Bytes to) {
  touch(section);
  return lift_floor(section, to) && propagate();
}

Placement SearchState::placement() const {
  Placement placement(board_.puzzle.items.size());
  for (Rank u = 0; u < pieces_.count(); ++u) placement[pieces_[u].id] = lows_[u];
  return placement;
}

std::uint64_t SearchState::key(std::size_t first, std::size_t end) const {
  std::uint64_t floors = 0;
  std::uint64_t pieces = 0;
  for (std::size_t s = first; s < end; ++s) {
    floors += floor_keys_[s];
    pieces ^= piece_keys_[s];
  }
  return std::max<std::uint64_t>(hash_of(floors) ^ pieces, 1);
}

// ---- the rest is pushed up ----

bool SearchState::put(Rank u) {
  const Piece& piece = pieces_[u];
  const Bytes top = lows_[u] + piece.size;
  trail_.push_back({Change::kPlaced, u, 0, 0});
  piece_keys_[piece.lower] ^= key_of(u);
  waiting_.erase(u);
  fixed_.erase(u);
  count_waiting(piece, -1);
  for (std::size_t s = piece.lower; s < piece.upper; ++s) {
    trail_.push_back({Change::kFloor, static_cast<std::uint32_t>(s), floors_[s], slack_[s]});
    set_floor(s, top);
    touch(s);
  }
  return push_all(pieces_.meeting(u), top) && (!piece.has_twin() || !waits(piece.twin) || fix(piece.twin));
}

/// The twin of a piece was placed: nobody who waits may lie where it will.
bool SearchState::fix(Rank u) {
  set_fixed(u, true);
  --pairs_;
  const Bytes offset = lows_[u];
  const Bytes top = offset + pieces_[u].size;
  bool possible = true;
  RankSets::each_in_both(pieces_.meeting(u), waiting_.bits(), [&](Rank v) {
    if (v != u && lows_[v] < top && lows_[v] + pieces_[v].size > offset) possible = push(v, top);
    return possible;
  });
  return possible;
}

bool SearchState::lift_floor(std::size_t s, Bytes to) {
  trail_.push_back({Change::kFloor, static_cast<std::uint32_t>(s), floors_[s], slack_[s]});
  slack_[s] -= to - floors_[s] - (board_.blocks(s) ? board_.blocked(s, floors_[s], to) : 0);
  set_floor(s, to);
  if (slack_[s] < 0) {
    note_failure(s);
    return false;
  }
  return push_all(pieces_.in(s), to);
}

/// Says that those of a set that wait lie no lower than `to`.
bool SearchState::push_all(RankSets::Set set, Bytes to) {
  bool possible = true;
  RankSets::each_in_both(set, waiting_.bits(), [&](Rank u) {
    if (lows_[u] < to) possible = push(u, to);
    return possible;
  });
  return possible;
}

/// Says that a piece that waits lies no lower than `to`, and nor does its twin.
bool SearchState::push(Rank u, Bytes to) {
  if (is_fixed(u)) return to <= lows_[u];
  const Bytes low = fit(u, to);
  if (low == kNever) return false;
  trail_.push_back({Change::kLow, u, lows_[u], 0});
  lows_[u] = low;
  witnesses_.each_section_of(u, [&](std::size_t s) { touch(s); });
  const Piece& piece = pieces_[u];
  return !piece.has_twin() || lows_[piece.twin] >= low || push(piece.twin, low);
}

/// The lowest offset from `from` upwards at which a piece meets neither obstacles nor fixed pieces; kNever if
/// there is none below its ceiling.
Bytes SearchState::fit(Rank u, Bytes from) const {
  const Piece& piece = pieces_[u];
  Bytes low = board_.fit(piece.id, from);
  for (bool meets = true; std::exchange(meets, false) && low != kNever;) {
    RankSets::each_in_both(pieces_.meeting(u), fixed_.bits(), [&](Rank f) {
      const Bytes top = lows_[f] + pieces_[f].size;
      if (f != u && low < top && low + piece.size > lows_[f]) {
        low = board_.fit(piece.id, top);
        meets = true;
      }
      return low != kNever;
    });
  }
  return low;
}

/// Lifts floors to the lowest place where anybody who lives there can lie, until nothing changes.
bool SearchState::propagate() {
  bool possible = true;
  for (std::size_t i = 0; i < touched_.size() && possible; ++i) {
    const std::uint32_t s = touched_[i];
    is_touched_[s] = 0;
    if (waiting_in_[s] == 0) continue;
    Bytes lowest = kNever;
    Rank witness = 0;
    each_waiting_in(s, [&](Rank u) {
      if (lows_[u] >= lowest) return true;
      lowest = lows_[u];
      witness = u;
      return lowest > floors_[s];
    });
    if (witness != witnesses_.of(s)) {
      trail_.push_back({Change::kWitness, s, static_cast<Bytes>(witnesses_.of(s)), 0});
      witnesses_.set(s, witness);
    }
    if (lowest > floors_[s]) possible = lift_floor(s, lowest);
  }
  forget_touched();
  return possible;
}

void SearchState::forget_touched() {
  for (const std::uint32_t s : touched_) is_touched_[s] = 0;
  touched_.clear();
}

// ---- undo ----

void SearchState::undo(std::size_t mark) {
  for (; trail_.size() > mark; trail_.pop_back()) {
    const Undo& last = trail_.back();
    switch (last.change) {
      case Change::kFloor:
        set_floor(last.subject, last.before);
        slack_[last.subject] = last.slack;
        break;
      case Change::kLow:
        lows_[last.subject] = last.before;
        break;
      case Change::kWitness:
        witnesses_.set(last.subject, static_cast<Rank>(last.before));
        break;
      case Change::kPlaced:
        take_back(last.subject);
    }
  }
  forget_touched();
}

/// What put() and fix() did to one piece and its twin.
void SearchState::take_back(Rank u) {
  const Piece& piece = pieces_[u];
  if (piece.has_twin() && !waits(piece.twin)) {
    fixed_.insert(u);
  } else if (piece.has_twin() && is_fixed(piece.twin)) {
    set_fixed(piece.twin, false);
    ++pairs_;
  }
  waiting_.insert(u);
  piece_keys_[piece.lower] ^= key_of(u);
  count_waiting(piece, 1);
}

// ---- counts and keys ----

void SearchState::count_waiting(const Piece& piece, int change) {
  for (std::size_t s = piece.lower; s < piece.upper; ++s) {
    waiting_in_[s] += change;
    if (s + 1 < piece.upper) bridges_[s] += change;
  }
}

void SearchState::set_fixed(Rank u, bool is_fixed) {
  piece_keys_[pieces_[u].lower] ^= key_of(u);
  if (is_fixed) {
    fixed_.insert(u);
  } else {
    fixed_.erase(u);
  }
  piece_keys_[pieces_[u].lower] ^= key_of(u);
}

void SearchState::set_floor(std::size_t s, Bytes height) {
  floors_[s] = height;
  floor_keys_[s] = hash_of(hash_of(static_cast<std::uint64_t>(height)) + s);
}

std::uint64_t SearchState::key_of(Rank u) const {
  const bool is_echo = pieces_[u].twin < u;
  const std::uint64_t fixed = is_fixed(u) ? hash_of(static_cast<std::uint64_t>(lows_[u])) : 0;
  return hash_of(2 * std::uint64_t{pieces_[u].id} + (is_echo ? 1 : 0) + fixed);
}

}  // namespace stweaver::exact
