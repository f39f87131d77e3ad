// Pareto dominance among points, all objectives minimised.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "pareto/points.h"

namespace stweaver::pareto {

/// Whether `a` is nowhere above `b`, and somewhere below.
bool dominates(std::span<const double> a, std::span<const double> b);

/// The indices of the points that no other dominates, in rising order; of equal points all.
std::vector<std::size_t> nondominated(const Points& points);

/// For each point the number of its front: 0 for those that no point dominates, 1 for those that only points
/// of front 0 dominate, and so on.
std::vector<std::size_t> nondominated_fronts(const Points& points);

}  // namespace stweaver::pareto
