// stweaver report: a page to look at.

#include "report/report.h"

#include <array>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/validators.h"

namespace stweaver {
namespace {

struct ReportCommandOptions {
  std::vector<std::string> traces;
  std::string output = "report.html";
  std::string snapshots;
  std::string perfetto;
  SynthesizeOptions search;
  bool json = false;
};

/// Files are named after jobs. Error when two jobs have one name.
void require_own_names(const std::vector<std::string>& traces) {
  std::set<std::string> names;
  for (const std::string& trace : traces) {
    if (names.insert(job_name(trace)).second) continue;
    fail(trace, ": another job is called ", job_name(trace),
         " too, and files are named after jobs; rename one");
  }
}

void write_snapshots(const JobReport& report, const std::filesystem::path& folder, Written& written) {
  constexpr std::array<std::string_view, kContenders> kNames = {"default", "expandable", "planned"};
  for (std::size_t i = 0; i < kContenders; ++i) {
    const std::string name = text(job_name(report.trace.name), '.', kNames.at(i), ".pickle");
    written.snapshots.push_back(folder / name);
    write_file(written.snapshots.back(), snapshot_of(report, static_cast<Contender>(i)));
  }
}

void report(const ReportCommandOptions& options) {
  if (!options.snapshots.empty()) {
    require_own_names(options.traces);
    make_folder(options.snapshots);
  }
  Written written{.page = options.output, .snapshots = {}, .perfetto = options.perfetto};
  std::vector<JobReport> reports;
  for (const std::string& path : options.traces) {
    const Progress progress("reporting on " + path);
    reports.push_back(report_job(open_trace(path), options.search));
    if (!options.snapshots.empty()) write_snapshots(reports.back(), options.snapshots, written);
  }
  const std::string page = page_html(reports);
  write_file(options.output, page);
  written.bytes = page.size();
  if (!options.perfetto.empty()) {
    const std::string trace = perfetto_trace(reports);
    write_file(options.perfetto, options.perfetto.ends_with(".gz") ? gzipped(trace) : trace);
  }
  std::vector<Comparison> comparisons;
  comparisons.reserve(reports.size());
  for (JobReport& job : reports) comparisons.push_back(std::move(job.comparison));
  print_answer(options.json, report_text(written, comparisons), report_json(written, comparisons));
}

}  // namespace

void add_report(CLI::App& app, int& status) {
  const auto options = std::make_shared<ReportCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "report", "A page to look at: memory over time, the address space, who is alive at the peak.");
  add_traces(*command, options->traces);
  command->add_option("-o,--output", options->output, "the HTML file to write; it needs no network")
      ->capture_default_str()
      ->check(file_name());
  command
      ->add_option(
          "--memory-viz", options->snapshots,
          "a folder for snapshots that PyTorch's memory_viz opens: the job by its default allocator, "
          "by expandable segments and planned")
      ->check(file_name());
  command
      ->add_option("--perfetto", options->perfetto,
                   "a file for a trace that ui.perfetto.dev opens; with .gz at its end, compressed")
      ->check(file_name());
  add_search(*command, options->search, "search for each plan");
  command->add_flag("--json", options->json, "print one JSON document");
  command->footer("Example: stweaver report snapshot.pickle -o report.html");
  command->callback([options, &status] {
    report(*options);
    status = kDone;
  });
}

}  // namespace stweaver
