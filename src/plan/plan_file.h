// The plan file: a plan as text that says what it is.
//
//   stweaver-plan 6
//   source llama7b_N.pickle.xz          the trace it was made from
//   fingerprint 1f0c...                 of that trace, 16 hex digits
//   alignment 512
//   arena 40002256896
//   lower_bound 40002256896
//   shape fixed                         or varying, or dynamic
//   stream_gap 0
//   winner sweep 4
//   prologue 6773
//   prologue_steps 1
//   steps 1
//   runs 4                              then a line `request slot count` each
//   slots 13476                         then a line `size offset stream death SERVES` each
//   crc32c 9d2c77a1                     of every byte before this line
//
// One key per line, all of them, in this order. An offset of -1 is a request that is unplanned (the run time
// places it), a death of -1 one that is never freed. SERVES says which requests a slot is for: `exact` those
// of its size, all others those of any size up to it, which follows length I of the step, numbered from 0:
//
//   exact
//   upto I        no more is known
//   length I      the size grows with the length
//   square I      with its square
//   tiles I N     with the length, rounded up to multiples of N bytes
#pragma once

#include <ostream>
#include <string>

#include "plan/static_plan.h"
#include "trace/source.h"

namespace stweaver {

/// Error for a plan that is good in one process alone (Plan::in_gaps).
void write_plan(const Plan& plan, std::ostream& out);

/// Error, naming `name`, the line and what is wrong, for anything that write_plan() did not write: another
/// file, another version, a damaged or a shortened one.
Plan read_plan(const ByteSource& source, const std::string& name);

}  // namespace stweaver
