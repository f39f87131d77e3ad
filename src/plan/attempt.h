// One attempt at a puzzle: depth first, and given up after so many nodes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/board.h"
#include "plan/exact.h"
#include "plan/nogoods.h"
#include "plan/packer.h"

namespace stweaver::exact {

using Rank = std::uint32_t;  ///< an item, numbered in the order in which it is tried
using Word = std::uint64_t;

inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::size_t kWordBits = 64;

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
  [[nodiscard]] std::uint64_t key_of(Rank u) const;
  void set_fixed(Rank u, bool is_fixed);
  void set_floor(std::size_t s, Bytes height);
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

  // What tells states apart, by section (Zobrist 1970).
  std::vector<std::uint64_t> floor_keys_;  ///< of the floor
  std::vector<std::uint64_t> item_keys_;   ///< of the items that begin there and wait

  std::vector<Undo> trail_;
  std::vector<std::uint32_t> touched_;  ///< sections whose witness is to be looked at
  std::vector<char> is_touched_;

  // What look_into() counts, by section.
  std::vector<int> inside_;
  std::vector<Bytes> inside_sizes_, least_before_, least_from_;
  std::vector<Rank> candidates_;  ///< of all levels
};
}  // namespace stweaver::exact
