// The subcommands. Each adds itself to the command line; when chosen it runs, prints its answer and says the
// exit status.
#pragma once

#include <CLI/CLI.hpp>

namespace stweaver {

void add_inspect(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_check(CLI::App& app, int& status);
void add_replay(CLI::App& app, int& status);
void add_compare(CLI::App& app, int& status);
void add_report(CLI::App& app, int& status);
void add_diff(CLI::App& app, int& status);
void add_advise(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);
void add_run(CLI::App& app);

/// Whether this is the command line of `run`, which Python reads; add_run() is there for the help.
bool is_run(int argc, char** argv);
/// Becomes `python3 -m stweaver run ...`. Error when there is no Python.
[[noreturn]] void run_in_python(char** argv);

}  // namespace stweaver
