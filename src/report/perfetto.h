// Jobs as traces for ui.perfetto.dev and other readers of Chrome's trace event format (JSON).
#pragma once

#include <string>
#include <vector>

#include "report/job_report.h"

namespace stweaver {

/// Each job is a process: its steps and phases as slices, what it asked for and what each allocator reserved
/// as counters in GiB, and the 1000 requests that occupy the most bytes times time as asynchronous slices,
/// named after their line of code, or else their size. Time is that of the recording's clock, so that ranks
/// of one job line up; without a clock an event takes a microsecond.
std::string perfetto_trace(const std::vector<JobReport>& reports);

/// `content` as gzip writes it.
std::string gzipped(const std::string& content);

}  // namespace stweaver
