// Blocks that have outlived a step: they may stay for ever.
#pragma once

#include <optional>
#include <vector>

#include "arena/block_table.h"
#include "arena/memory.h"

namespace stweaver {

/// Where they lie in the arena, and what is left beside them.
class LastingBlocks {
 public:
  /// Those of `blocks` that were born at `born_by` or earlier. `memory` must outlive this. O(blocks * log
  /// blocks).
  LastingBlocks(const Memory& memory, const BlockTable& blocks, Tick born_by);

  /// The lowest place in `region` for so many bytes, at a page, where none of them is.
  [[nodiscard]] std::optional<Bytes> lowest_place(const Interval& region, Bytes size) const;

  /// What else is in the extents that they keep from moving, by offset, but for extents in `region`. What is
  /// there now will be gone.
  [[nodiscard]] std::vector<Interval> gaps_outside(const Interval& region) const;

 private:
  const Memory* memory_;
  std::vector<Interval> lasting_;  ///< by offset; those side by side are one
};

}  // namespace stweaver
