// Reads the memory snapshots that torch.cuda.memory._dump_snapshot() writes.
#pragma once

#include <string>
#include <vector>

#include "trace/model.h"
#include "trace/source.h"

namespace stweaver {

/// One trace per device that recorded allocations, in the order of devices, each valid (validate()).
///
/// Reads what torch 2.1 to 2.15 write (torch/csrc/cuda/memory_snapshot.cpp) as a stream: what is not needed
/// is dropped on the way. Of the frames of an allocation one stays, as its site: the innermost line of Python
/// outside of PyTorch, else the innermost of Python. Marks come from user_metadata, from the profiler's
/// external_annotations, and from a key `markers` of ours: a list of (allocations so far, frees so far,
/// label). Error, with `name` in front, when the input is no such snapshot, is damaged, would run code, or
/// holds no allocations.
std::vector<Trace> read_snapshot(const ByteSource& source, const std::string& name);

}  // namespace stweaver
