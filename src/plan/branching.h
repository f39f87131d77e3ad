// Where exact search goes on.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "plan/board.h"
#include "plan/search_state.h"

namespace stweaver::exact {

/// A section and what can be done there: put a piece on its floor, or lift the floor.
struct Branch {
  std::size_t section = 0;
  double cost = std::numeric_limits<double>::infinity();  ///< the fewer options, the less
  Bytes slack = 0;
  Bytes raised = kNever;  ///< how high the floor gets when nobody lies on it; kNever: that cannot be
  std::optional<Rank> settled = {};  ///< a piece that is right here in any case
};

/// Chooses the section with the fewest options.
class Branching {
 public:
  /// `by_failures`: prefer sections in which the attempt failed before.
  Branching(const Board& board, SearchState& state, bool by_failures);

  /// Of [first, end), where somebody waits. Nothing when some well cannot be filled.
  std::optional<Branch> choose(std::size_t first, std::size_t end);

 private:
  /// The sections [first, end), with their floor; at the lower of their two ends the floor is at `wall`,
  /// kNever where there is none.
  struct Well {
    std::size_t first = 0, end = 0;
    Bytes floor = 0;
    Bytes wall = kNever;
  };
  /// Of a well: those who wait and neither reach over an end nor lie above the wall.
  struct Inside {
    Bytes next = kNever;  ///< the first height above the floor on which one may lie who rests on nobody here
    std::optional<Rank> spanning = {};  ///< may lie on the floor, from one end of the well to the other
  };
  /// What lives inside and in one section.
  struct Tally {
    int on_floor = 0;  ///< how many may lie on the floor
    Bytes sizes = 0;
    Bytes least_before = kNever;  ///< the smallest that may lie on the floor and ended before
    Bytes least_from = kNever;    ///< and of those that begin here or later
  };

  bool weigh(const Well& well, Branch& best);
  Inside count(const Well& well);
  void add_up(const Well& well);
  bool can_be_filled(const Well& well);
  void find_fewest(const Well& well, Bytes next, Branch& best) const;

  const Board& board_;
  SearchState& state_;
  bool by_failures_;
  std::vector<Tally> tallies_;  ///< by section, and one behind the last
};

}  // namespace stweaver::exact
