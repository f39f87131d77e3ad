// Layer plan: the Plan Synthesizer. Bound, constructors, portfolio, plan file, and the independent checker.
#pragma once

#include "plan/best_fit.h"       // IWYU pragma: export
#include "plan/checker.h"        // IWYU pragma: export
#include "plan/class_sweep.h"    // IWYU pragma: export
#include "plan/core.h"           // IWYU pragma: export
#include "plan/fill_gaps.h"      // IWYU pragma: export
#include "plan/homophase.h"      // IWYU pragma: export
#include "plan/instance.h"       // IWYU pragma: export
#include "plan/plan_file.h"      // IWYU pragma: export
#include "plan/portfolio.h"      // IWYU pragma: export
#include "plan/restack.h"        // IWYU pragma: export
#include "plan/ring.h"           // IWYU pragma: export
#include "plan/skyline.h"        // IWYU pragma: export
#include "plan/squeaky_wheel.h"  // IWYU pragma: export
#include "plan/static_plan.h"    // IWYU pragma: export
#include "plan/step_plan.h"      // IWYU pragma: export
#include "plan/synthesize.h"     // IWYU pragma: export
