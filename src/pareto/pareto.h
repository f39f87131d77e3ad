// Layer pareto: many-objective search by corner solutions, non-dominated sorting, indicators. Uses only
// `base`.
#pragma once

#include "pareto/archive.h"        // IWYU pragma: export
#include "pareto/dominance.h"      // IWYU pragma: export
#include "pareto/indicators.h"     // IWYU pragma: export
#include "pareto/maoea_cs.h"       // IWYU pragma: export
#include "pareto/points.h"         // IWYU pragma: export
#include "pareto/problem.h"        // IWYU pragma: export
#include "pareto/random.h"         // IWYU pragma: export
#include "pareto/random_search.h"  // IWYU pragma: export
