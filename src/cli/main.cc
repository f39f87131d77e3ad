// The `stweaver` command.

#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "base/base.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/progress.h"

namespace {

int complain(const std::string& line) {
  stweaver::say(line);
  return stweaver::kBadInput;
}

/// Who was asked, and how to ask better.
std::string hint(const CLI::App& app) {
  const std::vector<CLI::App*> asked = app.get_subcommands();
  return "; see stweaver " + (asked.empty() ? "" : asked.front()->get_name() + " ") + "--help";
}

int run(int argc, char** argv) {
  if (stweaver::is_run(argc, argv)) stweaver::run_in_python(argv);
  // A file larger than the shell allows is a write that fails, after which its draft is removed.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app(
      "Plans where every tensor of a training job should live in GPU memory, and shows what that saves.");
  app.name("stweaver");
  app.require_subcommand(1);
  app.set_version_flag("--version", STWEAVER_VERSION);
  app.footer(
      "Exit status: 0 done, 1 the answer is no, 2 bad usage or bad input.\nExample: stweaver compare "
      "job.pickle");
  int status = stweaver::kDone;
  stweaver::add_inspect(app, status);
  stweaver::add_plan(app, status);
  stweaver::add_check(app, status);
  stweaver::add_replay(app, status);
  stweaver::add_compare(app, status);
  stweaver::add_report(app, status);
  stweaver::add_diff(app, status);
  stweaver::add_advise(app, status);
  stweaver::add_doctor(app, status);
  stweaver::add_run(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {  // help, version
      status = app.exit(error);
      return std::cout.flush() ? status : complain("the answer cannot be written to standard output");
    }
    if (argc > 1 && *argv[1] != '-' && app.get_subcommands().empty())
      return complain(std::string(argv[1]) + ": no such subcommand" + hint(app));
    return complain(error.what() + hint(app));
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return complain("not enough memory for this input");
  } catch (const std::exception& error) {
    return complain(error.what());
  }
}
