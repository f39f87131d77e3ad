#include "plan/pieces.h"

namespace stweaver::exact {

Pieces::Pieces(const Board& board, std::span<const ItemId> order)
    : in_(board.sections.count(), board.pieces),
      meeting_(board.pieces, board.pieces),
      beginning_in_(board.sections.count()) {
  pieces_.reserve(board.pieces);
  for (const ItemId id : order) {
    const auto piece_in = [&](const Interval& span, Rank twin) {
      return Piece{board.puzzle.items[id].size, static_cast<std::size_t>(span.lower),
                   static_cast<std::size_t>(span.upper), id, twin};
    };
    const Interval& echo = board.sections.echoes[id];
    const auto u = static_cast<Rank>(pieces_.size());
    add(piece_in(board.sections.spans[id], echo.empty() ? kNone : u + 1));
    if (!echo.empty()) add(piece_in(echo, u));
  }
  for (Rank u = 0; u < pieces_.size(); ++u) {
    for (std::size_t s = pieces_[u].lower; s < pieces_[u].upper; ++s) meeting_.insert_all(u, in_[s]);
  }
}

void Pieces::add(const Piece& piece) {
  const auto u = static_cast<Rank>(pieces_.size());
  pieces_.push_back(piece);
  beginning_in_[piece.lower].push_back(u);
  for (std::size_t s = piece.lower; s < piece.upper; ++s) in_.insert(s, u);
}

}  // namespace stweaver::exact
