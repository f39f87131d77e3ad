#include "report/difference.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "report/table.h"
#include "report/wording.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(LifeClass life) {
  return kClassNames.at(static_cast<std::size_t>(life));
}

PeakMoment peak_of(const Trace& trace) {
  const Steps steps = find_steps(trace);
  return peak_moment(trace, classify(trace, steps, find_phases(trace, steps)));
}

bool knows_lines(const Trace& trace) {
  return trace.sites.size() > 1;
}

std::string what_of(const Trace& trace, const AliveGroup& group, bool by_line) {
  if (by_line && group.site != 0) return trace.sites[group.site];
  return "requests of " + size_text(group.largest);
}

using Changes = std::map<std::pair<std::string, LifeClass>, Change>;

/// Where lines of code do not count, requests are grouped by their size whatever their line is.
Trace without_lines(Trace trace) {
  trace.sites = {""};
  for (Request& request : trace.requests) request.site = 0;
  return trace;
}

void add_side(const Trace& trace, std::size_t side, Difference& difference, Changes& changes) {
  const PeakMoment peak = peak_of(trace);
  difference.names.at(side) = trace.name;
  difference.peaks.at(side) = peak.bytes;
  difference.peak_times.at(side) = peak.time;
  for (const AliveGroup& group : peak.groups) {
    const std::string what = what_of(trace, group, difference.by_line);
    Change& change = changes[{what, group.life}];
    change.what = what;
    change.life = group.life;
    change.bytes.at(side) += group.bytes;
    change.requests.at(side) += group.requests;
    difference.class_bytes.at(static_cast<std::size_t>(group.life)).at(side) += group.bytes;
  }
}

Bytes growth_of(const Change& change) {
  return change.bytes[1] - change.bytes[0];
}

std::string signed_text(Bytes bytes) {
  return (bytes < 0 ? "" : "+") + amount_text(bytes);
}

std::string kind_of(const Change& change) {
  if (change.requests[0] == 0) return "new";
  if (change.requests[1] == 0) return "gone";
  return growth_of(change) > 0 ? "grown" : "shrunk";
}

Json both(const auto& values) {
  return {{"a", values[0]}, {"b", values[1]}};
}

}  // namespace

Difference difference_of(const Trace& a, const Trace& b) {
  Difference difference;
  difference.by_line = knows_lines(a) && knows_lines(b);
  Changes changes;
  add_side(difference.by_line ? a : without_lines(a), 0, difference, changes);
  add_side(difference.by_line ? b : without_lines(b), 1, difference, changes);
  for (const auto& [key, change] : changes) {
    if (growth_of(change) != 0) difference.changes.push_back(change);
  }
  std::ranges::stable_sort(difference.changes, std::ranges::greater{},
                           [](const Change& change) { return std::abs(growth_of(change)); });
  return difference;
}

std::string diff_text(const Difference& difference, std::size_t top) {
  const auto& [a, b] = difference.peaks;
  std::string text =
      fmt::format("{} asks for {} at most, {} for {}: {}\n", job_name(difference.names[0]), amount_text(a),
                  job_name(difference.names[1]), amount_text(b), signed_text(b - a));
  if (difference.changes.empty()) return text + "at their peaks both hold the same\n";
  Table table(
      {"", "more", "before", "now", "requests", "class", difference.by_line ? "line of code" : "requests"},
      "lrrrrll");
  const std::size_t shown = std::min(top, difference.changes.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Change& change = difference.changes[i];
    table.add_row({kind_of(change), signed_text(growth_of(change)), amount_text(change.bytes[0]),
                   amount_text(change.bytes[1]),
                   fmt::format("{} -> {}", change.requests[0], change.requests[1]), name_of(change.life),
                   printable(change.what)});
  }
  text += "\n" + table.text();
  if (shown < difference.changes.size()) {
    Bytes rest = 0;
    for (std::size_t i = shown; i < difference.changes.size(); ++i) rest += growth_of(difference.changes[i]);
    text += fmt::format("and {} smaller changes, {} together\n", difference.changes.size() - shown,
                        signed_text(rest));
  }
  return text;
}

Json diff_json(const Difference& difference) {
  Json document = {{"peak", both(difference.peaks)}, {"matched_by", difference.by_line ? "line" : "size"}};
  for (std::size_t i = 0; i < kClassNames.size(); ++i)
    document["classes"][kClassNames.at(i)] = both(difference.class_bytes.at(i));
  for (const char* const kind : {"grown", "shrunk", "new", "gone"}) document[kind] = Json::array();
  for (const Change& change : difference.changes) {
    document[kind_of(change)].push_back({{"what", change.what},
                                         {"class", name_of(change.life)},
                                         {"bytes", both(change.bytes)},
                                         {"requests", both(change.requests)}});
  }
  return document;
}

}  // namespace stweaver
