#include "pareto/selection.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "pareto/dominance.h"

namespace stweaver::pareto {
namespace {

using Indices = std::vector<std::size_t>;

/// Objectives count as equal to so many parts of a unit.
constexpr double kPrecision = 1e4;
/// What an axis has in the other components: members that are equal but for those are told apart.
constexpr double kAxisTilt = 1e-6;

/// The indices below `count` that are not in `some`, which rise.
Indices all_but(const Indices& some, std::size_t count) {
  Indices all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  Indices others;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(others));
  return others;
}

/// The front of objectives that are rounded, so that gains of no consequence keep nobody alive.
Indices rounded_front(const Points& objectives) {
  Points rounded = objectives;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    for (double& value : rounded[i]) value = std::round(value * kPrecision);
  }
  return nondominated(rounded);
}

std::vector<double> least(const Points& points) {
  std::vector<double> lower(points[0].begin(), points[0].end());
  for (std::size_t i = 1; i < points.size(); ++i) {
    for (std::size_t k = 0; k < lower.size(); ++k) lower[k] = std::min(lower[k], points[i][k]);
  }
  return lower;
}

std::vector<double> greatest(const Points& points, const Indices& among) {
  std::vector<double> upper(points.dimension(), -std::numeric_limits<double>::infinity());
  for (const std::size_t i : among) {
    for (std::size_t k = 0; k < upper.size(); ++k) upper[k] = std::max(upper[k], points[i][k]);
  }
  return upper;
}

double sum_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

bool is_nowhere_above(std::span<const double> a, std::span<const double> b) {
  return std::ranges::equal(a, b, std::less_equal<>());
}

/// The distance, squared, of `point` - `ideal` to the line along `axis`.
double distance_to_axis(std::span<const double> point, std::span<const double> ideal, std::size_t axis) {
  const double norm = std::sqrt(1 + (static_cast<double>(point.size() - 1) * kAxisTilt * kAxisTilt));
  const auto component = [&](std::size_t k) { return (k == axis ? 1 : kAxisTilt) / norm; };
  double along = 0;
  for (std::size_t k = 0; k < point.size(); ++k) along += (point[k] - ideal[k]) * component(k);
  double sum = 0;
  for (std::size_t k = 0; k < point.size(); ++k) {
    const double beside = point[k] - ideal[k] - (along * component(k));
    sum += beside * beside;
  }
  return sum;
}

template <typename Key>
std::size_t first_least(const Indices& among, Key key) {
  std::size_t best = among.front();
  double lowest = key(best);
  for (const std::size_t i : among) {
    const double value = key(i);
    if (value >= lowest) continue;
    lowest = value;
    best = i;
  }
  return best;
}

/// Adds `i` unless a corner has the same objectives.
void add_corner(const Points& objectives, std::size_t i, Indices& corners) {
  const bool is_known = std::any_of(corners.begin(), corners.end(), [&](std::size_t other) {
    return std::ranges::equal(objectives[other], objectives[i]);
  });
  if (!is_known) corners.push_back(i);
}

/// The members of the front that are nearest to the axes (best in all objectives but one), and those that are
/// best in one objective where they enlarge the box of the former.
Indices corners_of(const Points& objectives, const Indices& front, std::span<const double> ideal,
                   std::optional<double> outlier) {
  const std::size_t count = objectives.dimension();
  Indices nearest;
  for (std::size_t k = 0; k < count; ++k)
    nearest.push_back(
        first_least(front, [&](std::size_t i) { return distance_to_axis(objectives[i], ideal, k); }));
  const std::vector<double> box = greatest(objectives, nearest);
  Indices others;
  std::copy_if(front.begin(), front.end(), std::back_inserter(others),
               [&](std::size_t i) { return std::find(nearest.begin(), nearest.end(), i) == nearest.end(); });
  Indices corners;
  for (const std::size_t i : nearest) add_corner(objectives, i, corners);
  for (std::size_t k = 0; k < count && !others.empty(); ++k) {
    const std::size_t best = first_least(others, [&](std::size_t i) { return objectives[i][k]; });
    const bool is_outlier = outlier && !(sum_of(objectives[best]) < *outlier * sum_of(box));
    if (!is_nowhere_above(objectives[best], box) && !is_outlier) add_corner(objectives, best, corners);
  }
  return corners;
}

/// Appends the `count` of `others` that are nearest to the ideal point.
void add_nearest(const Points& objectives, const Indices& others, std::span<const double> ideal,
                 std::size_t count, Indices& members) {
  std::vector<std::pair<double, std::size_t>> distances;
  for (const std::size_t i : others) {
    double sum = 0;
    for (std::size_t k = 0; k < ideal.size(); ++k) {
      const double difference = objectives[i][k] - ideal[k];
      sum += difference * difference;
    }
    distances.emplace_back(sum, i);
  }
  std::sort(distances.begin(), distances.end());
  for (std::size_t n = 0; n < std::min(count, distances.size()); ++n) members.push_back(distances[n].second);
}

/// The directions of members as seen from the ideal point, in units of the box up to the nadir, and how near
/// each is to those that are chosen. Component by component, so that compilers make vector code of it.
class Directions {
 public:
  Directions(const Points& objectives, const Indices& members, const Box& box)
      : count_(members.size()),
        components_(objectives.dimension() * count_),
        products_(count_),
        nearness_(count_, -std::numeric_limits<double>::infinity()) {
    for (std::size_t n = 0; n < count_; ++n) set(n, objectives[members[n]], box);
  }

  /// From now on nearness is to `chosen`, too.
  void choose(std::size_t chosen) {
    std::fill(products_.begin(), products_.end(), 0.0);
    for (std::size_t begin = 0; begin < components_.size(); begin += count_) {
      const double* component = components_.data() + begin;
      const double own = component[chosen];
      for (std::size_t n = 0; n < count_; ++n) products_[n] += own * component[n];
    }
    for (std::size_t n = 0; n < count_; ++n) nearness_[n] = std::max(nearness_[n], products_[n]);
    nearness_[chosen] = std::numeric_limits<double>::infinity();
  }

  /// The member with the largest angle to the nearest of those that are chosen.
  [[nodiscard]] std::size_t farthest() const {
    return static_cast<std::size_t>(std::min_element(nearness_.begin(), nearness_.end()) - nearness_.begin());
  }

 private:
  void set(std::size_t n, std::span<const double> point, const Box& box) {
    double sum = 0;
    for (std::size_t k = 0; k < point.size(); ++k) {
      const double extent = box.nadir[k] - box.ideal[k];
      const double component = extent > 0 ? (point[k] - box.ideal[k]) / extent : 0;
      components_[(k * count_) + n] = component;
      sum += component * component;
    }
    // The ideal point itself has no direction: it is taken when nothing else is left.
    if (sum == 0) nearness_[n] = 1;
    for (std::size_t k = 0; k < point.size() && sum > 0; ++k) components_[(k * count_) + n] /= std::sqrt(sum);
  }

  std::size_t count_;
  std::vector<double> components_;
  std::vector<double> products_;
  std::vector<double> nearness_;  ///< the cosine of the smallest angle
};

/// The corners, and then again and again the member whose direction is farthest from all so far.
Indices spread(const Points& objectives, const Indices& inside, const Indices& corners, const Box& box,
               std::size_t count) {
  Directions directions(objectives, inside, box);
  Indices members = corners;
  for (const std::size_t corner : corners)
    directions.choose(
        static_cast<std::size_t>(std::find(inside.begin(), inside.end(), corner) - inside.begin()));
  while (members.size() < count) {
    const std::size_t farthest = directions.farthest();
    members.push_back(inside[farthest]);
    directions.choose(farthest);
  }
  return members;
}

}  // namespace

Box box_of(const Points& objectives, const std::vector<std::size_t>& corners) {
  return {least(objectives), greatest(objectives, corners)};
}

Selection select(const Points& objectives, std::size_t count, std::optional<double> outlier) {
  const Indices front = rounded_front(objectives);
  const Indices corners = corners_of(objectives, front, least(objectives), outlier);
  const Box box = box_of(objectives, corners);
  if (front.size() <= count) {
    Indices members = front;
    add_nearest(objectives, all_but(front, objectives.size()), box.ideal, count - front.size(), members);
    return {members, corners};
  }
  Indices inside;
  Indices outside;
  for (const std::size_t i : front)
    (is_nowhere_above(objectives[i], box.nadir) ? inside : outside).push_back(i);
  if (inside.size() > count) return {spread(objectives, inside, corners, box, count), corners};
  add_nearest(objectives, outside, box.ideal, count - inside.size(), inside);
  return {inside, corners};
}

}  // namespace stweaver::pareto
