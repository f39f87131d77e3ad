#include "plan/branching.h"

#include <algorithm>
#include <utility>

namespace stweaver::exact {

Branching::Branching(const Board& board, SearchState& state, bool by_failures)
    : board_(board), state_(state), by_failures_(by_failures), tallies_(board.sections.count() + 1) {}

std::optional<Branch> Branching::choose(std::size_t first, std::size_t end) {
  const auto height = [&](std::size_t s) { return state_.waiting_in(s) == 0 ? kNever : state_.floor(s); };
  Branch best;
  Bytes before = kNever;
  for (std::size_t begin = first, s = first; begin < end; begin = s) {
    const Bytes floor = height(begin);
    while (s < end && height(s) == floor) ++s;
    const Bytes behind = s < end ? height(s) : kNever;
    const Bytes wall = std::min(std::exchange(before, floor), behind);
    if (floor != kNever && floor <= wall && !weigh({begin, s, floor, wall}, best)) return std::nullopt;
  }
  return best;
}

/// Makes the best section of the well `best`, if it is better. False when the well cannot be filled.
bool Branching::weigh(const Well& well, Branch& best) {
  const Inside inside = count(well);
  add_up(well);
  if (!can_be_filled(well)) return false;
  // What spans all that is left of this part of time can as well lie below everything else.
  if (inside.spanning && well.wall == kNever && inside.next == kNever && !state_.has_pairs())
    best = {.section = well.first, .cost = 0, .settled = inside.spanning};
  find_fewest(well, inside.next, best);
  return true;
}

/// Notes in `tallies_` where who is inside begins and ends.
Branching::Inside Branching::count(const Well& well) {
  std::fill(&tallies_[well.first], &tallies_[well.end] + 1, Tally());
  const SearchState& state = state_;
  Inside inside;
  for (std::size_t s = well.first; s < well.end; ++s) {
    if (board_.blocks(s)) inside.next = std::min(inside.next, board_.next_top(s, well.floor));
    for (const Rank u : state.pieces().beginning_in(s)) {
      const Piece& piece = state.pieces()[u];
      if (!state.waits(u) || piece.upper > well.end) continue;
      const Bytes low = state.low(u);
      if (low >= well.wall) continue;
      Tally& here = tallies_[s];
      Tally& behind = tallies_[piece.upper];
      here.sizes += piece.size;
      behind.sizes -= piece.size;
      if (state.is_fixed(u)) inside.next = std::min(inside.next, low + piece.size);
      if (low > well.floor) {
        inside.next = std::min(inside.next, low);
        continue;
      }
      if (s == well.first && piece.upper == well.end) inside.spanning = u;
      ++here.on_floor;
      --behind.on_floor;
      here.least_from = std::min(here.least_from, piece.size);
      behind.least_before = std::min(behind.least_before, piece.size);
    }
  }
  return inside;
}

void Branching::add_up(const Well& well) {
  for (std::size_t s = well.first + 1; s <= well.end; ++s) {
    tallies_[s].on_floor += tallies_[s - 1].on_floor;
    tallies_[s].sizes += tallies_[s - 1].sizes;
    tallies_[s].least_before = std::min(tallies_[s].least_before, tallies_[s - 1].least_before);
  }
  for (std::size_t s = well.end; s-- > well.first;)
    tallies_[s].least_from = std::min(tallies_[s].least_from, tallies_[s + 1].least_from);
}

/// Whether no section would lose more bytes than it may: below the wall there is room for what lives inside
/// only.
bool Branching::can_be_filled(const Well& well) {
  if (well.wall == kNever) return true;
  for (std::size_t s = well.first; s < well.end; ++s) {
    const Bytes blocked = board_.blocks(s) ? board_.blocked(s, well.floor, well.wall) : 0;
    if (well.wall - well.floor - blocked - tallies_[s].sizes <= state_.slack(s)) continue;
    state_.note_failure(s);
    return false;
  }
  return true;
}

void Branching::find_fewest(const Well& well, Bytes next, Branch& best) const {
  for (std::size_t s = well.first; s < well.end; ++s) {
    // Whoever lies above the floor here rests on a wall, on an obstacle or on somebody who does not live
    // here.
    const Bytes least = std::min(tallies_[s].least_before, tallies_[s + 1].least_from);
    const Bytes slack = state_.slack(s);
    Bytes raised = std::min({well.wall, next, least == kNever ? kNever : well.floor + least});
    if (raised - well.floor > slack) raised = kNever;
    const double options = tallies_[s].on_floor + (raised != kNever ? 1 : 0);
    const double cost = options / (by_failures_ ? state_.weight(s) : 1);
    if (std::pair(cost, slack) < std::pair(best.cost, best.slack))
      best = {.section = s, .cost = cost, .slack = slack, .raised = raised};
  }
}

}  // namespace stweaver::exact
