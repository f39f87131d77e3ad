// A file that takes what a TraceWriter hands out while a job runs.
#pragma once

#include <string>

#include "trace/trace_file.h"

namespace stweaver {

/// Opens `path` to be written to from its start. Whole pieces go to the operating system as they come, so
/// they survive the process (not the machine: nothing waits for the disk).
///
/// It takes a place as the command's -o does: a plain file is written beside itself and renamed, here with
/// the first piece, so `path` always holds what was there before or the new file with its start; what is no
/// plain file (a link, a device) is written to in place. Only more careful, because a job's environment names
/// it and nobody looks on: a file that is neither empty nor a trace file is left alone, and so is a pipe,
/// whose other end could stop or end the job.
///
/// Error, naming `path`, here or from the sink: when it is such a thing, cannot be written, is full, or was
/// removed or replaced by another file meanwhile; also in a process forked from the one that opened it, which
/// would spoil the file. After an Error the sink is of no more use, the file good as far as it was written.
/// The file is closed when the last copy of the sink is gone.
ByteSink file_sink(const std::string& path);

}  // namespace stweaver
