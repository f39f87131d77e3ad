#include "report/serving_answer.h"

#include <algorithm>

#include <fmt/format.h>

#include "report/table.h"
#include "report/wording.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

/// What a life cycle adds; null for the steady state of a job that ended before it was reached.
void add_story(const LifeStory& story, Json& document) {
  const bool steady = story.steady_steps > 0;
  document["before_plan_reserved_peak"] = story.before_plan;
  document["steady_steps"] = story.steady_steps;
  document["steady_reserved_peak"] = steady ? Json(story.steady.reserved) : Json();
  document["steady_efficiency"] = steady ? Json(efficiency_of(story.steady)) : Json();
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

std::string steady_text(const Serving& serving) {
  const LifeStory& story = *serving.story;
  std::string text =
      fmt::format("before the first plan {} GiB reserved at most", gib_text(story.before_plan));
  if (serving.statistics.plans == 0) return text + "; the job ended before a plan was adopted\n";
  if (story.steady_steps == 0) return text + "\n";  // nobody marks steps
  return text + fmt::format("; since the last one {}, {}, in {}\n", gib_text(story.steady.reserved) + " GiB",
                            efficiency_text(efficiency_of(story.steady)),
                            counted(static_cast<std::size_t>(story.steady_steps), "step"));
}

/// What only STWeaver has: plans, and requests that they served.
std::string plans_text(const Serving& serving) {
  const RuntimeStatistics& all = serving.statistics;
  std::string text = fmt::format("{}, planned in {:.2f} s; arena {} GiB, fallback {} GiB at most\n",
                                 counted(static_cast<std::size_t>(all.plans), "plan"), serving.plan_seconds,
                                 gib_text(all.arena), gib_text(all.peaks.fallback_reserved));
  text +=
      fmt::format("requests: {} at their planned place, {} elsewhere in the plan's range, {} unplanned{}\n",
                  all.served.planned, all.served.reused, all.served.beside_plan(), reasons_text(all.served));
  if (all.events > 0) {
    text += fmt::format("memory changed streams behind {} and {}\n",
                        counted(static_cast<std::size_t>(all.events), "event"),
                        counted(static_cast<std::size_t>(all.waits), "wait"));
  }
  if (serving.story) text += steady_text(serving);
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

}  // namespace

double efficiency_of(const Peaks& peaks) {
  if (peaks.reserved == 0) return 1;
  return static_cast<double>(peaks.requested) / static_cast<double>(peaks.reserved);
}

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

std::string replay_text(const Trace& trace, std::size_t steps, const Serving& serving) {
  const ReplayResult& replay = serving.replay;
  const bool ours = serving.allocator == AllocatorKind::kStweaver;
  return fmt::format("{}: {} in {} served by `{}` on {} in {:.2f} s, {:.0f} ns per allocation or free\n",
                     job_name(trace.name), counted(trace.requests.size(), "request"), counted(steps, "step"),
                     name_of(serving.allocator), printable(serving.device), replay.seconds,
                     replay.ns_per_event) +
         fmt::format("peak requested {} GiB, reserved {} GiB: efficiency {}\n",
                     gib_text(replay.requested_peak), gib_text(replay.reserved_peak),
                     efficiency_text(replay.efficiency())) +
         (ours ? plans_text(serving) : "") + verdict_text(replay);
}

Json replay_json(const Trace& trace, std::size_t steps, const Serving& serving) {
  Json document = {{"trace", trace.name},      {"allocator", name_of(serving.allocator)},
                   {"device", serving.device}, {"requests", trace.requests.size()},
                   {"steps", steps},           {"requested_peak", serving.replay.requested_peak}};
  document.update(serving_json(serving));
  return document;
}

}  // namespace stweaver
