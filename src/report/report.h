// Layer report: what the command answers, as tables, as JSON and as pages.
#pragma once

#include "report/advice.h"             // IWYU pragma: export
#include "report/comparison_answer.h"  // IWYU pragma: export
#include "report/diff_page.h"          // IWYU pragma: export
#include "report/difference.h"         // IWYU pragma: export
#include "report/front_page.h"         // IWYU pragma: export
#include "report/inspection.h"         // IWYU pragma: export
#include "report/job_report.h"         // IWYU pragma: export
#include "report/page.h"               // IWYU pragma: export
#include "report/perfetto.h"           // IWYU pragma: export
#include "report/plan_answer.h"        // IWYU pragma: export
#include "report/recommendation.h"     // IWYU pragma: export
#include "report/serving_answer.h"     // IWYU pragma: export
#include "report/snapshot_export.h"    // IWYU pragma: export
#include "report/table.h"              // IWYU pragma: export
#include "report/wording.h"            // IWYU pragma: export
