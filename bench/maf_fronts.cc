#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "maf_problems.h"

namespace stweaver {
namespace {

using pareto::Points;
using In = std::span<const double>;
using Values = std::vector<double>;
using std::numbers::pi;

constexpr std::size_t kPoints = 10000;

double square(double value) {
  return value * value;
}

/// n choose k, or above `most` if it is.
std::size_t choose(std::size_t n, std::size_t k, std::size_t most) {
  double value = 1;
  for (std::size_t i = 1; i <= k && value <= static_cast<double>(most); ++i)
    value = value * static_cast<double>(n - k + i) / static_cast<double>(i);
  return value > static_cast<double>(most) ? most + 1 : static_cast<std::size_t>(std::llround(value));
}

std::size_t lattice_size(std::size_t parts, std::size_t dimension, std::size_t most) {
  return choose(parts + dimension - 1, dimension - 1, most);
}

/// The most parts that a unit may have for a lattice of no more than `most` points.
std::size_t parts_for(std::size_t dimension, std::size_t most) {
  std::size_t parts = 0;
  while (lattice_size(parts + 1, dimension, most) <= most) ++parts;
  return parts;
}

/// All ways to deal out `left` parts to the components from `component` on.
void add_lattice(std::size_t left, std::size_t component, Values& parts, Points& points) {
  if (component + 1 == parts.size()) {
    parts.back() = static_cast<double>(left);
    points.add(parts);
    return;
  }
  for (std::size_t part = 0; part <= left; ++part) {
    parts[component] = static_cast<double>(part);
    add_lattice(left - part, component + 1, parts, points);
  }
}

Points lattice(std::size_t parts, std::size_t dimension) {
  Points points(dimension);
  Values point(dimension);
  add_lattice(parts, 0, point, points);
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (double& value : points[i]) value /= static_cast<double>(parts);
  }
  return points;
}

/// Das and Dennis's points of the unit simplex in two layers, kept off its faces by 1e-6.
Points simplex_points(std::size_t dimension) {
  constexpr double kOffFaces = 1e-6;
  const std::size_t outer = parts_for(dimension, kPoints);
  Points points = lattice(outer, dimension);
  const std::size_t inner = outer < dimension ? parts_for(dimension, kPoints - points.size()) : 0;
  if (inner > 0) {
    Points within = lattice(inner, dimension);
    for (std::size_t i = 0; i < within.size(); ++i) {
      for (double& value : within[i]) value = (value / 2) + (1 / (2 * static_cast<double>(dimension)));
      points.add(within[i]);
    }
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (double& value : points[i]) value = std::max(value, kOffFaces);
  }
  return points;
}

void normalize(std::span<double> point) {
  double sum = 0;
  for (const double value : point) sum += square(value);
  for (double& value : point) value /= std::sqrt(sum);
}

Points sphere_points(std::size_t dimension) {
  Points points = simplex_points(dimension);
  for (std::size_t i = 0; i < points.size(); ++i) normalize(points[i]);
  return points;
}

/// A point of a grid of k^d points in the unit cube, k as small as makes kPoints of them.
Points grid(std::size_t dimension) {
  const auto size_of = [&](std::size_t side) {
    std::size_t size = 1;
    for (std::size_t k = 0; k < dimension; ++k) size *= side;
    return size;
  };
  std::size_t side = 2;
  while (size_of(side) < kPoints) ++side;
  const std::size_t size = size_of(side);
  if (dimension > 20) fail("a grid of ", dimension, " dimensions is too large: ask for fewer objectives");
  Points points(dimension);
  points.resize(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::size_t rest = i;
    for (double& value : points[i]) {
      value = static_cast<double>(rest % side) / static_cast<double>(side - 1);
      rest /= side;
    }
  }
  return points;
}

/// Each point changed in place.
template <typename Function>
Points changed(Points points, Function function) {
  for (std::size_t i = 0; i < points.size(); ++i) function(points[i]);
  return points;
}

/// Each point as another, perhaps of another dimension; none where the function gives none.
template <typename Function>
Points mapped(const Points& points, std::size_t dimension, Function function) {
  Points out(dimension);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Values point = function(In(points[i]));
    if (!point.empty()) out.add(point);
  }
  return out;
}

/// The position of a point whose objectives are in the ratios of `p`: solves for one position variable after
/// the other, from the last, with `solve` of the ratio and `factor` of a solution.
template <typename Solve, typename Factor>
Values positions(In p, Solve solve, Factor factor) {
  const std::size_t count = p.size() - 1;
  Values c(count);
  double product = 1;
  for (std::size_t j = 1; j <= count; ++j) {
    const std::size_t i = count - j;
    c[i] = solve(p[j] / p[0] * product);
    product *= factor(c[i]);
  }
  return c;
}

Points front2(std::size_t m) {
  const double least = std::cos(3 * pi / 8);
  const double most = std::cos(pi / 8);
  return mapped(simplex_points(m), m, [&](In p) {
    Values c = positions(
        p, [](double t) { return 1 / std::sqrt(1 + square(t)); }, [](double cosine) { return cosine; });
    if (m > 5) {
      for (double& value : c) value = (value * (most - least)) + least;
    } else if (std::any_of(c.begin(), c.end(), [&](double value) { return value < least || value > most; })) {
      return Values();
    }
    Values sines;
    for (const double value : c) sines.push_back(std::sqrt(1 - square(value)));
    Values h(m);
    cascade(c, sines, h);
    return h;
  });
}

Points front3(std::size_t m) {
  return changed(simplex_points(m), [](std::span<double> p) {
    double sum = square(p.back());
    for (const double value : p.first(p.size() - 1)) sum += value;
    for (double& value : p.first(p.size() - 1)) value = square(value / sum);
    p.back() = square(p.back()) / sum;
  });
}

Points front6(std::size_t m) {
  return mapped(sphere_points(2), m, [m](In p) {
    Values h(m, p[0]);
    h.back() = p[1];
    for (std::size_t k = 0; k < m; ++k) h[k] /= std::pow(std::numbers::sqrt2, std::min(m - 2, m - 1 - k));
    return h;
  });
}

/// Where the front of MaF7 lies, along each axis.
double in_pieces(double x) {
  constexpr double kFirstEnd = 0.251412;
  constexpr double kSecondBegin = 0.631627;
  constexpr double kSecondEnd = 0.859401;
  const double second = kSecondEnd - kSecondBegin;
  const double share = kFirstEnd / (kFirstEnd + second);
  return x <= share ? x * kFirstEnd / share : kSecondBegin + ((x - share) * second / (1 - share));
}

Points front7(std::size_t m) {
  return mapped(grid(m - 1), m, [m](In p) {
    Values h;
    double sum = 0;
    for (const double value : p) {
      h.push_back(in_pieces(value));
      sum += h.back() / 2 * (1 + std::sin(3 * pi * h.back()));
    }
    h.push_back(2 * (static_cast<double>(m) - sum));
    return h;
  });
}

/// A grid over the polygon, evaluated.
Points plane_front(int number, int m) {
  constexpr int kSide = 100;
  const pareto::Problem problem = maf_problem(number, m);
  const Points polygon = maf_polygon(m);
  Points points(static_cast<std::size_t>(m));
  Values f(static_cast<std::size_t>(m));
  for (int i = 0; i < kSide; ++i) {
    for (int j = 0; j < kSide; ++j) {
      const Values x = {(2.0 * i / (kSide - 1)) - 1, (2.0 * j / (kSide - 1)) - 1};
      if (!is_in_polygon(x[0], x[1], polygon)) continue;
      problem.evaluate(x, f);
      points.add(f);
    }
  }
  return points;
}

/// Objectives of WFG1 and WFG2 for `angle_cosines`: convex, but for the last, which is `last`.
Values convex(In c, double last) {
  Values flat;
  Values steep;
  for (const double value : c) {
    flat.push_back(1 - value);
    steep.push_back(1 - std::sqrt(1 - square(value)));
  }
  Values h(c.size() + 1);
  cascade(flat, steep, h);
  h.back() = last;
  for (std::size_t k = 0; k < h.size(); ++k) h[k] *= 2 * static_cast<double>(k + 1);
  return h;
}

Points front10(std::size_t m) {
  return mapped(simplex_points(m), m, [](In p) {
    const Values c = positions(
        p, [](double t) { return (square(t) - t + std::sqrt(2 * t)) / (square(t) + 1); },
        [](double cosine) { return 1 - cosine; });
    const double w = std::acos(c[0]) * 2 / pi;
    return convex(c, 1 - w - (std::cos((10 * pi * w) + (pi / 2)) / (10 * pi)));
  });
}

Points front11(std::size_t m) {
  const Points all = mapped(grid(m - 1), m, [](In p) {
    Values w(p.begin(), p.end());
    w[0] = std::sqrt(w[0]);
    Values c;
    for (const double value : w) c.push_back(std::cos(value * pi / 2));
    return convex(c, 1 - (w[0] * square(std::cos(5 * pi * w[0]))));
  });
  Points front(m);
  for (const std::size_t i : pareto::nondominated(all)) front.add(all[i]);
  return front;
}

Points front13(std::size_t m) {
  return mapped(sphere_points(3), m, [m](In q) {
    Values h(m, square(q[0]) + std::pow(q[1], 10) + std::pow(q[2], 10));
    std::copy(q.begin(), q.end(), h.begin());
    return h;
  });
}

/// 1 - p, scaled by powers of 2 for MaF4.
Points inverted(const Points& points, double base) {
  return changed(points, [base](std::span<double> p) {
    double scale = 1;
    for (double& value : p) value = (scale *= base) * (1 - value);
  });
}

Points scaled(const Points& points, const std::function<double(std::size_t)>& scale) {
  return changed(points, [&](std::span<double> p) {
    for (std::size_t k = 0; k < p.size(); ++k) p[k] *= scale(k);
  });
}

}  // namespace

Points maf_front(int number, int objectives) {
  maf_problem(number, objectives);  // refuses what is none
  const auto m = static_cast<std::size_t>(objectives);
  switch (number) {
    case 1:
      return inverted(simplex_points(m), 1);
    case 2:
      return front2(m);
    case 3:
      return front3(m);
    case 4:
      return inverted(sphere_points(m), 2);
    case 5:
      return scaled(sphere_points(m), [m](std::size_t k) { return std::pow(2, m - k); });
    case 6:
      return front6(m);
    case 7:
      return front7(m);
    case 8:
    case 9:
      return plane_front(number, objectives);
    case 10:
      return front10(m);
    case 11:
      return front11(m);
    case 12:
      return scaled(sphere_points(m), [](std::size_t k) { return 2 * static_cast<double>(k + 1); });
    case 13:
      return front13(m);
    case 14:
      return simplex_points(m);
    default:
      return inverted(sphere_points(m), 1);
  }
}

}  // namespace stweaver
