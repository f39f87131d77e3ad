#include "report/diff_page.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
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

/// The step in which `time` lies, or what lies between the steps around it; and how many steps begin by then.
struct PeakSpan {
  Lifespan span;
  bool is_step = false;
  std::size_t begun = 0;
};

PeakSpan peak_span(Time time, const std::vector<Lifespan>& steps, Time end) {
  const auto next = std::ranges::upper_bound(steps, time, {}, &Lifespan::lower);
  const auto begun = static_cast<std::size_t>(next - steps.begin());
  const Lifespan last = begun == 0 ? Lifespan{0, 0} : *std::prev(next);
  if (time < last.upper) return {.span = last, .is_step = true, .begun = begun};
  return {.span = {last.upper, next == steps.end() ? end : next->lower}, .is_step = false, .begun = begun};
}

/// Adds a run's curve around its peak to the columns; gives what else there is to say of it.
Json run_json(const Trace& trace, Time peak, const std::string& name, Columns& columns) {
  const std::vector<Lifespan> steps = find_steps(trace).spans;
  const auto [span, is_step, begun] = peak_span(std::max<Time>(peak, 0), steps, trace.end);
  const Curve curve = requested_curve(trace);
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
          {"is_step", is_step},
          {"begun", begun},
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
  const auto& [peak_a, peak_b] = difference.peak_times;
  const Json runs = {run_json(a, peak_a, "before", columns), run_json(b, peak_b, "now", columns)};
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
