// Options that several subcommands have, so that they read and mean the same everywhere.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "plan/synthesize.h"

namespace stweaver {

/// TRACE: one file, or one or more.
void add_trace(CLI::App& command, std::string& trace);
void add_traces(CLI::App& command, std::vector<std::string>& traces);

/// --timeout, whose help reads "seconds to `purpose`", and --threads.
void add_search(CLI::App& command, SynthesizeOptions& search, const std::string& purpose);

}  // namespace stweaver
