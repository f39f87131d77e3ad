// Layer report: what the command answers, as tables and as JSON.
#pragma once

#include "report/advice.h"   // IWYU pragma: export
#include "report/answers.h"  // IWYU pragma: export
#include "report/table.h"    // IWYU pragma: export
