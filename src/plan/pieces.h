// What one attempt of exact search places.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/board.h"
#include "plan/rank_set.h"

namespace stweaver::exact {

/// An item as one attempt sees it. One with an echo is two pieces, *twins*, that have to lie at the same
/// offset.
struct Piece {
  Bytes size = 0;
  std::size_t lower = 0, upper = 0;  ///< sections
  ItemId id = 0;
  Rank twin = kNone;

  [[nodiscard]] bool has_twin() const { return twin != kNone; }
};

/// The pieces in the order in which they are tried, and who lives where.
class Pieces {
 public:
  /// `order`: of the items.
  Pieces(const Board& board, std::span<const ItemId> order);

  [[nodiscard]] std::size_t count() const { return pieces_.size(); }
  [[nodiscard]] const Piece& operator[](Rank u) const { return pieces_[u]; }
  /// Those that live in a section.
  [[nodiscard]] RankSets::Set in(std::size_t section) const { return in_[section]; }
  /// Those that share a section with a piece, itself too.
  [[nodiscard]] RankSets::Set meeting(Rank u) const { return meeting_[u]; }
  [[nodiscard]] const std::vector<Rank>& beginning_in(std::size_t section) const {
    return beginning_in_[section];
  }

 private:
  void add(const Piece& piece);

  std::vector<Piece> pieces_;
  RankSets in_, meeting_;
  std::vector<std::vector<Rank>> beginning_in_;
};

}  // namespace stweaver::exact
