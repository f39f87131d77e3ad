// Layer pareto: many-objective search by corner solutions, non-dominated sorting, indicators. Uses only
// `base`.
#pragma once

#include "pareto/maoea_cs.h"  // IWYU pragma: export
#include "pareto/problem.h"   // IWYU pragma: export
#include "pareto/random.h"    // IWYU pragma: export
