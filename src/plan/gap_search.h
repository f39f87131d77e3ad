// Looking for room between blocks in address order.
#pragma once

#include <algorithm>
#include <limits>

#include "base/base.h"

namespace stweaver {

enum class Fit : unsigned char {
  kFirst,  ///< the lowest gap that is large enough
  kBest,   ///< the smallest gap that is large enough, the lowest of equals
};

/// Is shown blocks in ascending order of offset (they may overlap) and remembers the gap to take.
class GapSearch {
 public:
  GapSearch(Bytes size, Fit fit) : size_(size), fit_(fit) {}

  /// Shows one block; true when no later block can change the answer.
  bool show(const Interval& block) {
    const Bytes gap = block.lower - top_;
    if (gap >= size_ && gap < best_gap_) {
      best_ = top_;
      best_gap_ = gap;
      if (fit_ == Fit::kFirst || gap == size_) return true;
    }
    raise(block.upper);
    return false;
  }

  /// Skips everything below `top`.
  void raise(Bytes top) { top_ = std::max(top_, top); }

  /// The offset to take: the gap chosen, or the end of all blocks.
  [[nodiscard]] Bytes offset() const { return best_ >= 0 ? best_ : top_; }

 private:
  Bytes size_;
  Fit fit_;
  Bytes top_ = 0;
  Bytes best_ = -1;
  Bytes best_gap_ = std::numeric_limits<Bytes>::max();
};

}  // namespace stweaver
