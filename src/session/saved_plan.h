// A plan for the next run of the same job.
#pragma once

#include <string>

#include "plan/static_plan.h"
#include "trace/model.h"

namespace stweaver {

/// The plan for the whole job, weights and first steps included, by synthesize(), proven by the independent
/// checker. `threads` as of SynthesizeOptions. Error when the checker refuses it.
Plan plan_job(const Trace& trace, int threads = 1);

/// The plan; Error where the next run would refuse it for what it takes (takes_too_much()).
Plan frugal(Plan plan);

/// Writes the plan as replace_file() does. Error when it cannot be written.
void save_plan(const Plan& plan, const std::string& path);

/// Reads a trace file of ours or a memory snapshot, neither of them compressed, plans the whole job, and
/// saves the plan. Of several devices in a snapshot, the one with the most requests. Error as of
/// read_traces(), plan_job() and save_plan().
Plan plan_file(const std::string& trace_path, const std::string& plan_path, int threads);

}  // namespace stweaver
