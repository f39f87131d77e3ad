#include "report/diff_page.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "profile/profile.h"
#include "report/columns.h"
#include "report/curve.h"
#include "report/page_files.h"
#include "report/page_template.h"
#include "report/wording.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

// No longer lists than a reader reads.
constexpr std::size_t kMostChanges = 1000;

/// Adds a run's curve to the columns; gives what else there is to say of it.
Json run_json(const Trace& trace, const std::string& name, Columns& columns) {
  const Curve curve = requested_curve(trace);
  const std::vector<Lifespan> steps = find_steps(trace).spans;
  const auto highest =
      std::ranges::max_element(steps, {}, [&curve](const Lifespan& step) { return peak_in(curve, step); });
  const Lifespan span = steps.empty() ? Lifespan{0, trace.end} : *highest;
  std::vector<std::uint64_t> times;
  std::vector<std::uint64_t> bytes;
  for (const Reserve& point : downsample(part_of(curve, span), kCurvePoints)) {
    times.push_back(static_cast<std::uint64_t>(point.time));
    bytes.push_back(static_cast<std::uint64_t>(point.bytes));
  }
  columns.add(name + "_time", times, true);
  columns.add(name + "_bytes", bytes);
  return {{"name", job_name(trace.name)},
          {"events", span.upper - span.lower},
          {"step", steps.empty() ? 0 : highest - steps.begin() + 1},
          {"steps", steps.size()}};
}

Json changes_json(const std::vector<Change>& changes) {
  Json list = Json::array();
  for (const Change& change : changes) {
    list.push_back({{"what", change.what},
                    {"class", change.life},
                    {"bytes", change.bytes},
                    {"requests", change.requests}});
    if (list.size() == kMostChanges) break;
  }
  return list;
}

}  // namespace

std::string diff_page_html(const Trace& a, const Trace& b, const Difference& difference) {
  const std::vector<Change>& changes = difference.changes;
  const std::size_t shown = std::min(changes.size(), kMostChanges);
  Bytes rest = 0;
  for (std::size_t i = shown; i < changes.size(); ++i) rest += changes[i].bytes[1] - changes[i].bytes[0];
  Columns columns;
  const Json runs = {run_json(a, "before", columns), run_json(b, "now", columns)};
  const Json facts = {{"runs", runs},
                      {"peaks", difference.peaks},
                      {"by_line", difference.by_line},
                      {"classes", difference.class_bytes},
                      {"changes", changes_json(changes)},
                      {"more", changes.size() - shown},
                      {"more_bytes", rest},
                      {"columns", columns.description()}};
  return assemble_page({.title = "Memory of two runs: " + job_name(a.name) + " and " + job_name(b.name),
                        .facts = facts,
                        .data = {columns.packed()},
                        .script = kDiffScript});
}

}  // namespace stweaver
