// A job as PyTorch's own tools see it.
#pragma once

#include <string>

#include "report/job_report.h"

namespace stweaver {

/// The memory snapshot (a pickle, as torch.cuda.memory._dump_snapshot() writes it) that PyTorch would have
/// written at the end of the trace if an allocator with these settings had served it as `served` says, its
/// segments logged.
///
/// Segments, their blocks and all events are there; of a request's stack the one line that the trace knows.
/// Marks are user_metadata, or, where that cannot hold them, under our key `markers`. Addresses are new, 2^46
/// and above, in the order of the old ones. What no allocator saw is left out: requests without bytes, and
/// the failures of the one that recorded the trace. read_snapshot() makes the same trace of it again.
std::string snapshot_of(const Trace& trace, const ReplayResult& served, const std::string& settings);

/// The job by one of the allocators that the report compares, with the job's other settings. STWeaver's arena
/// looks like expandable segments.
std::string snapshot_of(const JobReport& report, Contender contender);

}  // namespace stweaver
