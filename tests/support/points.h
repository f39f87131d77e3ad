// Points written as rows, for tests of the search.
#pragma once

#include <vector>

#include "pareto/points.h"

namespace stweaver::pareto {

inline Points points_of(const std::vector<std::vector<double>>& rows) {
  Points points(rows.front().size());
  for (const std::vector<double>& row : rows) points.add(row);
  return points;
}

}  // namespace stweaver::pareto
