// Duration-class sweep: long-lived items first, each class in one pass over time.
#pragma once

#include <optional>
#include <vector>

#include "plan/gap_search.h"
#include "plan/packer.h"

namespace stweaver {

struct Sweep {
  Fit fit = Fit::kFirst;
  bool mirrored = false;  ///< sweep from the end of time to its beginning
};

/// All items in order of birth, or of death from the last to the first when mirrored; the larger first of
/// equals.
using BirthOrder = std::vector<ItemId>;
BirthOrder birth_order(const Instance& instance, bool mirrored);

/// The class of every item; classes are placed in ascending order.
using Classes = std::vector<int>;

/// Classes by duration: floor(log_base(duration)), the longest lifespans first; durations up to `tail` share
/// the last class. base > 1, tail >= 1.
Classes duration_classes(const Instance& instance, double base, Time tail);

/// Classes by duration, cut where `cuts` widest gaps are between the (logarithms of) durations that occur,
/// the longest lifespans first: what a layer keeps for its backward and what lives for a few operations.
Classes gap_classes(const Instance& instance, std::size_t cuts);

/// Places class after class. Within a class one sweep over time keeps the live blocks in address order; items
/// of earlier classes stand as obstacles, those that will be born within an item's lifespan included. Near
/// n log n on training traces. Nothing when the budget ran out. `order` is the instance's birth_order() for
/// options.mirrored: who sweeps often makes it once.
std::optional<Placement> class_sweep(const Instance& instance, const BirthOrder& order,
                                     const Classes& classes, const Sweep& options, const Budget& budget);
std::optional<Placement> class_sweep(const Instance& instance, const Classes& classes, const Sweep& options,
                                     const Budget& budget);

/// The offset of an item that has none yet.
inline constexpr Bytes kNowhere = -1;

/// Places the rest where some items have their offsets in `fixed` and all others kNowhere. Wants a plain
/// instance.
std::optional<Placement> class_sweep_around(const Instance& instance, const Placement& fixed,
                                            const BirthOrder& order, const Classes& classes,
                                            const Sweep& options, const Budget& budget);
std::optional<Placement> class_sweep_around(const Instance& instance, const Placement& fixed,
                                            const Classes& classes, const Budget& budget);

}  // namespace stweaver
