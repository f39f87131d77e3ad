// stweaver report: a page to look at.

#include "report/report.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <string>
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

/// Of the job in a file, by contender.
std::vector<std::string> snapshots_of(const std::string& trace, const std::filesystem::path& folder) {
  std::vector<std::string> paths;
  for (const char* const name : {"default", "expandable", "planned"})
    paths.push_back(folder / text(job_name(trace), '.', name, ".pickle"));
  return paths;
}

void write_snapshots(const JobReport& report, const std::vector<std::string>& paths, Written& written) {
  for (std::size_t i = 0; i < kContenders; ++i) {
    written.snapshots.push_back(paths.at(i));
    write_file(paths.at(i), snapshot_of(report, static_cast<Contender>(i)));
  }
}

Answer report(const ReportCommandOptions& options) {
  find_inputs(options.traces);
  if (!options.snapshots.empty()) {
    require_own_names(options.traces);
    make_folder(options.snapshots);
  }
  std::vector<std::string> outputs = {options.output, options.perfetto};
  for (const std::string& trace : options.traces)
    if (!options.snapshots.empty())
      std::ranges::move(snapshots_of(trace, options.snapshots), std::back_inserter(outputs));
  keep_apart(options.traces, outputs);
  Written written{.page = options.output, .snapshots = {}, .perfetto = options.perfetto};
  std::vector<JobReport> reports;
  for (const std::string& path : options.traces) {
    const Progress progress("reporting on " + path, options.json);
    reports.push_back(report_job(open_trace(path), options.search));
    if (!options.snapshots.empty())
      write_snapshots(reports.back(), snapshots_of(path, options.snapshots), written);
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
  return {report_text(written, comparisons), report_json(written, comparisons)};
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
  command->callback([options, &status] { status = print_answer(options->json, report(*options)); });
}

}  // namespace stweaver
