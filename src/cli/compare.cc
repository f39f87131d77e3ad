// stweaver compare: PyTorch's default allocator, its expandable segments and STWeaver, side by side.

#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "report/report.h"

namespace stweaver {
namespace {

struct CompareCommandOptions {
  std::vector<std::string> traces;
  SynthesizeOptions search;
  bool online = false;
  bool json = false;
};

Answer compare_all(const CompareCommandOptions& options) {
  find_inputs(options.traces);
  std::vector<Comparison> comparisons;
  for (const std::string& path : options.traces) {
    const Progress progress("comparing " + path, options.json);
    comparisons.push_back(compare(open_trace(path), options.search, options.online));
  }
  return {compare_text(comparisons), compare_json(comparisons)};
}

}  // namespace

void add_compare(CLI::App& app, int& status) {
  const auto options = std::make_shared<CompareCommandOptions>();
  CLI::App* command =
      app.add_subcommand("compare", "What each job reserves under PyTorch's allocators and under a plan.");
  add_traces(*command, options->traces);
  add_search(*command, options->search, "search for each plan");
  command->add_flag("--online", options->online,
                    "also serve each job without a plan from before: record, plan and follow inside the job, "
                    "searching as there, whatever --timeout says");
  command->add_flag("--json", options->json, "print one JSON document, an array with one entry per trace");
  command->footer("Example: stweaver compare examples/traces/*.pickle.xz");
  command->callback([options, &status] { status = print_answer(options->json, compare_all(*options)); });
}

}  // namespace stweaver
