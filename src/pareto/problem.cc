#include "pareto/problem.h"

#include <cmath>
#include <cstddef>

#include "base/error.h"

namespace stweaver::pareto {
namespace {

/// Doubles hold all whole numbers up to here.
constexpr double kMostWhole = 0x1p53;

bool is_whole(double value) {
  return std::abs(value) <= kMostWhole && value == std::floor(value);
}

void check_variable(const Variable& variable, std::size_t index) {
  if (!std::isfinite(variable.lower) || !std::isfinite(variable.upper) || variable.lower > variable.upper)
    fail("variable ", index, " lies in [", variable.lower, ", ", variable.upper,
         "]: give finite bounds, the lower one first");
  if (!std::isfinite(variable.upper - variable.lower))
    fail("variable ", index, " has bounds that are too far apart");
  if (variable.kind != Kind::kReal && (!is_whole(variable.lower) || !is_whole(variable.upper)))
    fail("variable ", index, " lies in [", variable.lower, ", ", variable.upper,
         "]: integers and categories need whole numbers up to 2^53");
}

}  // namespace

Variable real_variable(double lower, double upper) {
  return {Kind::kReal, lower, upper};
}

Variable integer_variable(std::int64_t lower, std::int64_t upper) {
  return {Kind::kInteger, static_cast<double>(lower), static_cast<double>(upper)};
}

Variable categorical_variable(std::int64_t count) {
  return {Kind::kCategorical, 0, static_cast<double>(count - 1)};
}

void check_problem(const Problem& problem) {
  if (problem.variables.empty()) fail("the problem has no variables: give one at least");
  if (problem.objectives < 1) fail("the problem has no objectives: give one at least");
  for (std::size_t i = 0; i < problem.variables.size(); ++i) check_variable(problem.variables[i], i);
}

}  // namespace stweaver::pareto
