// Where the slots of a plan lie, and which parts of its range are going to be used when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/static_plan.h"

namespace stweaver {

/// Immutable; many threads may read it. O(slots * log slots) to build as planned, O(slots * log^2 slots *
/// streams) for longer steps.
class Layout {
 public:
  /// As planned.
  explicit Layout(const Plan& plan);
  /// For longer steps: slots that follow length i are shares[i] times as large (restacked() of
  /// plan/restack.h).
  Layout(const Plan& plan, const std::vector<double>& shares);

  /// How large a request may be that takes the slot's place.
  [[nodiscard]] Bytes size_of(std::size_t slot) const { return sizes_[slot]; }
  /// Empty where the slot has none.
  [[nodiscard]] const Interval& place_of(std::size_t slot) const { return places_[slot]; }
  /// The end of the highest place.
  [[nodiscard]] Bytes arena() const { return arena_; }
  /// Whether a slot of another stream has bytes in common with this one.
  [[nodiscard]] bool hands_over(std::size_t slot) const { return hands_over_[slot]; }

  /// Appends to `ranges` where slots born in (slot, death) lie, ordered by lower end, no two touching; beyond
  /// the last slot the step begins again. `ranges` is cleared first. What is left is the Dynamic Reusable
  /// Space (section 5.3 of the paper) of whatever lives that long: a block put there displaces no planned
  /// one.
  void used_between(std::size_t slot, Time death, std::vector<Interval>& ranges) const;

 private:
  static constexpr std::size_t kLeaf = 32;

  void put(const Plan& plan, const std::vector<Bytes>& offsets);
  void build_tree();
  void find_hand_overs(const Plan& plan);
  void add_slots(std::size_t begin, std::size_t end, std::vector<Interval>& ranges) const;
  void add_nodes(std::size_t begin, std::size_t end, std::vector<Interval>& ranges) const;

  std::vector<Bytes> sizes_;      ///< by slot
  std::vector<Interval> places_;  ///< by slot
  std::size_t prologue_ = 0;
  Bytes arena_ = 0;
  std::vector<bool> hands_over_;
  /// A tree over the slots in order: a leaf holds the ranges of kLeaf slots, a node those of its children,
  /// each merged where they touch.
  std::size_t leaves_ = 1;                    ///< a power of two
  std::vector<std::vector<Interval>> nodes_;  ///< of node i, children 2i and 2i + 1; 1 is the root
};

}  // namespace stweaver
