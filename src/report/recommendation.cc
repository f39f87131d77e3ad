#include "report/recommendation.h"

#include <cstddef>

#include <fmt/format.h>

#include "report/configuration_words.h"
#include "report/table.h"
#include "report/wording.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

/// Nothing where there are no lines.
std::string headed(const char* head, const std::string& lines) {
  return lines.empty() ? "" : fmt::format("\n{}:\n{}", head, lines);
}

}  // namespace

std::string advise_text(const Recommendation& advice) {
  if (advice.choices.empty() && advice.front.stopped)
    return fmt::format("stopped after {} configurations, none of which fits in {:.1f} GiB\n",
                       advice.front.evaluations, to_gib(static_cast<Bytes>(advice.memory)));
  if (advice.choices.empty())
    return fmt::format(
        "none of {} configurations fits in {:.1f} GiB: more GPUs, a larger GPU, a shorter sequence "
        "or more pipeline stages may help\n",
        advice.front.evaluations, to_gib(static_cast<Bytes>(advice.memory)));
  Table table(
      {"", "gpus", "layout", "mbs", "recompute", "s/step", "tokens/s",
       advice.price ? "price/Gtoken" : "GPU h/Gtoken", "planned GiB", "expandable", "default", "longer"},
      "rrlrlrrrrrrr");
  std::string megatron;
  std::string torchtitan;
  std::string deepspeed;
  for (std::size_t i = 0; i < advice.choices.size(); ++i) {
    const auto& [choice, reservation] = advice.choices[i];
    const Configuration& how = choice.configuration;
    table.add_row(
        {std::to_string(i + 1), std::to_string(how.gpus), layout_of(how), std::to_string(how.micro_batch),
         recompute_of(how) + (how.offload_optimizer ? ", offload" : ""),
         fmt::format("{:.3g}", choice.seconds), fmt::format("{:.0f}", choice.rate()),
         fmt::format("{:.4g}", choice.cost() * advice.price.value_or(1)),
         fmt::format("{:.1f}", to_gib(reservation.planned)),
         fmt::format("{:.1f}", to_gib(reservation.expandable)),
         fmt::format("{:.1f}", to_gib(reservation.native)), fmt::format("{:.1f}x", choice.headroom)});
    const Job job{.model = advice.model, .gpu = advice.gpu, .configuration = how};
    const auto add = [i](std::string& to, const std::optional<std::string>& settings) {
      if (settings) to += fmt::format("{}: {}\n", i + 1, *settings);
    };
    add(megatron, megatron_arguments(job));
    add(torchtitan, torchtitan_arguments(job));
    add(deepspeed, deepspeed_configuration(job));
  }
  return table.text() +
         fmt::format("{} of {} on the front, from {} {} configurations in {:.2f} s{}\n",
                     advice.choices.size(), advice.front.choices.size(),
                     advice.front.exhaustive ? "all" : "a search of", advice.front.evaluations,
                     advice.seconds, advice.front.stopped ? ", stopped early" : "") +
         headed("for Megatron-LM", megatron) + headed("for torchtitan", torchtitan) +
         headed("for DeepSpeed", deepspeed);
}

Json advise_json(const Recommendation& advice) {
  Json out = {{"model", advice.model.name},
              {"gpu", advice.gpu.name},
              {"evaluations", advice.front.evaluations},
              {"exhaustive", advice.front.exhaustive},
              {"seconds", advice.seconds},
              {"front", advice.front.choices.size()},
              {"stopped", advice.front.stopped},
              {"max_memory", static_cast<Bytes>(advice.memory)}};
  Json choices = Json::array();
  for (const auto& [choice, reservation] : advice.choices) {
    const Configuration& how = choice.configuration;
    const Job job{.model = advice.model, .gpu = advice.gpu, .configuration = how};
    choices.push_back({{"configuration", configuration_json(how)},
                       {"step_seconds", choice.seconds},
                       {"tokens_per_second", choice.rate()},
                       {"gpu_hours_per_billion_tokens", choice.cost()},
                       {"headroom", choice.headroom},
                       {"live", static_cast<Bytes>(choice.memory)},
                       {"requested", reservation.requested},
                       {"reserved", reservation.planned},
                       {"reserved_native", reservation.native},
                       {"reserved_expandable", reservation.expandable},
                       {"stage", choice.stage}});
    choices.back().update(settings_json(job));
  }
  out["choices"] = std::move(choices);
  return out;
}

}  // namespace stweaver
