// Sets of pieces, as bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace stweaver::exact {

using Rank = std::uint32_t;  ///< a piece, numbered in the order in which pieces are tried
inline constexpr Rank kNone = std::numeric_limits<Rank>::max();

/// So many sets of ranks below a number, one behind the other in memory.
class RankSets {
 public:
  using Word = std::uint64_t;
  using Set = std::span<const Word>;

  RankSets(std::size_t sets, std::size_t ranks)
      : words_((ranks + kWordBits - 1) / kWordBits), bits_(sets * words_) {}

  [[nodiscard]] Set operator[](std::size_t set) const { return {bits_.data() + set * words_, words_}; }
  [[nodiscard]] bool has(std::size_t set, Rank u) const {
    return (bits_[set * words_ + u / kWordBits] >> (u % kWordBits) & 1U) != 0;
  }
  void insert(std::size_t set, Rank u) { bits_[set * words_ + u / kWordBits] |= bit(u); }
  void erase(std::size_t set, Rank u) { bits_[set * words_ + u / kWordBits] &= ~bit(u); }
  void insert_all(std::size_t set, Set added) {
    for (std::size_t w = 0; w < words_; ++w) bits_[set * words_ + w] |= added[w];
  }

  /// Calls visit(rank) for each that is in both, in order, until visit says false.
  template <typename Visit>
  static void each_in_both(Set a, Set b, Visit visit) {
    for (std::size_t w = 0; w < a.size(); ++w) {
      for (Word bits = a[w] & b[w]; bits != 0; bits &= bits - 1) {
        const std::size_t rank = w * kWordBits + static_cast<std::size_t>(std::countr_zero(bits));
        if (!visit(static_cast<Rank>(rank))) return;
      }
    }
  }

 private:
  static constexpr std::size_t kWordBits = std::numeric_limits<Word>::digits;
  static constexpr Word bit(Rank u) { return Word{1} << (u % kWordBits); }

  std::size_t words_;  ///< of one set
  std::vector<Word> bits_;
};

/// One set of ranks below a number.
class RankSet {
 public:
  explicit RankSet(std::size_t ranks) : only_(1, ranks) {}

  [[nodiscard]] bool has(Rank u) const { return only_.has(0, u); }
  void insert(Rank u) { only_.insert(0, u); }
  void erase(Rank u) { only_.erase(0, u); }
  [[nodiscard]] RankSets::Set bits() const { return only_[0]; }

 private:
  RankSets only_;
};

}  // namespace stweaver::exact
