// What is searched: variables, objectives, and a function from the ones to the others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "pareto/points.h"
#include "pareto/random.h"

namespace stweaver::pareto {

/// What values a variable takes. All of them are held as doubles; integers and categories are whole numbers.
enum class Kind : unsigned char {
  kReal,
  kInteger,      ///< neighbours are alike
  kCategorical,  ///< no order: any two values are equally far apart
};

struct Variable {
  Kind kind = Kind::kReal;
  double lower = 0;
  double upper = 1;  ///< inclusive
};

Variable real_variable(double lower, double upper);
Variable integer_variable(std::int64_t lower, std::int64_t upper);
/// The values 0 to count - 1.
Variable categorical_variable(std::int64_t count);

struct Problem {
  std::vector<Variable> variables;
  int objectives = 0;

  /// Writes the objectives, all to be minimised, of a point, and returns by how much it violates the
  /// constraints in all: 0 where it is feasible. Objectives come in as zeros and may stay so where the
  /// violation is positive. Everything is finite. Several threads call it at once. Who asks for points and
  /// evaluates them himself (MaoeaCs) leaves it empty.
  std::function<double(std::span<const double> variables, std::span<double> objectives)> evaluate;

  /// Optional: changes a point that makes no sense into one that does before it is evaluated, and stays in
  /// the bounds. One thread calls it.
  std::function<void(std::span<double> variables, Random& random)> repair = {};
};

struct Solution {
  std::vector<double> variables;
  std::vector<double> objectives;
  double violation = 0;
};

/// What evaluating points gave; where it ended early, of the first points only.
struct Evaluations {
  Points objectives;
  std::vector<double> violations;
};

/// Error when a variable's bounds are not finite, in the wrong order or, but for reals, no whole numbers; or
/// when there are no variables or no objectives.
void check_problem(const Problem& problem);

}  // namespace stweaver::pareto
