#include "pareto/dominance.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace stweaver::pareto {
namespace {

bool is_nowhere_above(std::span<const double> a, std::span<const double> b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k] > b[k]) return false;
  }
  return true;
}

/// In lexicographic order no point dominates one before it.
std::vector<std::size_t> lexicographic_order(const Points& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::span<const double> first = points[a];
    const std::span<const double> second = points[b];
    const auto [at, other] = std::mismatch(first.begin(), first.end(), second.begin());
    return at == first.end() ? a < b : *at < *other;
  });
  return order;
}

/// A front that grows in lexicographic order.
struct Front {
  std::vector<std::size_t> members;  ///< who dominated somebody stands before who did not for longer

  /// Whether a member dominates `point`. It moves up: it is likely to dominate the next point, too.
  bool dominates(const Points& points, std::size_t point) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!is_nowhere_above(points[members[i]], points[point])) continue;
      if (std::ranges::equal(points[members[i]], points[point])) return false;  // it is in this front
      std::swap(members[i], members[i / 2]);
      return true;
    }
    return false;
  }
};

}  // namespace

bool dominates(std::span<const double> a, std::span<const double> b) {
  return is_nowhere_above(a, b) && !std::ranges::equal(a, b);
}

std::vector<std::size_t> nondominated(const Points& points) {
  Front front;
  for (const std::size_t point : lexicographic_order(points)) {
    if (!front.dominates(points, point)) front.members.push_back(point);
  }
  std::sort(front.members.begin(), front.members.end());
  return front.members;
}

// Efficient non-dominated sort (Zhang, Tian, Cheng, Jin, IEEE Transactions on Evolutionary Computation 19,
// 2015): each point is compared with the fronts so far only, and many objectives make few fronts.
std::vector<std::size_t> nondominated_fronts(const Points& points) {
  std::vector<std::size_t> fronts(points.size());
  std::vector<Front> found;
  for (const std::size_t point : lexicographic_order(points)) {
    // Who is in a front is dominated by somebody in each front before it.
    const auto front = std::partition_point(found.begin(), found.end(),
                                            [&](Front& other) { return other.dominates(points, point); });
    fronts[point] = static_cast<std::size_t>(front - found.begin());
    if (front == found.end()) {
      found.push_back({{point}});
    } else {
      front->members.push_back(point);
    }
  }
  return fronts;
}

}  // namespace stweaver::pareto
