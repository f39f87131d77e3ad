#include "pareto/indicators.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "pareto/dominance.h"
#include "pareto/random.h"

namespace stweaver::pareto {
namespace {

double squared_distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return sum;
}

bool is_below(std::span<const double> a, std::span<const double> b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k] >= b[k]) return false;
  }
  return true;
}

double box_volume(std::span<const double> corner, std::span<const double> reference) {
  double volume = 1;
  for (std::size_t k = 0; k < corner.size(); ++k) volume *= reference[k] - corner[k];
  return volume;
}

/// What bounds a volume: points below the reference that do not dominate each other, in rising order of the
/// last objective.
Points bounding(const Points& points, std::span<const double> reference) {
  if (points.size() > 0 && points.dimension() != reference.size())
    fail("points of ", points.dimension(), " objectives and a reference of ", reference.size(),
         ": give as many");
  Points inside(points.dimension());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (is_below(points[i], reference)) inside.add(points[i]);
  }
  std::vector<std::size_t> front(inside.size());
  std::iota(front.begin(), front.end(), std::size_t{0});
  if (reference.size() > 2) front = nondominated(inside);  // area() sees for itself
  std::sort(front.begin(), front.end(), [&](std::size_t a, std::size_t b) {
    const double last_a = inside[a].back();
    const double last_b = inside[b].back();
    return last_a != last_b ? last_a < last_b : a < b;
  });
  Points sorted(points.dimension());
  for (const std::size_t i : front) sorted.add(inside[i]);
  return sorted;
}

/// In two objectives: the strips between one point and the next.
double area(const Points& sorted, std::span<const double> reference) {
  double sum = 0;
  double width = reference[0];
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double x = sorted[i][0];
    if (x >= width) continue;
    sum += (width - x) * (reference[1] - sorted[i][1]);
    width = x;
  }
  return sum;
}

/// Points in rising order of their last objective: each adds its box less what those before it have of the
/// box. That all of these have in the last objective, so that the rest is a volume of one dimension less.
double volume(const Points& sorted, std::span<const double> reference) {
  if (sorted.size() == 0) return 0;
  if (reference.size() == 1) return reference[0] - sorted[0][0];
  if (reference.size() == 2) return area(sorted, reference);
  const std::size_t last = reference.size() - 1;
  const std::span<const double> rest = reference.first(last);
  double sum = 0;
  std::vector<double> worse(last);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const std::span<const double> corner = sorted[i].first(last);
    Points limited(last);
    for (std::size_t j = 0; j < i; ++j) {
      for (std::size_t k = 0; k < last; ++k) worse[k] = std::max(corner[k], sorted[j][k]);
      limited.add(worse);
    }
    sum += (reference[last] - sorted[i][last]) *
           (box_volume(corner, rest) - volume(bounding(limited, rest), rest));
  }
  return sum;
}

}  // namespace

double inverted_generational_distance(const Points& front, const Points& found) {
  if (front.size() == 0 || found.size() == 0) fail("a distance between fronts needs points in both of them");
  if (front.dimension() != found.dimension())
    fail("fronts of ", front.dimension(), " and ", found.dimension(),
         " objectives: give fronts of one problem");
  double sum = 0;
  for (std::size_t i = 0; i < front.size(); ++i) {
    double nearest = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < found.size(); ++j)
      nearest = std::min(nearest, squared_distance(front[i], found[j]));
    sum += std::sqrt(nearest);
  }
  return sum / static_cast<double>(front.size());
}

double hypervolume(const Points& points, std::span<const double> reference) {
  return volume(bounding(points, reference), reference);
}

double estimate_hypervolume(const Points& points, std::span<const double> reference, std::int64_t samples,
                            std::uint64_t seed) {
  const Points front = bounding(points, reference);
  if (front.size() == 0) return 0;
  if (samples < 1) fail("a hypervolume from ", samples, " samples: take 1 at least");
  std::vector<double> lower(front[0].begin(), front[0].end());
  for (std::size_t i = 1; i < front.size(); ++i) {
    for (std::size_t k = 0; k < lower.size(); ++k) lower[k] = std::min(lower[k], front[i][k]);
  }
  Random random(seed);
  std::vector<double> sample(lower.size());
  std::int64_t inside = 0;
  for (std::int64_t n = 0; n < samples; ++n) {
    for (std::size_t k = 0; k < lower.size(); ++k)
      sample[k] = lower[k] + (random.uniform() * (reference[k] - lower[k]));
    bool is_inside = false;
    for (std::size_t i = 0; i < front.size() && !is_inside; ++i) is_inside = is_below(front[i], sample);
    if (is_inside) ++inside;
  }
  return box_volume(lower, reference) * static_cast<double>(inside) / static_cast<double>(samples);
}

}  // namespace stweaver::pareto
