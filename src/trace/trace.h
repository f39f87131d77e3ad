// Layer trace: the data model, and what reads and writes it.
#pragma once

#include "trace/csv.h"          // IWYU pragma: export
#include "trace/file_sink.h"    // IWYU pragma: export
#include "trace/file_source.h"  // IWYU pragma: export
#include "trace/model.h"        // IWYU pragma: export
#include "trace/read.h"         // IWYU pragma: export
#include "trace/snapshot.h"     // IWYU pragma: export
#include "trace/source.h"       // IWYU pragma: export
#include "trace/trace_file.h"   // IWYU pragma: export
