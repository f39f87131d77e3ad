// Offline best fit: items in a fixed order, each into the best gap among what already stands.
#pragma once

#include <optional>
#include <vector>

#include "plan/gap_search.h"
#include "plan/packer.h"

namespace stweaver {

/// The usual orders, each descending. Sources: kSize is TFLite's greedy-by-size (Pisarchyk and Lee 2020),
/// kBreadth its greedy-by-breadth, kDuration and kArea are XLA's kTemporal and kSpatial
/// (GlobalDecreasingSizeBestFitHeap).
enum class Order : unsigned char { kSize, kArea, kDuration, kBreadth };

/// Places the items in the given order. O(sum over items of placed items alive with them). Wants a plain
/// instance.
std::optional<Placement> place_in_order(const Instance& instance, const std::vector<ItemId>& order, Fit fit,
                                        const Budget& budget);

/// place_in_order with one of the usual orders.
std::optional<Placement> best_fit(const Instance& instance, Order order, Fit fit, const Budget& budget);

}  // namespace stweaver
