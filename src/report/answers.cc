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
  const Bytes ours = sum([](const Comparison& job) { return job.stweaver.replay.reserved_peak; });
  const Bytes native = sum([](const Comparison& job) { return job.native.peak; });
  const Bytes expandable = sum([](const Comparison& job) { return job.expandable.peak; });
  const std::string who =
      all.size() == 1 ? "the job reserves" : fmt::format("these {} jobs reserve", all.size());
  return fmt::format(
      "Asking for {} GiB, {} {} GiB with STWeaver:\n{} with PyTorch's default, {} with expandable "
      "segments.\n",
      gib(requested), who, gib(ours), difference_text(ours, native), difference_text(ours, expandable));
}

/// 1 when there was nothing to plan.
double ratio_of(const PlanAnswer& answer) {
  if (answer.lower_bound == 0) return 1;
  return static_cast<double>(answer.peak) / static_cast<double>(answer.lower_bound);
}

double efficiency_of(const Peaks& peaks) {
  if (peaks.reserved == 0) return 1;
  return static_cast<double>(peaks.requested) / static_cast<double>(peaks.reserved);
}

/// What a life cycle adds; null for the steady state of a job that ended before it was reached.
void add_story(const LifeStory& story, Json& document) {
  const bool steady = story.steady_steps > 0;
  document["before_plan_reserved_peak"] = story.before_plan;
  document["steady_steps"] = story.steady_steps;
  document["steady_reserved_peak"] = steady ? Json(story.steady.reserved) : Json();
  document["steady_efficiency"] = steady ? Json(efficiency_of(story.steady)) : Json();
}

/// What became of a job, for `replay` and `compare` alike.
Json serving_json(const Serving& serving) {
  const RuntimeStatistics& all = serving.statistics;
  Json missed;
  for (std::size_t reason = 0; reason < kUnplannedReasons; ++reason)
    missed[std::string(name_of(static_cast<Unplanned>(reason)))] = all.served.unplanned.at(reason);
  Json document = {{"reserved_peak", serving.replay.reserved_peak},
                   {"efficiency", serving.replay.efficiency()},
                   {"arena", all.arena},
                   {"fallback_reserved_peak", all.peaks.fallback_reserved},
                   {"hits", all.served.in_plan()},
                   {"misses", all.served.beside_plan()},
                   {"planned", all.served.planned},
                   {"reused", all.served.reused},
                   {"missed", missed},
                   {"waits", all.waits},
                   {"events", all.events},
                   {"maps", all.mapping.maps},
                   {"unmaps", all.mapping.unmaps},
                   {"idle_waits", all.mapping.idle_waits},
                   {"plans", all.plans},
                   {"plan_seconds", serving.plan_seconds},
                   {"ooms", serving.replay.ooms},
                   {"corrupt_blocks", serving.replay.corrupt_blocks},
                   {"seconds", serving.replay.seconds},
                   {"ns_per_event", serving.replay.ns_per_event}};
  if (serving.story) add_story(*serving.story, document);
  document["log"] = serving.log;
  return document;
}

/// "; 3 unknown, 1 too large", or nothing.
std::string reasons_text(const Served& served) {
  std::string text;
  for (std::size_t reason = 0; reason < kUnplannedReasons; ++reason) {
    if (served.unplanned.at(reason) == 0) continue;
    std::string name(name_of(static_cast<Unplanned>(reason)));
    std::replace(name.begin(), name.end(), '_', ' ');
    text += fmt::format("{}{} {}", text.empty() ? ": " : ", ", served.unplanned.at(reason), name);
  }
  return text;
}

std::string steady_text(const LifeStory& story) {
  std::string text = fmt::format("before the first plan {} GiB reserved at most", gib(story.before_plan));
  if (story.steady_steps == 0) return text + "; the job ended before a plan was adopted\n";
  return text + fmt::format("; since the last one {}, {}, in {}\n", gib(story.steady.reserved) + " GiB",
                            efficiency_text(efficiency_of(story.steady)),
                            counted(static_cast<std::size_t>(story.steady_steps), "step"));
}

/// What only STWeaver has: plans, and requests that they served.
std::string plans_text(const Serving& serving) {
  const RuntimeStatistics& all = serving.statistics;
  std::string text = fmt::format("{}, planned in {:.2f} s; arena {} GiB, fallback {} GiB at most\n",
                                 counted(static_cast<std::size_t>(all.plans), "plan"), serving.plan_seconds,
                                 gib(all.arena), gib(all.peaks.fallback_reserved));
  text +=
      fmt::format("requests: {} at their planned place, {} elsewhere in the plan's range, {} unplanned{}\n",
                  all.served.planned, all.served.reused, all.served.beside_plan(), reasons_text(all.served));
  if (all.events > 0) {
    text += fmt::format("memory changed streams behind {} and {}\n",
                        counted(static_cast<std::size_t>(all.events), "event"),
                        counted(static_cast<std::size_t>(all.waits), "wait"));
  }
  if (serving.story) text += steady_text(*serving.story);
  for (const std::string& line : serving.log) text += "  " + printable(line) + "\n";
  return text;
}

std::string verdict_text(const ReplayResult& replay) {
  std::string text;
  if (replay.ooms > 0) {
    text += fmt::format("out of memory: {} could not be served, the job would have died at the first\n",
                        counted(static_cast<std::size_t>(replay.ooms), "request"));
  }
  if (replay.corrupt_blocks == 0) return text + "no two living blocks shared a byte\n";
  return text + fmt::format("{} corrupt: {}\n",
                            counted(static_cast<std::size_t>(replay.corrupt_blocks), "block"),
                            replay.corruption);
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
    table.add_row({job_name(job.trace), gib(online.replay.reserved_peak),
                   efficiency_text(online.replay.efficiency()), gib(story.before_plan),
                   fmt::format("{:.2f} s", online.plan_seconds), std::to_string(online.statistics.plans),
                   steady ? gib(story.steady.reserved) : "-",
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
  if (answer.unplanned > 0) text += fmt::format("{} of them unplanned, ", answer.unplanned);
  text += fmt::format("planned in {:.2f} s on {} by `{}`\n", answer.seconds,
                      counted(static_cast<std::size_t>(answer.threads), "thread"), answer.winner);
  text += fmt::format("peak {} GiB ({} bytes), lower bound {} GiB, ratio {:.6f}\n", gib(answer.peak),
                      answer.peak, gib(answer.lower_bound), ratio_of(answer));
  if (answer.stream_gap > 0) {
    text += fmt::format("memory passes between streams after {} requests at least, behind an event wait\n",
                        answer.stream_gap);
  }
  if (answer.stopped) text += "stopped before its time: this is the best plan until then\n";
  return text;
}

Json plan_json(const PlanAnswer& answer) {
  return {{"trace", answer.name},
          {"requests", answer.requests},
          {"unplanned", answer.unplanned},
          {"lower_bound", answer.lower_bound},
          {"peak", answer.peak},
          {"gap", answer.peak - answer.lower_bound},
          {"ratio", ratio_of(answer)},
          {"seconds", answer.seconds},
          {"threads", answer.threads},
          {"winner", answer.winner},
          {"stream_gap", answer.stream_gap},
          {"stopped", answer.stopped}};
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

std::string replay_text(const Trace& trace, std::size_t steps, const Serving& serving) {
  const ReplayResult& replay = serving.replay;
  const bool ours = serving.allocator == AllocatorKind::kStweaver;
  return fmt::format("{}: {} in {} served by `{}` on {} in {:.2f} s, {:.0f} ns per allocation or free\n",
                     job_name(trace.name), counted(trace.requests.size(), "request"), counted(steps, "step"),
                     name_of(serving.allocator), printable(serving.device), replay.seconds,
                     replay.ns_per_event) +
         fmt::format("peak requested {} GiB, reserved {} GiB: efficiency {}\n", gib(replay.requested_peak),
                     gib(replay.reserved_peak), efficiency_text(replay.efficiency())) +
         (ours ? plans_text(serving) : "") + verdict_text(replay);
}

Json replay_json(const Trace& trace, std::size_t steps, const Serving& serving) {
  Json document = {{"trace", trace.name},      {"allocator", name_of(serving.allocator)},
                   {"device", serving.device}, {"requests", trace.requests.size()},
                   {"steps", steps},           {"requested_peak", serving.replay.requested_peak}};
  document.update(serving_json(serving));
  return document;
}

std::string compare_text(const std::vector<Comparison>& comparisons) {
  Table table({"job", "requests", "requested", "native ", "", "expandable ", "", "STWeaver", "", "waste cut"},
              "lrrrrrrrrr");
  for (const Comparison& job : comparisons) {
    table.add_row({job_name(job.trace), std::to_string(job.requests), gib(job.requested_peak),
                   reserved_cell(job.native), efficiency_text(job.native.efficiency),
                   reserved_cell(job.expandable), efficiency_text(job.expandable.efficiency),
                   gib(job.stweaver.replay.reserved_peak), efficiency_text(job.stweaver.replay.efficiency()),
                   percent(job.reduction(job.native))});
  }
  std::string text = "GiB reserved at most, and the share of it that was asked for\n\n" + table.text();
  text +=
      "\n* simulated; native without it was measured by the job itself. waste cut: fragmentation reduction\n"
      "against native. STWeaver planned from the steps before the last (from the first third where steps\n"
      "differ) and served the whole job in real memory; no two living blocks shared a byte.\n";
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

std::string report_text(const std::string& file, std::size_t bytes,
                        const std::vector<Comparison>& comparisons) {
  return saving_sentence(comparisons) + fmt::format("{}: {} in {:.1f} MiB; open it in a browser\n",
                                                    printable(file), counted(comparisons.size(), "job"),
                                                    static_cast<double>(bytes) / kMiB);
}

Json report_json(const std::string& file, std::size_t bytes, const std::vector<Comparison>& comparisons) {
  return {{"file", file}, {"bytes", bytes}, {"jobs", compare_json(comparisons)}};
}

}  // namespace stweaver
