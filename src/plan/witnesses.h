// Who shows that a floor need not be lifted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/rank_set.h"

namespace stweaver::exact {

/// For each section a piece that waits and may lie on the floor, its *witness*: only when that is pushed up
/// has the section to be looked at again. (In SAT solvers watched literals do this: Moskewicz et al. 2001.)
class Witnesses {
 public:
  Witnesses(std::size_t sections, std::size_t pieces)
      : of_(sections, kNone), first_(pieces, kNone), next_(sections, kNone), previous_(sections, kNone) {}

  /// kNone: nobody.
  [[nodiscard]] Rank of(std::size_t section) const { return of_[section]; }

  void set(std::uint32_t section, Rank u);

  /// Calls visit(section) for each that `u` is the witness of.
  template <typename Visit>
  void each_section_of(Rank u, Visit visit) const {
    for (std::uint32_t s = first_[u]; s != kNone; s = next_[s]) visit(s);
  }

 private:
  std::vector<Rank> of_;                        ///< by section
  std::vector<std::uint32_t> first_;            ///< by piece: a section that it is the witness of
  std::vector<std::uint32_t> next_, previous_;  ///< by section: others with the same witness
};

}  // namespace stweaver::exact
