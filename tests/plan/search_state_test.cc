#include "plan/search_state.h"

#include <numeric>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "support/instances.h"

namespace stweaver::exact {
namespace {

/// All that an attempt can see.
auto seen(const SearchState& state) {
  std::vector<Bytes> numbers;
  for (Rank u = 0; u < state.pieces().count(); ++u)
    numbers.insert(numbers.end(), {state.waits(u) ? 1 : 0, state.is_fixed(u) ? 1 : 0, state.low(u)});
  for (std::size_t s = 0; s < state.sections(); ++s) {
    numbers.insert(numbers.end(), {state.floor(s), state.slack(s), state.waiting_in(s)});
    numbers.push_back(state.is_bridged(s) ? 1 : 0);
  }
  return std::tuple(numbers, state.key(0, state.sections()), state.has_pairs());
}

/// Items that live from time 20 on, a third of them with an echo before that, and an obstacle.
Puzzle random_puzzle(Random& random) {
  Puzzle puzzle = {.items = random_items(random, 30, 50, 60, 9).items, .obstacles = {}, .persistent = {}};
  for (Item& item : puzzle.items) {
    item.life = {item.life.lower + 20, item.life.upper + 20};
    if (item.life.lower % 3 == 0) item.echo = {0, 1 + item.life.lower % 7};
  }
  puzzle.obstacles.push_back({.life = {30, 50}, .bytes = {10, 40}});
  return puzzle;
}

/// Places pieces on the floor of the lowest sections and lifts floors, until nothing goes any more; at every
/// turn what undo() leaves is what was there at the mark.
void go_on(SearchState& state, Random& random, int& undone) {
  const auto before = seen(state);
  const std::size_t mark = state.mark();
  std::size_t lowest = state.sections();
  for (std::size_t s = 0; s < state.sections(); ++s) {
    if (state.waiting_in(s) > 0 && (lowest == state.sections() || state.floor(s) < state.floor(lowest)))
      lowest = s;
  }
  if (lowest == state.sections()) return;
  Rank chosen = kNone;
  state.each_waiting_in(lowest, [&](Rank u) {
    const Piece& piece = state.pieces()[u];
    bool is_flat = state.low(u) == state.floor(lowest);
    for (std::size_t s = piece.lower; s < piece.upper; ++s)
      is_flat = is_flat && state.floor(s) == state.floor(lowest);
    if (is_flat) chosen = u;
    return !is_flat;
  });
  const bool possible = chosen == kNone || random() % 4 == 0 ? state.lift(lowest, state.floor(lowest) + 1)
                                                             : state.place(chosen);
  if (possible) go_on(state, random, undone);
  state.undo(mark);
  EXPECT_EQ(seen(state), before);
  ++undone;
}

TEST(SearchState, IsAfterUndoWhatItWasAtTheMark) {
  int undone = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const Puzzle puzzle = random_puzzle(random);
    const Board board(puzzle, 600);
    std::vector<ItemId> order(puzzle.items.size());
    std::iota(order.begin(), order.end(), ItemId{0});
    SearchState state(board, order);
    ASSERT_TRUE(state.begin());
    EXPECT_TRUE(state.has_pairs());
    go_on(state, random, undone);
  }
  EXPECT_GT(undone, 20 * 10);
}

TEST(SearchState, TellsTwinsAndTheirPlacesApart) {
  const Puzzle puzzle = {.items = {{.size = 2, .life = {4, 8}, .echo = {0, 2}}, {.size = 3, .life = {1, 6}}},
                         .obstacles = {},
                         .persistent = {}};
  const Board board(puzzle, 9);
  const std::vector<ItemId> order = {0, 1};
  SearchState state(board, order);
  ASSERT_TRUE(state.begin());
  ASSERT_TRUE(state.place(0));  // the later life; the echo is fixed
  EXPECT_TRUE(state.is_fixed(1));
  EXPECT_FALSE(state.has_pairs());
  EXPECT_EQ(state.low(2), 2);  // above where the echo will lie
  ASSERT_TRUE(state.place(1));
  ASSERT_TRUE(state.place(2));
  EXPECT_EQ(state.placement(), (Placement{0, 2}));
}

}  // namespace
}  // namespace stweaver::exact
