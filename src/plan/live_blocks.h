// The blocks that live at one time, in address order, asked again and again for a gap.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/base.h"

namespace stweaver {

/// Blocks in address order, in chunks and groups of chunks that know their largest gap, so that a search
/// skips what is too narrow: about O(sqrt n) for every operation. Blocks may overlap.
class LiveBlocks {
 public:
  void clear();
  void insert(const Interval& block);
  /// Wants a block that is there.
  void erase(const Interval& block);

  /// Calls `visit(lower, upper)` for every gap of at least `size` bytes, from the bottom up, until it returns
  /// true. Returns the end of all blocks, above which everything is free; of no use after a stop.
  template <typename Visit>
  [[nodiscard]] Bytes for_each_gap(Bytes size, const Visit& visit) {
    Bytes top = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].gap < size) {
        top = std::max(top, groups_[g].end);
        continue;
      }
      Summary group;
      for (std::size_t c = g * kGroup; c < std::min((g + 1) * kGroup, chunks_.size()); ++c) {
        if (summaries_[c].gap < size) {
          top = std::max(top, summaries_[c].end);
        } else if (visit_chunk(c, size, top, visit)) {
          return top;
        }
        group.gap = std::max(group.gap, summaries_[c].gap);
        group.end = std::max(group.end, summaries_[c].end);
      }
      groups_[g] = group;
    }
    return top;
  }

 private:
  static constexpr std::size_t kChunk = 64;  // blocks
  static constexpr std::size_t kGroup = 64;  // chunks

  struct Chunk {
    std::array<Interval, kChunk> blocks;
    std::size_t count = 0;
  };

  /// Of one chunk or group, brought up to date by the next search that looks into it. Where blocks overlap,
  /// `gap` may be too large, never too small.
  struct Summary {
    Bytes gap = 0;  ///< the largest, the one below the first block included; kUnknown after a change
    Bytes end = 0;  ///< holds unless the chunk itself was touched
  };
  static constexpr Bytes kUnknown = std::numeric_limits<Bytes>::max();

  /// Visits the gaps of one chunk, `top` being the end of the blocks below; whether it was stopped.
  template <typename Visit>
  bool visit_chunk(std::size_t c, Bytes size, Bytes& top, const Visit& visit) {
    const Chunk& chunk = pool_[chunks_[c]];
    Summary summary;
    Bytes below = c == 0 ? 0 : summaries_[c - 1].end;
    for (std::size_t i = 0; i < chunk.count; ++i) {
      const Interval& block = chunk.blocks[i];
      if (block.lower - top >= size && visit(top, block.lower)) return true;
      top = std::max(top, block.upper);
      summary.gap = std::max(summary.gap, block.lower - below);
      summary.end = std::max(summary.end, block.upper);
      below = std::max(below, block.upper);
    }
    summaries_[c] = summary;
    return false;
  }

  [[nodiscard]] std::size_t chunk_for(Bytes offset) const;
  [[nodiscard]] Bytes end_below(std::size_t c, const Interval* at) const;
  void split(std::size_t c);
  void remove(std::size_t c);
  void touch(std::size_t c);
  void widen(std::size_t c, Bytes gap);
  void regroup(std::size_t c);

  std::vector<Chunk> pool_;
  std::vector<std::uint32_t> free_;    // of the pool
  std::vector<std::uint32_t> chunks_;  // in address order; none is empty
  std::vector<Bytes> firsts_;          // offset of each chunk's first block
  std::vector<Summary> summaries_;     // of each chunk
  std::vector<Summary> groups_;        // of so many chunks in a row
};

}  // namespace stweaver
