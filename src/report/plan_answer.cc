#include "report/plan_answer.h"

#include <fmt/format.h>

#include "report/table.h"
#include "report/wording.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

/// 1 when there was nothing to plan.
double ratio_of(const PlanAnswer& answer) {
  if (answer.lower_bound == 0) return 1;
  return static_cast<double>(answer.peak) / static_cast<double>(answer.lower_bound);
}

}  // namespace

std::string plan_text(const PlanAnswer& answer) {
  std::string text = fmt::format("{}: {}, ", job_name(answer.name), counted(answer.requests, "request"));
  if (answer.unplanned > 0) text += fmt::format("{} of them unplanned, ", answer.unplanned);
  text += fmt::format("planned in {:.2f} s on {} by `{}`\n", answer.seconds,
                      counted(static_cast<std::size_t>(answer.threads), "thread"), answer.winner);
  text += fmt::format("peak {} GiB ({} bytes), lower bound {} GiB, ratio {:.6f}\n", gib_text(answer.peak),
                      answer.peak, gib_text(answer.lower_bound), ratio_of(answer));
  if (answer.stream_gap > 0) {
    text += fmt::format("memory passes between streams after {} requests at least, behind an event wait\n",
                        answer.stream_gap);
  }
  if (answer.steps_differ)
    text += "its steps differ, each in sizes of its own: the run time follows no plan of them\n";
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
          {"steps_differ", answer.steps_differ},
          {"stopped", answer.stopped}};
}

std::string check_text(const CheckAnswer& answer) {
  if (answer.violations.empty())
    return fmt::format("ok: {} of {} planned, and no two that live at the same time share a byte\n",
                       answer.planned, counted(answer.requests, "request"));
  std::string text = "the plan is wrong:\n";
  for (const std::string& violation : answer.violations) text += "  " + printable(violation) + "\n";
  return text;
}

Json check_json(const CheckAnswer& answer) {
  return {{"ok", answer.violations.empty()},
          {"requests", answer.requests},
          {"planned", answer.planned},
          {"violations", answer.violations}};
}

}  // namespace stweaver
