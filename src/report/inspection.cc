#include "report/inspection.h"

#include <array>

#include <fmt/format.h>

#include "report/table.h"
#include "report/wording.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

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

}  // namespace

std::string inspect_text(const Trace& trace, const Profile& profile, const Summary& summary) {
  std::string text =
      fmt::format("{}: device {}, {} in {}, {} of different size\n", job_name(trace.name), trace.device,
                  counted(summary.requests, "request"), counted(summary.streams, "stream"), summary.sizes);
  text += steps_text(profile.steps) + "\n";
  text += fmt::format("peak requested {} GiB, lower bound {} GiB (sizes rounded up to {} bytes)\n\n",
                      gib_text(summary.peak_requested), gib_text(summary.lower_bound), kAlignment);
  Table classes({"class", "requests", "peak GiB", ""}, "lrrl");
  constexpr std::array kMeaning = {"never freed, or outlives a step", "crosses phases", "within one phase"};
  for (std::size_t c = 0; c < kClassNames.size(); ++c) {
    classes.add_row({kClassNames.at(c), std::to_string(summary.by_class[c]),
                     gib_text(summary.peak_by_class[c]), kMeaning.at(c)});
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

}  // namespace stweaver
