#include "pareto/operators.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace stweaver::pareto {
namespace {

constexpr double kEta = 20;

double range_of(const Variable& variable) {
  return variable.upper - variable.lower;
}

double confined(double value, const Variable& variable) {
  if (variable.kind != Kind::kReal) value = std::round(value);
  return std::clamp(value, variable.lower, variable.upper);
}

double drawn(const Variable& variable, Random& random) {
  if (variable.kind == Kind::kReal) return variable.lower + (random.uniform() * range_of(variable));
  return std::min(variable.lower + std::floor(random.uniform() * (range_of(variable) + 1)), variable.upper);
}

/// A category other than `value`.
double another(double value, const Variable& variable, Random& random) {
  if (range_of(variable) == 0) return value;
  const double other =
      std::min(variable.lower + std::floor(random.uniform() * range_of(variable)), variable.upper - 1);
  return other >= value ? other + 1 : other;
}

/// What a variable becomes that a mutation moves from `before` to `after`.
double moved(double before, double after, const Variable& variable) {
  const double value = confined(after, variable);
  if (variable.kind == Kind::kReal || value != before || range_of(variable) == 0) return value;
  // Half of the steps that a bound stops go the other way.
  const double step = after > before ? 1 : -1;
  const double next = before + step;
  return next > variable.upper || next < variable.lower ? before - step : next;
}

double polynomial(double value, const Variable& variable, Random& random) {
  const double width = range_of(variable);
  const double u = random.uniform();
  if (u <= 0.5) {
    const double room = 1 - ((value - variable.lower) / width);
    return value +
           (width * (std::pow((2 * u) + ((1 - (2 * u)) * std::pow(room, kEta + 1)), 1 / (kEta + 1)) - 1));
  }
  const double room = 1 - ((variable.upper - value) / width);
  return value +
         (width * (1 - std::pow((2 * (1 - u)) + (2 * (u - 0.5) * std::pow(room, kEta + 1)), 1 / (kEta + 1))));
}

double heavy_tailed(double value, const Variable& variable, double exponent, Random& random) {
  const double centred = random.uniform() - 0.5;
  const double step = 0.5 * centred * (1 - std::pow(random.uniform(), -exponent)) * range_of(variable);
  const double next = value + step;
  // Beyond a bound, a point between here and the bound: in its nearer half.
  if (next > variable.upper) return variable.upper - (0.5 * random.uniform() * (variable.upper - value));
  if (next < variable.lower) return variable.lower + (0.5 * random.uniform() * (value - variable.lower));
  return next;
}

template <typename Move>
double mutated(double value, const Variable& variable, Random& random, Move move) {
  if (range_of(variable) == 0) return value;
  if (variable.kind == Kind::kCategorical) return another(value, variable, random);
  return moved(value, move(), variable);
}

}  // namespace

void draw(Point point, const std::vector<Variable>& variables, Random& random) {
  for (std::size_t j = 0; j < point.size(); ++j) point[j] = drawn(variables[j], random);
}

void cross(Point first, Point second, const std::vector<Variable>& variables, Random& random) {
  for (std::size_t j = 0; j < first.size(); ++j) {
    if (variables[j].kind == Kind::kCategorical) {
      if (random.uniform() < 0.5) std::swap(first[j], second[j]);
      continue;
    }
    const double u = random.uniform();
    const double spread = u <= 0.5 ? std::pow(2 * u, 1 / (kEta + 1)) : std::pow(2 - (2 * u), -1 / (kEta + 1));
    const double sign = random.uniform() < 0.5 ? -1 : 1;
    if (random.uniform() < 0.5) continue;
    const double middle = (first[j] + second[j]) / 2;
    const double half = sign * spread * (first[j] - second[j]) / 2;
    first[j] = confined(middle + half, variables[j]);
    second[j] = confined(middle - half, variables[j]);
  }
}

void mutate(Point point, const std::vector<Variable>& variables, Random& random) {
  const double probability = 1 / static_cast<double>(point.size());
  for (std::size_t j = 0; j < point.size(); ++j) {
    if (random.uniform() > probability) continue;
    point[j] =
        mutated(point[j], variables[j], random, [&] { return polynomial(point[j], variables[j], random); });
  }
}

void mutate_far(Point point, const std::vector<Variable>& variables, double exponent, Random& random) {
  const double probability = 1 / static_cast<double>(point.size());
  const auto hit = [&](std::size_t j) {
    point[j] = mutated(point[j], variables[j], random,
                       [&] { return heavy_tailed(point[j], variables[j], exponent, random); });
  };
  bool is_hit = false;
  for (std::size_t j = 0; j < point.size(); ++j) {
    if (random.uniform() > probability) continue;
    hit(j);
    is_hit = true;
  }
  if (!is_hit) hit(random.below(point.size()));
}

void confine(Point point, const std::vector<Variable>& variables) {
  for (std::size_t j = 0; j < point.size(); ++j) point[j] = confined(point[j], variables[j]);
}

}  // namespace stweaver::pareto
