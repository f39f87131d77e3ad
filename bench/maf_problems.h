// MaF1 to MaF15: the test problems of the competitions on evolutionary many-objective optimization, 2017 and
// 2018. Cheng, Li, Tian, Zhang, Yang, Jin, Yao: "A benchmark test suite for evolutionary many-objective
// optimization", Complex & Intelligent Systems 3, 2017; where its text and the competition's code differ, as
// the code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pareto/pareto.h"

namespace stweaver {

inline constexpr int kMafProblems = 15;
inline constexpr int kFewestMafObjectives = 3;

/// MaF1 is number 1. Error when there is no such problem, or with fewer than three objectives.
pareto::Problem maf_problem(int number, int objectives);

/// The evaluations of one run in the competition.
std::int64_t maf_evaluations(const pareto::Problem& problem);

/// The points that the competition measures distances from, about 10000 (190 of MaF2 with five objectives),
/// made from the front's formula.
pareto::Points maf_front(int number, int objectives);

/// Whether a point lies in a polygon, its border included: corners in their order round it.
bool is_in_polygon(double x, double y, const pareto::Points& polygon);

/// Of MaF14 and MaF15: half of the number of distance variables that each objective owns.
std::vector<std::size_t> maf_groups(int objectives);

/// The corners of the regular polygon of MaF8 and MaF9.
pareto::Points maf_polygon(int corners);

/// For rows of M - 1 components, `a` and `b`: (a1 .. aM-1, a1 .. aM-2 bM-1, .., a1 b2, b1).
void cascade(std::span<const double> a, std::span<const double> b, std::span<double> out);

}  // namespace stweaver
