// Skyline: the best-fit decreasing rule of Sekiyama et al. 2018 (arXiv 1804.10001).
#pragma once

#include <optional>

#include "plan/packer.h"

namespace stweaver {

/// By what the next item is chosen among those that fit the lowest segment, the largest first.
enum class SkylineKey : unsigned char { kDuration, kSize, kArea };

/// Raises a skyline over time: takes its lowest segment, puts there the item with the largest key whose
/// lifespan lies inside it, and lifts the segment to its lower neighbour when there is none. Wants a plain
/// instance. About O(n log n).
std::optional<Placement> skyline(const Instance& instance, SkylineKey key, const Budget& budget);

}  // namespace stweaver
