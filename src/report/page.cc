#include "report/page.h"

#include <utility>

#include "report/page_files.h"
#include "report/page_job.h"
#include "report/page_template.h"
#include "report/wording.h"

namespace stweaver {
namespace {

std::string title_of(const std::vector<JobReport>& reports) {
  std::string title = "Memory report: " + job_name(reports.front().trace.name);
  if (reports.size() > 1) title += text(" and ", reports.size() - 1, " more");
  return title;
}

}  // namespace

std::string page_html(const std::vector<JobReport>& reports, std::size_t most_blocks) {
  PageParts page = {.title = title_of(reports), .facts = {}, .data = {}, .script = kReportScript};
  for (const JobReport& report : reports) {
    PageJob job = page_job(report, most_blocks / reports.size());
    page.facts.push_back(std::move(job.facts));
    page.data.push_back(std::move(job.data));
  }
  return assemble_page(page);
}

}  // namespace stweaver
