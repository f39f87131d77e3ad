#include "report/answers.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "report/table.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

std::string gib(Bytes bytes) {
  return fmt::format("{:.2f}", to_gib(bytes));
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

/// An efficiency, with so many digits that 99.98 % does not read 100 %.
std::string efficiency_text(double efficiency) {
  return fmt::format("{:.2f} %", std::min(100 * efficiency, efficiency < 1 ? 99.99 : 100.0));
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string steps_text(const Steps& steps) {
  switch (steps.source) {
    case StepSource::kMarks:
      return counted(steps.spans.size(), "step") + ", as marked by the job";
    case StepSource::kRepetition:
      return counted(steps.spans.size(), "step") + ", found by repetition";
    case StepSource::kNone:
      break;
  }
  return "no steps: " + steps.note;
}

std::string source_name(StepSource source) {
  return source == StepSource::kMarks ? "marks" : source == StepSource::kRepetition ? "repetition" : "none";
}

std::string reserved_cell(const Reserved& reserved) {
  return gib(reserved.peak) + (reserved.measured ? " " : "*");
}

/// "... GiB less than" or "... GiB more than".
std::string difference_text(Bytes ours, Bytes theirs) {
  return fmt::format("{} GiB {} than", gib(std::abs(theirs - ours)), ours <= theirs ? "less" : "more");
}

/// One sentence on what was saved.
std::string saving_sentence(const std::vector<Comparison>& all) {
  const auto sum = [&all](auto value) {
    return std::accumulate(all.begin(), all.end(), Bytes{0},
                           [&](Bytes total, const Comparison& job) { return total + value(job); });
  };
  const Bytes requested = sum([](const Comparison& job) { return job.requested_peak; });
  const Bytes ours = sum([](const Comparison& job) { return job.stweaver.reserved_peak; });
  const Bytes native = sum([](const Comparison& job) { return job.native.peak; });
  const Bytes expandable = sum([](const Comparison& job) { return job.expandable.peak; });
  const std::string who =
      all.size() == 1 ? "the job reserves" : fmt::format("these {} jobs reserve", all.size());
  return fmt::format(
      "Asking for {} GiB, {} {} GiB with STWeaver: {} with PyTorch's default, {} with expandable segments.\n",
      gib(requested), who, gib(ours), difference_text(ours, native), difference_text(ours, expandable));
}

/// 1 when there was nothing to plan.
double ratio_of(const PlanAnswer& answer) {
  if (answer.lower_bound == 0) return 1;
  return static_cast<double>(answer.peak) / static_cast<double>(answer.lower_bound);
}

Json reserved_json(const Reserved& reserved) {
  return {{"reserved_peak", reserved.peak},
          {"efficiency", reserved.efficiency},
          {"source", reserved.measured ? "measured" : "simulated"}};
}

}  // namespace

std::string job_name(const std::string& path) {
  std::string name = printable(std::filesystem::path(path).filename().string());
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view ending : {".gz", ".xz", ".zst", ".pickle", ".pkl"}) {
      if (!name.ends_with(ending) || name.size() == ending.size()) continue;
      name.resize(name.size() - ending.size());
      cut = true;
    }
  }
  return name;
}

std::string inspect_text(const Trace& trace, const Profile& profile, const Summary& summary) {
  std::string text =
      fmt::format("{}: device {}, {} in {}, {} of different size\n", job_name(trace.name), trace.device,
                  counted(summary.requests, "request"), counted(summary.streams, "stream"), summary.sizes);
  text += steps_text(profile.steps) + "\n";
  text += fmt::format("peak requested {} GiB, lower bound {} GiB (sizes rounded up to {} bytes)\n\n",
                      gib(summary.peak_requested), gib(summary.lower_bound), kAlignment);
  Table classes({"class", "requests", "peak GiB", ""}, "lrrl");
  constexpr std::array kClasses = {"persistent", "scoped", "transient"};
  constexpr std::array kMeaning = {"never freed, or outlives a step", "crosses phases", "within one phase"};
  for (std::size_t c = 0; c < kClasses.size(); ++c) {
    classes.add_row(
        {kClasses[c], std::to_string(summary.by_class[c]), gib(summary.peak_by_class[c]), kMeaning[c]});
  }
  text += classes.text();
  if (profile.pattern.positions.empty()) return text;
  text += fmt::format("\nthe step that repeats: {}, {} static, {} varying, {} dynamic; prologue: {}\n",
                      counted(profile.pattern.positions.size(), "request"), summary.by_kind[0],
                      summary.by_kind[1], summary.by_kind[2], counted(profile.pattern.prologue, "request"));
  return text;
}

Json inspect_json(const Trace& trace, const Profile& profile, const Summary& summary) {
  Json spans = Json::array();
  for (const Lifespan& step : profile.steps.spans) spans.push_back({step.lower, step.upper});
  return {{"trace", trace.name},
          {"device", trace.device},
          {"requests", summary.requests},
          {"steps", summary.steps},
          {"step_source", source_name(profile.steps.source)},
          {"step_events", spans},
          {"streams", summary.streams},
          {"sizes", summary.sizes},
          {"peak_requested", summary.peak_requested},
          {"lower_bound", summary.lower_bound},
          {"classes",
           {{"persistent", summary.by_class[0]},
            {"scoped", summary.by_class[1]},
            {"transient", summary.by_class[2]}}},
          {"prologue_requests", profile.pattern.prologue},
          {"step_requests", profile.pattern.positions.size()},
          {"static_requests", summary.by_kind[0]},
          {"varying_requests", summary.by_kind[1]},
          {"dynamic_requests", summary.by_kind[2]}};
}

std::string plan_text(const PlanAnswer& answer) {
  std::string text = fmt::format("{}: {}, ", job_name(answer.name), counted(answer.requests, "request"));
  if (answer.unplanned > 0) text += fmt::format("{} of them left to the fallback, ", answer.unplanned);
  text += fmt::format("planned in {:.2f} s on {} by `{}`\n", answer.seconds,
                      counted(static_cast<std::size_t>(answer.threads), "thread"), answer.winner);
  text += fmt::format("peak {} GiB ({} bytes), lower bound {} GiB, ratio {:.6f}\n", gib(answer.peak),
                      answer.peak, gib(answer.lower_bound), ratio_of(answer));
  if (answer.stream_gap > 0) {
    text += fmt::format("memory passes between streams after {} requests at least, behind an event wait\n",
                        answer.stream_gap);
  }
  return text;
}

Json plan_json(const PlanAnswer& answer) {
  return {{"trace", answer.name},          {"requests", answer.requests},
          {"unplanned", answer.unplanned}, {"lower_bound", answer.lower_bound},
          {"peak", answer.peak},           {"ratio", ratio_of(answer)},
          {"seconds", answer.seconds},     {"threads", answer.threads},
          {"winner", answer.winner},       {"stream_gap", answer.stream_gap}};
}

std::string check_text(const std::vector<std::string>& violations) {
  if (violations.empty()) return "ok: no two requests that live at the same time share a byte\n";
  std::string text = "the plan is wrong:\n";
  for (const std::string& violation : violations) text += "  " + printable(violation) + "\n";
  return text;
}

Json check_json(const std::vector<std::string>& violations) {
  return {{"ok", violations.empty()}, {"violations", violations}};
}

std::string compare_text(const std::vector<Comparison>& comparisons) {
  Table table({"job", "requests", "requested", "native ", "", "expandable ", "", "STWeaver", "", "waste cut"},
              "lrrrrrrrrr");
  for (const Comparison& job : comparisons) {
    table.add_row({job_name(job.trace), std::to_string(job.requests), gib(job.requested_peak),
                   reserved_cell(job.native), efficiency_text(job.native.efficiency),
                   reserved_cell(job.expandable), efficiency_text(job.expandable.efficiency),
                   gib(job.stweaver.reserved_peak), efficiency_text(job.stweaver.efficiency),
                   percent(job.reduction(job.native))});
  }
  std::string text = "GiB reserved at most, and the share of it that was asked for\n\n" + table.text();
  text +=
      "\n* simulated; native without it was measured by the job itself. waste cut: fragmentation reduction "
      "against "
      "native.\nSTWeaver planned from the steps before the last (from the first third where steps differ) "
      "and served "
      "the whole job.\n\n";
  return text + saving_sentence(comparisons);
}

Json compare_json(const std::vector<Comparison>& comparisons) {
  Json all = Json::array();
  for (const Comparison& job : comparisons) {
    const Woven& ours = job.stweaver;
    all.push_back({{"trace", job.trace},
                   {"requests", job.requests},
                   {"steps", job.steps},
                   {"requested_peak", job.requested_peak},
                   {"lower_bound", job.lower_bound},
                   {"allocators",
                    {{"native", reserved_json(job.native)},
                     {"expandable", reserved_json(job.expandable)},
                     {"stweaver",
                      {{"reserved_peak", ours.reserved_peak},
                       {"efficiency", ours.efficiency},
                       {"arena", ours.arena},
                       {"fallback_reserved_peak", ours.fallback_reserved_peak},
                       {"hits", ours.hits},
                       {"misses", ours.misses},
                       {"plan_seconds", ours.plan_seconds},
                       {"planned_steps", ours.planned_steps}}}}},
                   {"reduction",
                    {{"native", job.reduction(job.native)}, {"expandable", job.reduction(job.expandable)}}}});
  }
  return all;
}

}  // namespace stweaver
