// stweaver compare: PyTorch's default allocator, its expandable segments and STWeaver, side by side.

#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/progress.h"
#include "cli/validators.h"
#include "report/report.h"

namespace stweaver {
namespace {

struct Options {
  std::vector<std::string> traces;
  double timeout = 1;
  int threads = 0;
  bool online = false;
  bool json = false;
};

void compare_all(const Options& options) {
  SynthesizeOptions how;
  how.timeout = options.timeout;
  how.threads = options.threads;
  std::vector<Comparison> comparisons;
  for (const std::string& path : options.traces) {
    const Progress progress("comparing " + path);
    comparisons.push_back(compare(open_trace(path), how, options.online));
  }
  print_answer(options.json, compare_text(comparisons), compare_json(comparisons));
}

}  // namespace

void add_compare(CLI::App& app, int& status) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("compare", "What each job reserves under PyTorch's allocators and under a plan.");
  command->add_option("TRACE", options->traces, "PyTorch memory snapshots or trace files")
      ->required()
      ->check(file_name());
  command->add_option("--timeout", options->timeout, "seconds to search for each plan")
      ->capture_default_str()
      ->check(seconds());
  command->add_option("--threads", options->threads, "threads to search with (default: all cores)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--online", options->online,
                    "also serve each job without a plan from before: record, plan and follow inside the job");
  command->add_flag("--json", options->json, "print one JSON document, an array with one entry per trace");
  command->footer("Example: stweaver compare examples/traces/*.pickle.xz");
  command->callback([options, &status] {
    compare_all(*options);
    status = kDone;
  });
}

}  // namespace stweaver
