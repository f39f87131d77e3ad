#include "report/comparison_answer.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "report/serving_answer.h"
#include "report/table.h"
#include "report/wording.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

std::string reserved_cell(const Reserved& reserved) {
  return gib_text(reserved.peak) + (reserved.measured ? " " : "*");
}

/// "... GiB less than" or "... GiB more than".
std::string difference_text(Bytes ours, Bytes theirs) {
  return fmt::format("{} GiB {} than", gib_text(std::abs(theirs - ours)), ours <= theirs ? "less" : "more");
}

/// One sentence on what was saved.
std::string saving_sentence(const std::vector<Comparison>& all) {
  const auto sum = [&all](auto value) {
    return std::accumulate(all.begin(), all.end(), Bytes{0},
                           [&](Bytes total, const Comparison& job) { return total + value(job); });
  };
  const Bytes requested = sum([](const Comparison& job) { return job.requested_peak; });
  const Bytes ours = sum([](const Comparison& job) { return job.stweaver.replay.reserved_peak; });
  const Bytes native = sum([](const Comparison& job) { return job.native.peak; });
  const Bytes expandable = sum([](const Comparison& job) { return job.expandable.peak; });
  const std::string who =
      all.size() == 1 ? "the job reserves" : fmt::format("these {} jobs reserve", all.size());
  return fmt::format(
      "Asking for {} GiB, {} {} GiB with STWeaver:\n{} with PyTorch's default, {} with expandable "
      "segments.\n",
      gib_text(requested), who, gib_text(ours), difference_text(ours, native),
      difference_text(ours, expandable));
}

/// Which jobs were planned from their whole traces.
std::string seen_whole(const std::vector<Comparison>& comparisons) {
  std::string names;
  for (const Comparison& job : comparisons) {
    if (job.planned_steps < job.steps) continue;
    names += (names.empty() ? "" : ", ") + job_name(job.trace);
  }
  if (names.empty()) return names;
  return "Fewer than two steps are to be seen in " + names + ": planned from all that was served.\n";
}

/// What jobs reserve that begin without a plan.
std::string online_text(const std::vector<Comparison>& comparisons) {
  Table table({"job", "whole job", "", "before plan", "planning", "plans", "steady", "", "steps"},
              "lrrrrrrrr");
  for (const Comparison& job : comparisons) {
    if (!job.online) continue;
    const Serving& online = *job.online;
    const LifeStory story = online.story.value_or(LifeStory{});
    const bool steady = story.steady_steps > 0;
    table.add_row({job_name(job.trace), gib_text(online.replay.reserved_peak),
                   efficiency_text(online.replay.efficiency()), gib_text(story.before_plan),
                   fmt::format("{:.2f} s", online.plan_seconds), std::to_string(online.statistics.plans),
                   steady ? gib_text(story.steady.reserved) : "-",
                   steady ? efficiency_text(efficiency_of(story.steady)) : "-",
                   fmt::format("{} of {}", story.steady_steps, job.steps)});
  }
  return "\nThe same jobs without a plan from before: the first steps are recorded,\n"
         "the plan is adopted at a step boundary, `steady` is what is reserved in the steps since the last "
         "plan.\n\n" +
         table.text();
}

Json reserved_json(const Reserved& reserved) {
  return {{"reserved_peak", reserved.peak},
          {"efficiency", reserved.efficiency},
          {"source", reserved.measured ? "measured" : "simulated"}};
}

}  // namespace

std::string compare_text(const std::vector<Comparison>& comparisons) {
  Table table({"job", "requests", "requested", "native ", "", "expandable ", "", "STWeaver", "", "waste cut"},
              "lrrrrrrrrr");
  for (const Comparison& job : comparisons) {
    table.add_row(
        {job_name(job.trace), std::to_string(job.requests), gib_text(job.requested_peak),
         reserved_cell(job.native), efficiency_text(job.native.efficiency), reserved_cell(job.expandable),
         efficiency_text(job.expandable.efficiency), gib_text(job.stweaver.replay.reserved_peak),
         efficiency_text(job.stweaver.replay.efficiency()), percent_text(job.reduction(job.native))});
  }
  std::string text = "GiB reserved at most, and the share of it that was asked for\n\n" + table.text();
  text +=
      "\n* simulated; what has none was measured by the job itself. waste cut: fragmentation reduction\n"
      "against native. STWeaver planned from the steps before the last (from the first third where steps\n"
      "differ) and served the whole job in real memory; no two living blocks shared a byte.\n" +
      seen_whole(comparisons);
  if (std::any_of(comparisons.begin(), comparisons.end(),
                  [](const Comparison& job) { return job.online.has_value(); }))
    text += online_text(comparisons);
  return text + "\n" + saving_sentence(comparisons);
}

Json compare_json(const std::vector<Comparison>& comparisons) {
  Json all = Json::array();
  for (const Comparison& job : comparisons) {
    Json allocators = {{"native", reserved_json(job.native)},
                       {"expandable", reserved_json(job.expandable)},
                       {"stweaver", serving_json(job.stweaver)}};
    allocators["stweaver"]["planned_steps"] = job.planned_steps;
    if (job.online) allocators["online"] = serving_json(*job.online);
    all.push_back({{"trace", job.trace},
                   {"requests", job.requests},
                   {"steps", job.steps},
                   {"requested_peak", job.requested_peak},
                   {"lower_bound", job.lower_bound},
                   {"allocators", allocators},
                   {"reduction",
                    {{"native", job.reduction(job.native)}, {"expandable", job.reduction(job.expandable)}}}});
  }
  return all;
}

std::string report_text(const Written& written, const std::vector<Comparison>& comparisons) {
  std::string text =
      saving_sentence(comparisons) + fmt::format("{}: {} in {:.1f} MiB; open it in a browser\n",
                                                 printable(written.page), counted(comparisons.size(), "job"),
                                                 static_cast<double>(written.bytes) / kMiB);
  for (const std::string& file : written.snapshots)
    text += printable(file) + ": a snapshot; drop it into PyTorch's memory_viz\n";
  if (!written.perfetto.empty())
    text += printable(written.perfetto) + ": a trace; open it in ui.perfetto.dev\n";
  return text;
}

Json report_json(const Written& written, const std::vector<Comparison>& comparisons) {
  return {{"file", written.page},
          {"bytes", written.bytes},
          {"snapshots", written.snapshots},
          {"perfetto", written.perfetto.empty() ? Json() : Json(written.perfetto)},
          {"jobs", compare_json(comparisons)}};
}

}  // namespace stweaver
