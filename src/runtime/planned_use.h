// Which parts of the arena the plan is going to use between two of its slots.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/static_plan.h"

namespace stweaver {

/// What is left is the Dynamic Reusable Space (section 5.3 of the paper) of whatever lives that long: a block
/// put there displaces no planned one.
///
/// A tree over the slots in order: a leaf holds the ranges of kLeaf slots, a node those of its children, each
/// merged where they touch. O(slots * log slots) to build.
class PlannedUse {
 public:
  explicit PlannedUse(const Plan& plan);

  /// Appends to `ranges` where slots born in (slot, death) lie, ordered by lower end, no two touching; beyond
  /// the last slot the step begins again. `ranges` is cleared first.
  void between(std::size_t slot, Time death, std::vector<Interval>& ranges) const;

 private:
  static constexpr std::size_t kLeaf = 32;

  void add_slots(std::size_t begin, std::size_t end, std::vector<Interval>& ranges) const;
  void add_nodes(std::size_t begin, std::size_t end, std::vector<Interval>& ranges) const;

  const Plan* plan_;
  std::size_t leaves_ = 1;                    ///< a power of two
  std::vector<std::vector<Interval>> nodes_;  ///< of node i, children 2i and 2i + 1; 1 is the root
};

}  // namespace stweaver
