// stweaver run: the Python package does it; from here it is only called.

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "base/base.h"
#include "cli/commands.h"
#include "cli/python.h"

namespace stweaver {
namespace {

/// Like `python3 -m stweaver`, with a better line where there is no such package.
constexpr const char* kProgram = R"(
import sys
try:
    from stweaver.__main__ import main
except ImportError as error:
    print(f"stweaver: {sys.executable} cannot import the package stweaver ({error}); "
          "install it there: pip install .", file=sys.stderr)
    sys.exit(2)
sys.exit(main())
)";

}  // namespace

bool is_run(int argc, char** argv) {
  constexpr int kFirstOption = 2;
  if (argc <= kFirstOption || std::string_view(argv[1]) != "run") return false;
  const std::string_view option = argv[kFirstOption];
  return option != "--help" && option != "-h";
}

void run_in_python(char** argv) {
  std::string python = python_name();
  std::string option = "-c";
  std::string program = kProgram;
  std::vector<char*> words = {python.data(), option.data(), program.data()};
  for (char** word = argv + 1; *word != nullptr; ++word) words.push_back(*word);
  words.push_back(nullptr);
  execvp(python.c_str(), words.data());
  fail("cannot run ", python, ": ", std::strerror(errno), "; let STWEAVER_PYTHON name a Python");
}

void add_run(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "Runs a training script under STWeaver.");
  command->footer(
      "Usage: stweaver run [OPTIONS] -- COMMAND [ARGUMENT ...]; its options: python3 -m stweaver run --help\n"
      "Example: stweaver run -- python train.py");
  command->callback([] { fail("name the command to run, as in: stweaver run -- python train.py"); });
}

}  // namespace stweaver
