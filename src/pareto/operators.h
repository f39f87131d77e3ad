// How new points are made from old ones. Whatever they do, points stay in the bounds and discrete variables
// whole.
#pragma once

#include <span>
#include <vector>

#include "pareto/problem.h"
#include "pareto/random.h"

namespace stweaver::pareto {

using Point = std::span<double>;

/// Uniform in the bounds.
void draw(Point point, const std::vector<Variable>& variables, Random& random);

/// Simulated binary crossover (Deb, Agrawal 1995; eta = 20, each variable with probability 1/2) of two points
/// in place. Integers are rounded; categories change places with probability 1/2.
void cross(Point first, Point second, const std::vector<Variable>& variables, Random& random);

/// Polynomial mutation (Deb, Goyal 1996; eta = 20) of each variable with probability 1/D. An integer that is
/// hit moves by 1 at least; a category becomes another.
void mutate(Point point, const std::vector<Variable>& variables, Random& random);

/// The mutation of corners (report of MaOEA-CS, equation of Liu and Li, CEC 2009): of each variable with
/// probability 1/D, one at least, by steps of a heavy tail: (1 - u^-exponent) of the range. Discrete
/// variables as above.
void mutate_far(Point point, const std::vector<Variable>& variables, double exponent, Random& random);

/// Brings a point back into the bounds, discrete variables to the nearest whole number.
void confine(Point point, const std::vector<Variable>& variables);

}  // namespace stweaver::pareto
