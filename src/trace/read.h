// Opens a trace of whatever kind.
#pragma once

#include <string>
#include <vector>

#include "trace/model.h"
#include "trace/source.h"

namespace stweaver {

/// Reads a PyTorch memory snapshot (one trace per device) or a trace file of ours (one trace), told apart by
/// their first bytes. The traces are valid. Error, with `name` in front, when it is neither.
std::vector<Trace> read_traces(const ByteSource& source, const std::string& name);

/// The one with the most requests, the first of several; traces.end() where there is none.
std::vector<Trace>::iterator busiest_of(std::vector<Trace>& traces);

}  // namespace stweaver
