// What a run was: written when the process ends.
#pragma once

#include <string>

namespace nullcuda {

/// One JSON object: the GPU, memory used at most on each device, calls by function, calls of stubs, what was
/// made up.
std::string report();

/// Writes the report when the process ends, where the settings want it: to a file (one line for each process
/// that ends, `%p` in its name becomes the process's number) and, in short, to standard error.
void report_at_exit();

}  // namespace nullcuda
