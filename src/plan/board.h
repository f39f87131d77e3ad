// A puzzle as exact search sees it: sections, and what is fixed in them.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "plan/puzzle.h"

namespace stweaver::exact {

inline constexpr Bytes kNever = std::numeric_limits<Bytes>::max() / 4;

/// What all attempts at one puzzle share.
struct Board {
  Board(const Puzzle& of, Bytes capacity);

  [[nodiscard]] bool blocks(std::size_t s) const { return !sections.sections[s].blocked.empty(); }
  /// Bytes of obstacles in [from, to) of section s.
  [[nodiscard]] Bytes blocked(std::size_t s, Bytes from, Bytes to) const;
  /// Where the first obstacle of section s that reaches above `height` ends.
  [[nodiscard]] Bytes next_top(std::size_t s, Bytes height) const;
  /// The lowest offset from `from` upwards at which item `id` meets no obstacle; kNever if there is none
  /// below its ceiling.
  [[nodiscard]] Bytes fit(ItemId id, Bytes from) const;

  const Puzzle& puzzle;
  Sections sections;
  std::size_t pieces = 0;                          ///< items, and again those with an echo
  std::vector<Bytes> ceilings;                     ///< by item: no item ends above it
  std::vector<Bytes> slack;                        ///< by section: bytes that may be lost
  std::vector<Bytes> load;                         ///< by section
  std::vector<std::vector<Interval>> blocked_for;  ///< by item: what it cannot use
};
}  // namespace stweaver::exact
