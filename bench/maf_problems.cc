#include "maf_problems.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

namespace stweaver {
namespace {

using pareto::Points;
using pareto::Problem;
using pareto::Random;
using In = std::span<const double>;
using Out = std::span<double>;
using Values = std::vector<double>;
using std::numbers::pi;

constexpr double kQuarter = pi / 2;

double square(double value) {
  return value * value;
}

/// f(x_1), .., f(x_M-1), the position variables of M objectives.
template <typename Function>
Values each(In x, std::size_t count, Function function) {
  Values values(count);
  std::transform(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count), values.begin(), function);
  return values;
}

/// The cascade of cosines and sines: a point of the unit sphere.
void sphere(In angles, Out out) {
  cascade(each(angles, angles.size(), [](double t) { return std::cos(t); }),
          each(angles, angles.size(), [](double t) { return std::sin(t); }), out);
}

/// The cascade of x and 1 - x: a point of the unit simplex.
void simplex(In x, Out out) {
  cascade(x, each(x, x.size(), [](double t) { return 1 - t; }), out);
}

void quarter_sphere(In x, Out out) {
  sphere(each(x, out.size() - 1, [](double t) { return t * kQuarter; }), out);
}

In distance_variables(In x, Out f) {
  return x.subspan(f.size() - 1);
}

/// The distance function of the problems that have one optimum, and of those that have many.
double bowl(In distances) {
  double sum = 0;
  for (const double x : distances) sum += square(x - 0.5);
  return sum;
}
double rugged(In distances) {
  auto sum = static_cast<double>(distances.size());
  for (const double x : distances) sum += square(x - 0.5) - std::cos(20 * pi * (x - 0.5));
  return 100 * sum;
}

void maf1(In x, Out f) {
  const double g = bowl(distance_variables(x, f));
  simplex(x.first(f.size() - 1), f);
  for (double& value : f) value = (1 + g) * (1 - value);
}

void maf2(In x, Out f) {
  const In distances = distance_variables(x, f);
  const std::size_t share = distances.size() / f.size();
  sphere(each(x, f.size() - 1, [](double t) { return ((t / 2) + 0.25) * kQuarter; }), f);
  for (std::size_t m = 0; m < f.size(); ++m) {
    const bool is_last = m + 1 == f.size();
    const In own = is_last ? distances.subspan(m * share) : distances.subspan(m * share, share);
    double g = 0;
    for (const double t : own) g += square((t / 2) + 0.25 - 0.5);
    f[m] *= 1 + g;
  }
}

void maf3(In x, Out f) {
  const double g = rugged(distance_variables(x, f));
  quarter_sphere(x, f);
  for (double& value : f) value = square((1 + g) * value);
  for (double& value : f.first(f.size() - 1)) value = square(value);
}

void maf4(In x, Out f) {
  const double g = rugged(distance_variables(x, f));
  quarter_sphere(x, f);
  double scale = 1;
  for (double& value : f) value = (scale *= 2) * (1 + g) * (1 - value);
}

void maf5(In x, Out f) {
  const double g = bowl(distance_variables(x, f));
  quarter_sphere(each(x, f.size() - 1, [](double t) { return std::pow(t, 100); }), f);
  double scale = std::pow(2, f.size() + 1);
  for (double& value : f) value *= (scale /= 2) * (1 + g);
}

void maf6(In x, Out f) {
  const double g = bowl(distance_variables(x, f));
  Values t = each(x, f.size() - 1, [g](double value) { return (1 + (2 * g * value)) / (2 + (2 * g)); });
  t[0] = x[0];
  quarter_sphere(t, f);
  for (double& value : f) value *= 1 + (100 * g);
}

void maf7(In x, Out f) {
  const In distances = distance_variables(x, f);
  double sum = 0;
  for (const double value : distances) sum += value;
  const double g = 1 + (9 * sum / static_cast<double>(distances.size()));
  auto h = static_cast<double>(f.size());
  for (std::size_t m = 0; m + 1 < f.size(); ++m) {
    f[m] = x[m];
    h -= x[m] / (1 + g) * (1 + std::sin(3 * pi * x[m]));
  }
  f.back() = (1 + g) * h;
}

void maf8(In x, Out f, const Points& corners) {
  for (std::size_t m = 0; m < f.size(); ++m) f[m] = std::hypot(x[0] - corners[m][0], x[1] - corners[m][1]);
}

void maf9(In x, Out f, const Points& corners) {
  for (std::size_t m = 0; m < f.size(); ++m) {
    const In from = corners[m];
    const In to = corners[(m + 1) % f.size()];
    const double along_x = to[0] - from[0];
    const double along_y = to[1] - from[1];
    f[m] =
        std::abs((along_x * (x[1] - from[1])) - (along_y * (x[0] - from[0]))) / std::hypot(along_x, along_y);
  }
}

/// Where the line through a and b meets the one through c and d.
std::pair<double, double> intersection(In a, In b, In c, In d) {
  const double dx = b[0] - a[0];
  const double dy = b[1] - a[1];
  const double ex = d[0] - c[0];
  const double ey = d[1] - c[1];
  const double t = (((c[0] - a[0]) * ey) - ((c[1] - a[1]) * ex)) / ((dx * ey) - (dy * ex));
  return {a[0] + (t * dx), a[1] + (t * dy)};
}

/// The polygons outside of the main one in which points of MaF9 would be optimal, too.
std::vector<Points> forbidden_polygons(const Points& corners) {
  const std::size_t count = corners.size();
  std::vector<Points> polygons;
  for (std::size_t k = 1; k + 2 <= (count + 1) / 2; ++k) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto [x, y] = intersection(corners[(i + count - 1) % count], corners[i], corners[(i + k) % count],
                                       corners[(i + k + 1) % count]);
      Points polygon(2);
      for (std::size_t j = i; j <= i + k; ++j) polygon.add(corners[j % count]);
      for (std::size_t j = i; j <= i + k; ++j)
        polygon.add(Values{(2 * x) - corners[j % count][0], (2 * y) - corners[j % count][1]});
      polygons.push_back(std::move(polygon));
    }
  }
  return polygons;
}

/// Draws a point anew while it lies in a forbidden polygon.
void leave(Out x, const Points& corners, const std::vector<Points>& forbidden, double bound, Random& random) {
  const auto is_forbidden = [&] {
    return !is_in_polygon(x[0], x[1], corners) &&
           std::any_of(forbidden.begin(), forbidden.end(),
                       [&](const Points& p) { return is_in_polygon(x[0], x[1], p); });
  };
  while (is_forbidden()) {
    for (double& value : x) value = bound * ((2 * random.uniform()) - 1);
  }
}

// MaF10 to MaF12 are WFG1, WFG2 and WFG9 (Huband, Hingston, Barone, While 2006).

/// Variables in [0, 1].
Values unit_variables(In x) {
  Values z(x.begin(), x.end());
  for (std::size_t i = 0; i < z.size(); ++i) z[i] /= 2 * static_cast<double>(i + 1);
  return z;
}

double shift_linear(double y, double a) {
  return std::abs(y - a) / std::abs(std::floor(a - y) + a);
}

double flat_region(double y, double a, double b, double c) {
  const double value = a + (std::min(0.0, std::floor(y - b)) * a * (b - y) / b) -
                       (std::min(0.0, std::floor(c - y)) * (1 - a) * (y - c) / (1 - c));
  return std::round(value * 1e6) / 1e6;  // rounding errors below 0 would have no power
}

/// What all three do with M reduced values: w, and the scale of the shape.
template <typename Shape>
void finish_wfg(Values t, Out f, Shape shape) {
  const double last = t.back();
  t.pop_back();
  for (double& value : t) value = (std::max(last, 1.0) * (value - 0.5)) + 0.5;
  shape(t, f);
  for (std::size_t m = 0; m < f.size(); ++m) f[m] = last + (2 * static_cast<double>(m + 1) * f[m]);
}

void convex(In w, Out out) {
  cascade(each(w, w.size(), [](double t) { return 1 - std::cos(t * kQuarter); }),
          each(w, w.size(), [](double t) { return 1 - std::sin(t * kQuarter); }), out);
}

void concave(In w, Out out) {
  cascade(each(w, w.size(), [](double t) { return std::sin(t * kQuarter); }),
          each(w, w.size(), [](double t) { return std::cos(t * kQuarter); }), out);
}

void maf10(In x, Out f) {
  const std::size_t k = f.size() - 1;
  Values y = unit_variables(x);
  for (std::size_t i = k; i < y.size(); ++i) y[i] = flat_region(shift_linear(y[i], 0.35), 0.8, 0.75, 0.85);
  for (double& value : y) value = std::pow(value, 0.02);
  double sum = 0;
  double weights = 0;
  for (std::size_t i = k; i < y.size(); ++i) {
    const double weight = 2 * static_cast<double>(i + 1);
    sum += weight * y[i];
    weights += weight;
  }
  y.resize(k);
  y.push_back(sum / weights);
  finish_wfg(std::move(y), f, [](In w, Out out) {
    convex(w, out);
    out.back() = 1 - w[0] - (std::cos((10 * pi * w[0]) + kQuarter) / (10 * pi));
  });
}

void maf11(In x, Out f) {
  const std::size_t k = f.size() - 1;
  Values y = unit_variables(x);
  for (std::size_t i = k; i < y.size(); ++i) y[i] = shift_linear(y[i], 0.35);
  double sum = 0;
  for (std::size_t i = k; i + 1 < y.size(); i += 2)
    sum += (y[i] + y[i + 1] + (2 * std::abs(y[i] - y[i + 1]))) / 3;
  const double mean = sum / (static_cast<double>(y.size() - k) / 2);
  y.resize(k);
  y.push_back(mean);
  finish_wfg(std::move(y), f, [](In w, Out out) {
    convex(w, out);
    out.back() = 1 - (w[0] * square(std::cos(5 * pi * w[0])));
  });
}

double biased(double z, double mean_of_rest) {
  const double v = 0.98 / 49.98;
  return std::pow(
      z, 0.02 + (49.98 * (v - ((1 - (2 * mean_of_rest)) * std::abs(std::floor(0.5 - mean_of_rest) + v)))));
}

double deceptive(double y) {
  const double a = 0.35;
  const double b = 0.001;
  const double c = 0.05;
  return 1 + ((std::abs(y - a) - b) *
              ((std::floor(y - a + b) * (1 - c + ((a - b) / b)) / (a - b)) +
               (std::floor(a + b - y) * (1 - c + ((1 - a - b) / b)) / (1 - a - b)) + (1 / b)));
}

double multimodal(double y) {
  const double r = std::abs(y - 0.35) / 2 / (std::floor(0.35 - y) + 0.35);
  return (1 + std::cos(122 * pi * (0.5 - r)) + (380 * square(r))) / 97;
}

void maf12(In x, Out f) {
  const std::size_t k = f.size() - 1;
  const std::size_t distances = x.size() - k;
  Values y = unit_variables(x);
  double sum_of_rest = 0;
  for (std::size_t i = y.size(); i-- > 0;) {
    const double z = y[i];
    if (i + 1 < y.size()) y[i] = biased(z, sum_of_rest / static_cast<double>(y.size() - 1 - i));
    sum_of_rest += z;
  }
  for (std::size_t i = 0; i < k; ++i) y[i] = deceptive(y[i]);
  for (std::size_t i = k; i < y.size(); ++i) y[i] = multimodal(y[i]);
  double sum = 0;
  for (std::size_t i = k; i < y.size(); ++i) {
    sum += y[i];
    for (std::size_t j = i + 1; j < y.size(); ++j) sum += 2 * std::abs(y[i] - y[j]);
  }
  const std::size_t half = (distances + 1) / 2;
  y.resize(k);
  y.push_back(sum / static_cast<double>(half * (1 + (2 * distances) - (2 * half))));
  finish_wfg(std::move(y), f, concave);
}

void maf13(In x, Out f) {
  const auto count = static_cast<double>(x.size());
  // Of the variables from the third on, by their number modulo 3; and of those from the fourth on.
  std::array<double, 3> sums = {};
  std::array<double, 3> counts = {};
  double rest = 0;
  for (std::size_t i = 2; i < x.size(); ++i) {
    const auto j = static_cast<double>(i + 1);
    const double y = square(x[i] - (2 * x[1] * std::sin((2 * pi * x[0]) + (j * pi / count))));
    sums[(i + 1) % 3] += y;
    ++counts[(i + 1) % 3];
    if (i >= 3) rest += y;
  }
  const auto mean = [&](std::size_t group) { return sums[group] / counts[group]; };
  f[0] = std::sin(x[0] * kQuarter) + (2 * mean(1));
  f[1] = std::cos(x[0] * kQuarter) * std::sin(x[1] * kQuarter) + (2 * mean(2));
  f[2] = std::cos(x[0] * kQuarter) * std::cos(x[1] * kQuarter) + (2 * mean(0));
  const double other = square(f[0]) + std::pow(f[1], 10) + std::pow(f[2], 10) + (2 * rest / (count - 3));
  for (double& value : f.subspan(3)) value = other;
}

double rastrigin(In y) {
  double sum = 0;
  for (const double t : y) sum += square(t) - (10 * std::cos(2 * pi * t)) + 10;
  return sum;
}
double rosenbrock(In y) {
  double sum = 0;
  for (std::size_t j = 0; j + 1 < y.size(); ++j)
    sum += (100 * square(square(y[j]) - y[j + 1])) + square(y[j] - 1);
  return sum;
}
double griewank(In y) {
  double sum = 0;
  double product = 1;
  for (std::size_t j = 0; j < y.size(); ++j) {
    sum += square(y[j]) / 4000;
    product *= std::cos(y[j] / std::sqrt(static_cast<double>(j + 1)));
  }
  return sum - product + 1;
}
double square_sum(In y) {
  double sum = 0;
  for (const double t : y) sum += square(t);
  return sum;
}

/// The means over each objective's variables, two sub-groups each, of functions that take turns.
template <typename Odd, typename Even>
Values group_means(In y, const std::vector<std::size_t>& sizes, Odd odd, Even even) {
  Values means;
  std::size_t begin = 0;
  for (std::size_t m = 0; m < sizes.size(); ++m) {
    const std::size_t size = sizes[m];
    const In first = y.subspan(begin, size);
    const In second = y.subspan(begin + size, size);
    const double sum = m % 2 == 0 ? odd(first) + odd(second) : even(first) + even(second);
    means.push_back(sum / static_cast<double>(2 * size));
    begin += 2 * size;
  }
  return means;
}

/// Distance variables less what the first position variable shifts them by, in rising scales.
template <typename Scale>
Values linked(In x, std::size_t objectives, Scale scale) {
  Values y;
  for (std::size_t i = objectives - 1; i < x.size(); ++i)
    y.push_back((scale(static_cast<double>(i + 1) / static_cast<double>(x.size())) * x[i]) - (10 * x[0]));
  return y;
}

void maf14(In x, Out f, const std::vector<std::size_t>& sizes) {
  const Values y = linked(x, f.size(), [](double share) { return 1 + share; });
  const Values g = group_means(y, sizes, rastrigin, rosenbrock);
  simplex(x.first(f.size() - 1), f);
  for (std::size_t m = 0; m < f.size(); ++m) f[m] *= 1 + g[m];
}

void maf15(In x, Out f, const std::vector<std::size_t>& sizes) {
  const Values y = linked(x, f.size(), [](double share) { return 1 + std::cos(kQuarter * share); });
  Values g = group_means(y, sizes, griewank, square_sum);
  g.push_back(0);
  quarter_sphere(x, f);
  for (std::size_t m = 0; m < f.size(); ++m) f[m] = (1 + g[m] + g[m + 1]) * (1 - f[m]);
}

using Objectives = std::function<void(In, Out)>;

Problem unconstrained(int objectives, std::vector<pareto::Variable> variables, Objectives function) {
  return {.variables = std::move(variables),
          .objectives = objectives,
          .evaluate = [function = std::move(function)](In x, Out f) {
            function(x, f);
            return 0.0;
          }};
}

std::vector<pareto::Variable> box(std::size_t count, double lower, double upper) {
  return std::vector<pareto::Variable>(count, pareto::real_variable(lower, upper));
}

Problem unit_problem(int objectives, std::size_t distances, Objectives function) {
  return unconstrained(objectives, box(static_cast<std::size_t>(objectives) + distances - 1, 0, 1),
                       std::move(function));
}

Problem wfg_problem(int objectives, Objectives function) {
  constexpr std::size_t kDistances = 10;
  Problem problem = unit_problem(objectives, kDistances, std::move(function));
  for (std::size_t i = 0; i < problem.variables.size(); ++i)
    problem.variables[i].upper = 2 * static_cast<double>(i + 1);
  return problem;
}

Problem plane_problem(int number, int objectives) {
  constexpr double kBound = 10000;
  const Points corners = maf_polygon(objectives);
  if (number == 8)
    return unconstrained(objectives, box(2, -kBound, kBound),
                         [corners](In x, Out f) { maf8(x, f, corners); });
  Problem problem =
      unconstrained(objectives, box(2, -kBound, kBound), [corners](In x, Out f) { maf9(x, f, corners); });
  problem.repair = [corners, forbidden = forbidden_polygons(corners)](Out x, Random& random) {
    leave(x, corners, forbidden, kBound, random);
  };
  return problem;
}

Problem large_problem(int number, int objectives) {
  const std::vector<std::size_t> sizes = maf_groups(objectives);
  std::vector<pareto::Variable> variables = box(static_cast<std::size_t>(objectives) - 1, 0, 1);
  for (const std::size_t size : sizes)
    variables.insert(variables.end(), 2 * size, pareto::real_variable(0, 10));
  const auto function = number == 14 ? maf14 : maf15;
  return unconstrained(objectives, std::move(variables),
                       [function, sizes](In x, Out f) { function(x, f, sizes); });
}

}  // namespace

void cascade(std::span<const double> a, std::span<const double> b, std::span<double> out) {
  double product = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    out[out.size() - 1 - i] = product * b[i];
    product *= a[i];
  }
  out[0] = product;
}

std::vector<std::size_t> maf_groups(int objectives) {
  // Shares from a chaotic map.
  Values chaos;
  double sum = 0;
  for (double c = 3.8 * 0.1 * 0.9; chaos.size() < static_cast<std::size_t>(objectives);
       c = 3.8 * c * (1 - c)) {
    chaos.push_back(c);
    sum += c;
  }
  std::vector<std::size_t> sizes;
  for (const double c : chaos)
    sizes.push_back(static_cast<std::size_t>(std::ceil(std::round(20 * objectives * c / sum) / 2)));
  return sizes;
}

Points maf_polygon(int corners) {
  Points polygon(2);
  for (int m = 1; m <= corners; ++m) {
    const double angle = (pi / 2) - (2 * pi * m / corners);
    polygon.add(Values{std::cos(angle), std::sin(angle)});
  }
  return polygon;
}

bool is_in_polygon(double x, double y, const Points& polygon) {
  constexpr double kRounding = 1e-12;
  bool is_inside = false;
  for (std::size_t i = 0; i < polygon.size(); ++i) {
    const In a = polygon[i];
    const In b = polygon[(i + 1) % polygon.size()];
    const double cross = ((b[0] - a[0]) * (y - a[1])) - ((b[1] - a[1]) * (x - a[0]));
    const bool is_between = ((x - a[0]) * (x - b[0])) + ((y - a[1]) * (y - b[1])) <= 0;
    if (is_between && std::abs(cross) <= kRounding) return true;
    // A ray to the right crosses the sides that go up to the left of it, or down to the right.
    if ((a[1] <= y) != (b[1] <= y) && (cross > 0) == (b[1] > a[1])) is_inside = !is_inside;
  }
  return is_inside;
}

Problem maf_problem(int number, int objectives) {
  constexpr std::size_t kDistances = 10;
  constexpr std::size_t kManyDistances = 20;
  constexpr int kMostObjectives = 1000;
  if (objectives < kFewestMafObjectives || objectives > kMostObjectives)
    fail("MaF problems have ", kFewestMafObjectives, " to ", kMostObjectives, " objectives, not ",
         objectives);
  constexpr std::array kOfUnit = {maf1, maf2, maf3, maf4, maf5, maf6, maf7};
  constexpr std::array kOfWfg = {maf10, maf11, maf12};
  const auto at = [number](const auto& functions, int first) {
    return functions[static_cast<std::size_t>(number - first)];
  };
  if (number >= 1 && number <= 7)
    return unit_problem(objectives, number == 7 ? kManyDistances : kDistances, at(kOfUnit, 1));
  if (number >= 10 && number <= 12) return wfg_problem(objectives, at(kOfWfg, 10));
  switch (number) {
    case 8:
    case 9:
      return plane_problem(number, objectives);
    case 13: {
      std::vector<pareto::Variable> variables = box(5, -2, 2);
      variables[0] = variables[1] = pareto::real_variable(0, 1);
      return unconstrained(objectives, std::move(variables), maf13);
    }
    case 14:
    case 15:
      return large_problem(number, objectives);
    default:
      fail("there is no MaF", number, ": choose MaF1 to MaF", kMafProblems);
  }
}

std::int64_t maf_evaluations(const Problem& problem) {
  return std::max<std::int64_t>(100'000, 10'000 * static_cast<std::int64_t>(problem.variables.size()));
}

}  // namespace stweaver
