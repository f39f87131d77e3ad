// stweaver check: is a plan right for a trace?

#include <memory>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/progress.h"
#include "cli/validators.h"
#include "plan/plan.h"
#include "report/report.h"

namespace stweaver {
namespace {

struct CheckCommandOptions {
  std::string plan;
  std::string trace;
  bool json = false;
};

CheckAnswer check_trace(const CheckCommandOptions& options) {
  const Plan plan = read_plan(open_archive(options.plan), options.plan);
  for (const Trace& trace : read_traces(open_archive(options.trace), options.trace)) {
    if (fingerprint_of(trace) == plan.fingerprint)
      return {plan.slots.size(), planned_slots(plan), check_plan(plan, trace)};
  }
  fail(options.plan, ": was made from another trace (", plan.source, "), not from ", options.trace);
}

CheckAnswer check_csv(const CheckCommandOptions& options) {
  const std::vector<CsvRow> wanted = open_csv(options.trace);
  const std::vector<CsvRow> placed = open_csv(options.plan);
  std::vector<Lifespan> lives;
  std::vector<Bytes> sizes;
  std::vector<Bytes> offsets;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool same = i < placed.size() && placed[i].id == wanted[i].id && placed[i].life == wanted[i].life &&
                      placed[i].size == wanted[i].size;
    if (!same || placed.size() != wanted.size()) {
      fail(options.plan, ": holds other buffers than ", options.trace, "; plan that instance");
    }
    if (!placed[i].offset)
      fail(options.plan, ": has no offsets; make it with `stweaver plan ", options.trace, " -o PLAN`");
    lives.push_back(wanted[i].life);
    sizes.push_back(wanted[i].size);
    offsets.push_back(*placed[i].offset);
    names.push_back(text("id ", wanted[i].id));
  }
  return {wanted.size(), wanted.size(), check_placement(lives, sizes, offsets, names)};
}

Answer check(const CheckCommandOptions& options) {
  const Progress progress("checking " + options.plan, options.json);
  const CheckAnswer found = is_csv(options.trace) ? check_csv(options) : check_trace(options);
  return {check_text(found), check_json(found), found.violations.empty() ? kDone : kAnswerIsNo};
}

}  // namespace

void add_check(CLI::App& app, int& status) {
  const auto options = std::make_shared<CheckCommandOptions>();
  CLI::App* command =
      app.add_subcommand("check", "Verifies a plan against its trace, with none of the planner's code.");
  command->add_option("PLAN", options->plan, "what `stweaver plan TRACE -o PLAN` wrote")
      ->required()
      ->check(file_name());
  command->add_option("TRACE", options->trace, "the trace (or .csv instance) it was made from")
      ->required()
      ->check(file_name());
  command->add_flag("--json", options->json, "print one JSON document");
  command->footer("Example: stweaver check job.plan snapshot.pickle");
  command->callback([options, &status] { status = print_answer(options->json, check(*options)); });
}

}  // namespace stweaver
