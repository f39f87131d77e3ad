#include "report/front_page.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "advise/advise.h"
#include "report/columns.h"
#include "report/configuration_words.h"
#include "report/curve.h"
#include "report/page_files.h"
#include "report/page_template.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

// More lines than these nobody tells apart.
constexpr std::size_t kMostChoices = 100;
constexpr int kMostStages = 8;
constexpr std::size_t kSmallCurvePoints = 200;
/// Bytes are told in these, far less than a pixel.
constexpr Bytes kUnit = 64 * kKiB;

/// The stages of a pipeline that are shown: all, or the first, the last and some between.
std::vector<int> shown_stages(int stages) {
  const int count = std::min(stages, kMostStages);
  std::vector<int> shown;
  shown.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) shown.push_back(count == 1 ? 0 : i * (stages - 1) / (count - 1));
  return shown;
}

/// Points of all curves, one after another.
struct Points {
  std::vector<std::uint64_t> times;  ///< since the point before
  std::vector<std::uint64_t> bytes;  ///< in units
};

/// A rank's last step, which is like all others; adds its points.
Json stage_json(const Job& job, int stage, Points& points) {
  const Trace trace = rank_trace(job, stage);
  const Lifespan step{trace.marks[trace.marks.size() - 2].time, trace.end};
  const Curve curve = downsample(part_of(requested_curve(trace), step), kSmallCurvePoints);
  Time last = 0;
  for (const Reserve& point : curve) {
    points.times.push_back(static_cast<std::uint64_t>(point.time - last));
    points.bytes.push_back(static_cast<std::uint64_t>(point.bytes / kUnit));
    last = point.time;
  }
  return {{"stage", stage}, {"events", step.upper - step.lower}, {"points", curve.size()}};
}

Json choice_json(const Recommendation& advice, const Choice& choice, Points& points) {
  const Configuration& how = choice.configuration;
  const Job job = job_of(advice, how);
  Json stages = Json::array();
  for (const int stage : shown_stages(how.pp)) stages.push_back(stage_json(job, stage, points));
  return {{"configuration", configuration_json(how)},
          {"layout", layout_of(how)},
          {"recompute", recompute_of(how)},
          {"seconds", choice.seconds},
          {"rate", choice.rate()},
          {"cost", choice.cost() * advice.price.value_or(1)},
          {"memory", static_cast<Bytes>(choice.memory)},
          {"stage", choice.stage},
          {"headroom", choice.headroom},
          {"settings", settings_json(job, advice.frameworks)},
          {"stages", std::move(stages)}};
}

bool is_same(const Choice& a, const Choice& b) {
  return a.seconds == b.seconds && a.memory == b.memory &&
         configuration_json(a.configuration) == configuration_json(b.configuration);
}

/// The choices of the answer, by their numbers there, and others that differ most.
Json choices_json(const Recommendation& advice, Points& points) {
  std::vector<Choice> others = clear_choices(advice.front, advice.objectives, kMostChoices);
  Json choices = Json::array();
  for (std::size_t i = 0; i < advice.choices.size(); ++i) {
    const Choice& choice = advice.choices[i].choice;
    const auto& reservation = advice.choices[i].reservation;
    std::erase_if(others, [&](const Choice& other) { return is_same(other, choice); });
    choices.push_back(choice_json(advice, choice, points));
    choices.back()["number"] = i + 1;
    choices.back()["reserved"] = {reservation.native, reservation.expandable, reservation.planned};
  }
  for (const Choice& choice : others) choices.push_back(choice_json(advice, choice, points));
  return choices;
}

}  // namespace

std::string front_page_html(const Recommendation& advice) {
  Points points;
  const Json choices = choices_json(advice, points);
  Columns columns;
  columns.add("times", points.times);
  columns.add("bytes", points.bytes);
  const Json facts = {{"model", advice.model.name},
                      {"gpu", advice.gpu.name},
                      {"limit", static_cast<Bytes>(advice.memory)},
                      {"priced", advice.price.has_value()},
                      {"front", advice.front.choices.size()},
                      {"evaluations", advice.front.evaluations},
                      {"exhaustive", advice.front.exhaustive},
                      {"stopped", advice.front.stopped},
                      {"unit", kUnit},
                      {"choices", choices},
                      {"columns", columns.description()}};
  return assemble_page({.title = "Configurations of " + advice.model.name,
                        .facts = facts,
                        .data = {columns.packed()},
                        .script = kFrontScript});
}

}  // namespace stweaver
