// stweaver plan: makes a plan, of a trace or of a CSV instance, and checks it before it says a word.

#include "plan/plan.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/validators.h"
#include "plan/search.h"
#include "report/report.h"

namespace stweaver {
namespace {

struct PlanCommandOptions {
  std::string input;
  std::string output;
  std::optional<int> device;
  std::optional<Bytes> align;
  std::optional<Bytes> capacity;
  SynthesizeOptions search;
  bool step_only = false;
  bool json = false;
};

void require_sound(const std::vector<std::string>& violations) {
  if (!violations.empty())
    fail("the planner made a wrong plan: ", violations.front(), "; please report this trace");
}

/// Who waits sees how far the search is, and may end it.
class Watch {
 public:
  explicit Watch(const PlanCommandOptions& options) : progress_("planning " + options.input, options.json) {}

  /// To be called before the first search: until then, Ctrl-C ends the command.
  std::stop_token take_interrupts() { return interrupt_.emplace().token(); }
  [[nodiscard]] SearchWatch watch() {
    return [this](const SearchProgress& search) { note(search); };
  }
  /// Whether that was ended before its peak met the bound.
  [[nodiscard]] bool was_stopped(Bytes peak, Bytes lower_bound) const {
    return interrupt_ && interrupt_->happened() && peak > lower_bound;
  }

 private:
  void note(const SearchProgress& search) {
    const auto bound = static_cast<double>(std::max<Bytes>(search.lower_bound, 1));
    const double over = static_cast<double>(search.peak - search.lower_bound) / bound;
    progress_.note(fmt::format(", peak {} bytes, {:.3f} % over the bound", search.peak, 100 * over));
  }

  Progress progress_;
  std::optional<Interrupt> interrupt_;
};

PlanAnswer plan_trace(const PlanCommandOptions& options, Watch& watch) {
  const Trace trace = open_trace(options.input, options.device);
  const Profile profile = profile_of(trace);
  SynthesizeOptions how = options.search;
  how.alignment = options.align.value_or(kAlignment);
  how.step_only = options.step_only;
  how.anytime = true;
  how.stop = watch.take_interrupts();
  how.improved = watch.watch();
  const Synthesis made = synthesize(trace, profile, how);
  const Plan& plan = made.plan;
  require_sound(check_plan(plan, trace));
  if (!options.output.empty()) {
    std::ostringstream file;
    write_plan(plan, file);
    write_file(options.output, file.str());
  }
  const auto unplanned = std::count_if(plan.slots.begin(), plan.slots.end(),
                                       [](const Slot& slot) { return slot.offset == kUnplanned; });
  return {.name = options.input,
          .requests = plan.slots.size(),
          .unplanned = static_cast<std::size_t>(unplanned),
          .lower_bound = plan.lower_bound,
          .peak = plan.arena,
          .seconds = made.seconds,
          .threads = made.threads,
          .winner = plan.winner,
          .stream_gap = plan.stream_gap,
          .steps_differ = plan.shape == StepShape::kDynamic,
          .stopped = watch.was_stopped(plan.arena, plan.lower_bound)};
}

PlanAnswer plan_csv(const PlanCommandOptions& options, Watch& watch) {
  if (options.device || options.step_only)
    fail(options.input,
         ": a planning instance has no device and no step; leave out --device and --step-only");
  std::vector<CsvRow> rows = open_csv(options.input);
  const Bytes alignment = options.align.value_or(1);  // instances count in units of their own
  Instance instance;
  std::vector<Lifespan> lives;
  std::vector<Bytes> sizes;
  std::vector<CsvRow*> placed;
  for (CsvRow& row : rows) {
    row.offset = 0;
    if (row.size == 0) continue;  // it takes no memory, wherever it lies
    const Bytes size = checked_align_up(row.size, alignment, "a size");
    instance.items.push_back({.size = size, .life = row.life});
    lives.push_back(row.life);
    sizes.push_back(size);
    placed.push_back(&row);
  }
  const SearchResult result = search(instance, {.threads = options.search.threads,
                                                .timeout = options.search.timeout,
                                                .anytime = true,
                                                .capacity = options.capacity.value_or(0),
                                                .stop = watch.take_interrupts(),
                                                .improved = watch.watch()});
  require_sound(check_placement(lives, sizes, result.placement));
  if (!options.output.empty()) {
    for (std::size_t i = 0; i < placed.size(); ++i) placed[i]->offset = result.placement[i];
    std::ostringstream file;
    write_csv(rows, file);
    write_file(options.output, file.str());
  }
  return {.name = options.input,
          .requests = rows.size(),
          .lower_bound = result.lower_bound,
          .peak = result.peak,
          .seconds = result.seconds,
          .threads = result.threads,
          .winner = result.winner,
          .stopped = watch.was_stopped(result.peak, result.lower_bound)};
}

Answer plan(const PlanCommandOptions& options) {
  keep_apart({options.input}, {options.output});
  Watch watch(options);
  const PlanAnswer answer = is_csv(options.input) ? plan_csv(options, watch) : plan_trace(options, watch);
  const bool fits = !options.capacity || answer.peak <= *options.capacity;
  return {plan_text(answer) + (fits ? "" : "that is more than the capacity\n"), plan_json(answer),
          fits ? kDone : kAnswerIsNo};
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  const auto options = std::make_shared<PlanCommandOptions>();
  CLI::App* command = app.add_subcommand("plan", "Makes the plan: an offset for every request that repeats.");
  command
      ->add_option("TRACE", options->input,
                   "snapshot, trace file, or planning instance (.csv: id,lower,upper,size)")
      ->required()
      ->check(file_name());
  command
      ->add_option("-o,--output", options->output,
                   "where to write the plan (for a CSV: the CSV with offsets)")
      ->check(file_name());
  command->add_option("--device", options->device, "device to plan for (default: the busiest in the file)");
  command
      ->add_option("--align", options->align,
                   "bytes that offsets are multiples of (default: 512; 1 for a CSV)")
      ->check(bytes(1, kGiB));
  command->add_option("--capacity", options->capacity, "exit with 1 if the plan needs more than this")
      ->check(bytes(0));
  add_search(*command, options->search, "search for a better plan than the first");
  command->add_flag("--step-only", options->step_only, "plan the step that repeats, not the prologue");
  command->add_flag("--json", options->json, "print one JSON document");
  command->footer("Example: stweaver plan snapshot.pickle -o job.plan");
  command->callback([options, &status] { status = print_answer(options->json, plan(*options)); });
}

}  // namespace stweaver
