// stweaver report: a page to look at.

#include "report/report.h"

#include <memory>
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

struct Options {
  std::vector<std::string> traces;
  std::string output = "report.html";
  SynthesizeOptions search;
  bool json = false;
};

void report(const Options& options) {
  std::vector<JobReport> reports;
  for (const std::string& path : options.traces) {
    const Progress progress("reporting on " + path);
    reports.push_back(report_job(open_trace(path), options.search));
  }
  const std::string page = page_html(reports);
  write_file(options.output, page);
  std::vector<Comparison> comparisons;
  comparisons.reserve(reports.size());
  for (JobReport& job : reports) comparisons.push_back(std::move(job.comparison));
  print_answer(options.json, report_text(options.output, page.size(), comparisons),
               report_json(options.output, page.size(), comparisons));
}

}  // namespace

void add_report(CLI::App& app, int& status) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "report", "A page to look at: memory over time, the address space, who is alive at the peak.");
  add_traces(*command, options->traces);
  command->add_option("-o,--output", options->output, "the HTML file to write; it needs no network")
      ->capture_default_str()
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
