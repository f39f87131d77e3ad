// stweaver inspect: what a job asks for.

#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "report/report.h"

namespace stweaver {
namespace {

struct InspectCommandOptions {
  std::string trace;
  std::optional<int> device;
  bool json = false;
};

Answer inspect(const InspectCommandOptions& options) {
  const Progress progress("inspecting " + options.trace, options.json);
  const Trace trace = open_trace(options.trace, options.device);
  const Profile profile = profile_of(trace);
  const Summary summary = summarize(trace, profile.steps, profile.classes, profile.pattern);
  return {inspect_text(trace, profile, summary), inspect_json(trace, profile, summary)};
}

}  // namespace

void add_inspect(CLI::App& app, int& status) {
  const auto options = std::make_shared<InspectCommandOptions>();
  CLI::App* command =
      app.add_subcommand("inspect", "What a job asks for: steps, classes, sizes, streams, peak.");
  add_trace(*command, options->trace);
  command->add_option("--device", options->device, "device to look at (default: the busiest in the file)");
  command->add_flag("--json", options->json, "print one JSON document");
  command->footer("Example: stweaver inspect snapshot.pickle");
  command->callback([options, &status] { status = print_answer(options->json, inspect(*options)); });
}

}  // namespace stweaver
