// Layer report: what the command answers, as tables and as JSON.
#pragma once

#include "report/advice.h"      // IWYU pragma: export
#include "report/answers.h"     // IWYU pragma: export
#include "report/difference.h"  // IWYU pragma: export
#include "report/job_report.h"  // IWYU pragma: export
#include "report/page.h"        // IWYU pragma: export
#include "report/table.h"       // IWYU pragma: export
