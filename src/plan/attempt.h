// One attempt at a puzzle: depth first, and given up after so many nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/board.h"
#include "plan/branching.h"
#include "plan/exact.h"
#include "plan/nogoods.h"
#include "plan/packer.h"
#include "plan/search_state.h"

namespace stweaver::exact {

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

  Verdict run();
  /// With kFound.
  [[nodiscard]] Placement placement() const { return state_.placement(); }
  /// That were looked at.
  [[nodiscard]] std::int64_t nodes() const { return nodes_; }

 private:
  bool settle(std::size_t first, std::size_t end);
  bool settle_connected(std::size_t first, std::size_t end);
  bool follow(const Branch& branch, std::size_t first, std::size_t end);
  bool try_each_on_floor(std::size_t section, std::size_t first, std::size_t end);
  bool try_on_floor(Rank u, std::size_t first, std::size_t end);
  [[nodiscard]] bool are_alike(Rank u, Rank v) const;
  [[nodiscard]] bool is_spent();

  const Board& board_;
  SearchState state_;
  Branching branching_;
  Nogoods& nogoods_;
  std::int64_t limit_;
  const Budget& budget_;
  std::int64_t nodes_ = 0;
  int depth_ = 0;
  bool gave_up_ = false;
  std::vector<Rank> candidates_;  ///< of all levels
};

}  // namespace stweaver::exact
