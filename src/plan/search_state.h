// How far an attempt of exact search is: what has its place, and what the rest can still do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/board.h"
#include "plan/pieces.h"
#include "plan/rank_set.h"
#include "plan/witnesses.h"

namespace stweaver::exact {

/// Pieces are placed from the floor upwards; all others *wait*. Of two twins that wait, the second is *fixed*
/// once the first has its place. Every change is on a trail and can be undone.
///
/// What returns bool says false when it finds that the rest cannot be placed: undo() must follow.
class SearchState {
 public:
  /// `order`: in which items are tried.
  SearchState(const Board& board, std::span<const ItemId> order);

  /// Lifts everything over the obstacles that lie on the ground. To be called first.
  bool begin();
  /// Puts a piece that waits on the floor; its sections are all of one height.
  bool place(Rank u);
  /// Gives up the bytes between the floor of a section and `to`.
  bool lift(std::size_t section, Bytes to);

  /// What undo() goes back to.
  [[nodiscard]] std::size_t mark() const { return trail_.size(); }
  void undo(std::size_t mark);

  [[nodiscard]] const Pieces& pieces() const { return pieces_; }
  [[nodiscard]] bool waits(Rank u) const { return waiting_.has(u); }
  [[nodiscard]] bool is_fixed(Rank u) const { return fixed_.has(u); }
  /// A piece that waits lies no lower; of one that is fixed or placed, its offset.
  [[nodiscard]] Bytes low(Rank u) const { return lows_[u]; }
  /// Whether there are twins that both wait: they connect sections that no piece reaches over.
  [[nodiscard]] bool has_pairs() const { return pairs_ > 0; }
  [[nodiscard]] Placement placement() const;

  [[nodiscard]] std::size_t sections() const { return floors_.size(); }
  /// Whoever waits and lives there lies no lower.
  [[nodiscard]] Bytes floor(std::size_t section) const { return floors_[section]; }
  /// Bytes that may still be lost.
  [[nodiscard]] Bytes slack(std::size_t section) const { return slack_[section]; }
  /// How many wait that live there.
  [[nodiscard]] int waiting_in(std::size_t section) const { return waiting_in_[section]; }
  /// Whether any of them lives in the next section too.
  [[nodiscard]] bool is_bridged(std::size_t section) const { return bridges_[section] != 0; }
  /// Calls visit(rank) for each that waits and lives there, in order, until visit says false.
  template <typename Visit>
  void each_waiting_in(std::size_t section, Visit visit) const {
    RankSets::each_in_both(pieces_.in(section), waiting_.bits(), visit);
  }

  /// One more than the failures there (Boussemart et al. 2004), which undo() does not take back.
  [[nodiscard]] double weight(std::size_t section) const { return weights_[section]; }
  void note_failure(std::size_t section) { ++weights_[section]; }

  /// Tells states of the sections [first, end) apart (Zobrist 1970); not 0.
  [[nodiscard]] std::uint64_t key(std::size_t first, std::size_t end) const;

 private:
  enum class Change : std::uint8_t { kFloor, kLow, kPlaced, kWitness };
  struct Undo {
    Change change;
    std::uint32_t subject;  ///< a section or a piece
    Bytes before;
    Bytes slack;
  };

  bool put(Rank u);
  bool fix(Rank u);
  bool push(Rank u, Bytes to);
  bool push_all(RankSets::Set set, Bytes to);
  bool lift_floor(std::size_t s, Bytes to);
  bool propagate();
  void take_back(Rank u);
  void forget_touched();
  void count_waiting(const Piece& piece, int change);
  [[nodiscard]] Bytes fit(Rank u, Bytes from) const;
  [[nodiscard]] std::uint64_t key_of(Rank u) const;
  void set_fixed(Rank u, bool is_fixed);
  void set_floor(std::size_t s, Bytes height);
  void touch(std::size_t s) {
    if (std::exchange(is_touched_[s], 1) != 0) return;
    touched_.push_back(static_cast<std::uint32_t>(s));
  }

  const Board& board_;
  Pieces pieces_;

  RankSet waiting_;
  RankSet fixed_;
  std::vector<Bytes> lows_;  ///< by piece
  int pairs_ = 0;            ///< of twins that both wait and are not fixed

  // By section.
  std::vector<Bytes> floors_, slack_;
  std::vector<int> waiting_in_, bridges_;
  std::vector<double> weights_;
  Witnesses witnesses_;
  std::vector<std::uint64_t> floor_keys_;  ///< of the floor
  std::vector<std::uint64_t> piece_keys_;  ///< of the pieces that begin there and wait

  std::vector<Undo> trail_;
  std::vector<std::uint32_t> touched_;  ///< sections whose witness is to be looked at
  std::vector<char> is_touched_;        ///< by section
};

}  // namespace stweaver::exact
