// Which configuration: what a training step costs in time and memory, and which choices are worth a look.
#pragma once

#include "advise/calibration.h"    // IWYU pragma: export
#include "advise/cluster.h"        // IWYU pragma: export
#include "advise/configuration.h"  // IWYU pragma: export
#include "advise/constants.h"      // IWYU pragma: export
#include "advise/fit.h"            // IWYU pragma: export
#include "advise/frameworks.h"     // IWYU pragma: export
#include "advise/front.h"          // IWYU pragma: export
#include "advise/measurements.h"   // IWYU pragma: export
#include "advise/memory.h"         // IWYU pragma: export
#include "advise/model.h"          // IWYU pragma: export
#include "advise/model_file.h"     // IWYU pragma: export
#include "advise/space.h"          // IWYU pragma: export
#include "advise/time.h"           // IWYU pragma: export
