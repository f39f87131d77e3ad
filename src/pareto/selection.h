// The selection of MaOEA-CS: who of parents and children lives on (report, algorithms 3 to 6).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "pareto/points.h"

namespace stweaver::pareto {

/// Where a front lies.
struct Box {
  std::vector<double> ideal;  ///< the least of each objective
  std::vector<double> nadir;  ///< the most of each objective among the corner solutions
};

struct Selection {
  std::vector<std::size_t> members;  ///< indices of those that live on
  std::vector<std::size_t> corners;  ///< the corner solutions among them
};

Box box_of(const Points& objectives, const std::vector<std::size_t>& corners);

/// Selects `count` of the points, all if there are no more; `count` is twice the objectives at least. Members
/// that are best in one objective enlarge the box; with an `outlier`, only while their sum of objectives is
/// below that many times its nadir's.
Selection select(const Points& objectives, std::size_t count, std::optional<double> outlier);

}  // namespace stweaver::pareto
