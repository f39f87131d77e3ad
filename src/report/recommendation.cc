#include "report/recommendation.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "report/configuration_words.h"
#include "report/table.h"
#include "report/wording.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

/// What a framework is told, a line for each choice that it can run, or that there is none.
std::string settings_text(const Recommendation& advice, const Framework& framework) {
  std::string lines;
  for (std::size_t i = 0; i < advice.choices.size(); ++i) {
    const auto settings = framework.settings(job_of(advice, advice.choices[i].choice.configuration));
    if (settings) lines += fmt::format("{}: {}\n", i + 1, *settings);
  }
  if (lines.empty())
    return fmt::format("\n{} can run none of these; --software {} looks for what it can\n", framework.name,
                       framework.key);
  return fmt::format("\nfor {}:\n{}", framework.name, lines);
}

/// Bytes of optimizer states that the fullest rank of a choice has on the host.
double on_host(const Recommendation& advice, const Choice& choice) {
  return live_memory(job_of(advice, choice.configuration), choice.stage).host;
}

/// What is recomputed, and what is on the host instead of the GPU.
std::string savings_of(const Recommendation& advice, const Choice& choice) {
  const double host = on_host(advice, choice);
  return recompute_of(choice.configuration) +
         (host > 0 ? fmt::format(", {:.1f} GiB offloaded", to_gib(host)) : "");
}

double error_of(double said, double measured) {
  return said / measured - 1;
}

double mean_error(const std::vector<CalibratedRank>& ranks, const auto& said) {
  double sum = 0;
  for (const CalibratedRank& rank : ranks) sum += std::abs(error_of(said(rank), rank.measured));
  return sum / static_cast<double>(ranks.size());
}

std::string calibration_text(const Recommendation& advice) {
  if (advice.ranks.empty()) return "";
  Table table({"recorded", "measured GiB", "model", "calibrated", "by the others"}, "lrrrr");
  const auto cell = [](double said, double measured) {
    return fmt::format("{:.2f} ({:+.1f} %)", to_gib(said), 100 * error_of(said, measured));
  };
  for (const CalibratedRank& rank : advice.ranks)
    table.add_row({rank.name, fmt::format("{:.2f}", to_gib(rank.measured)), cell(rank.before, rank.measured),
                   cell(rank.after, rank.measured),
                   rank.left_out ? cell(*rank.left_out, rank.measured) : "-"});
  return table.text() +
         fmt::format(
             "mean absolute error {} before, {} after; states x {:.3f}, what a step needs on top x "
             "{:.3f}\n\n",
             percent_text(mean_error(advice.ranks, [](const CalibratedRank& rank) { return rank.before; })),
             percent_text(mean_error(advice.ranks, [](const CalibratedRank& rank) { return rank.after; })),
             advice.calibration.states, advice.calibration.activations);
}

Json calibration_json(const Recommendation& advice) {
  Json ranks = Json::array();
  for (const CalibratedRank& rank : advice.ranks)
    ranks.push_back({{"name", rank.name},
                     {"measured", static_cast<Bytes>(rank.measured)},
                     {"before", static_cast<Bytes>(rank.before)},
                     {"after", static_cast<Bytes>(rank.after)},
                     {"left_out", rank.left_out ? Json(static_cast<Bytes>(*rank.left_out)) : Json()}});
  return {{"states", advice.calibration.states},
          {"activations", advice.calibration.activations},
          {"ranks", std::move(ranks)}};
}

/// What the front is of: "from all 1000 configurations".
std::string looked_at(const Front& front) {
  const char* const how = front.stopped      ? "stopped early after"
                          : front.exhaustive ? "from all"
                                             : "from a search of";
  return fmt::format("{} {} configurations", how, front.evaluations);
}

}  // namespace

std::vector<CalibratedRank> calibrated_ranks(const std::vector<RecordedRank>& ranks) {
  const Calibration all = calibrate(ranks);
  std::vector<CalibratedRank> calibrated;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RecordedRank& rank = ranks[i];
    std::vector<RecordedRank> others = ranks;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    calibrated.push_back({.name = job_name(rank.name),
                          .measured = rank.peak,
                          .before = predicted_peak(rank, {}),
                          .after = predicted_peak(rank, all),
                          .left_out = {}});
    if (!others.empty()) calibrated.back().left_out = predicted_peak(rank, calibrate(others));
  }
  return calibrated;
}

AllocatorChoice allocator_named(const std::string& name) {
  if (name == "default") return AllocatorChoice::kDefault;
  if (name == "expandable") return AllocatorChoice::kExpandable;
  if (name == "stweaver") return AllocatorChoice::kStweaver;
  fail("no allocator is called ", name, "; there are default expandable stweaver");
}

Bytes reserved_by(AllocatorChoice allocator, const Reservation& reservation) {
  switch (allocator) {
    case AllocatorChoice::kDefault:
      return reservation.native;
    case AllocatorChoice::kExpandable:
      return reservation.expandable;
    case AllocatorChoice::kStweaver:
      break;
  }
  return reservation.planned;
}

Job job_of(const Recommendation& advice, const Configuration& how) {
  return {.model = advice.model, .gpu = advice.gpu, .configuration = how, .calibration = advice.calibration};
}

std::string advise_text(const Recommendation& advice) {
  if (advice.choices.empty() && advice.front.stopped)
    return fmt::format("stopped after {} configurations, none of which fits in {:.1f} GiB\n",
                       advice.front.evaluations, to_gib(advice.memory));
  if (advice.choices.empty())
    return fmt::format(
        "none of {} configurations fits in {:.1f} GiB: more GPUs, a larger GPU, a shorter sequence "
        "or more pipeline stages may help\n",
        advice.front.evaluations, to_gib(advice.memory));
  Table table(
      {"", "gpus", "layout", "mbs", "recompute", "s/step", "tokens/s",
       advice.price ? "price/Gtoken" : "GPU h/Gtoken", "planned GiB", "expandable", "default", "longer"},
      "rrlrlrrrrrrr");
  for (std::size_t i = 0; i < advice.choices.size(); ++i) {
    const auto& [choice, reservation] = advice.choices[i];
    const Configuration& how = choice.configuration;
    table.add_row({std::to_string(i + 1), std::to_string(how.gpus), layout_of(how),
                   std::to_string(how.micro_batch), savings_of(advice, choice),
                   fmt::format("{:.3g}", choice.seconds), fmt::format("{:.0f}", choice.rate()),
                   fmt::format("{:.4g}", choice.cost() * advice.price.value_or(1)),
                   fmt::format("{:.1f}", to_gib(reservation.planned)),
                   fmt::format("{:.1f}", to_gib(reservation.expandable)),
                   fmt::format("{:.1f}", to_gib(reservation.native)),
                   fmt::format("{:.1f}x", choice.headroom)});
  }
  const Configuration& asked = advice.choices.front().choice.configuration;
  std::string settings = fmt::format("a step takes {} sequence{} of {} tokens\n", asked.global_batch,
                                     asked.global_batch > 1 ? "s" : "", asked.sequence);
  if (advice.memory == static_cast<double>(advice.gpu.memory))
    settings +=
        fmt::format("all {:.1f} GiB may be planned: --max-memory leaves a part of it to CUDA and NCCL\n",
                    to_gib(advice.memory));
  for (const Framework& framework : advice.frameworks) settings += settings_text(advice, framework);
  return calibration_text(advice) + table.text() +
         fmt::format("{} of {} on the front, {} in {:.2f} s\n", advice.choices.size(),
                     advice.front.choices.size(), looked_at(advice.front), advice.seconds) +
         settings;
}

Json advise_json(const Recommendation& advice) {
  Json out = {{"model", advice.model.name},
              {"gpu", advice.gpu.name},
              {"evaluations", advice.front.evaluations},
              {"exhaustive", advice.front.exhaustive && !advice.front.stopped},
              {"seconds", advice.seconds},
              {"front", advice.front.choices.size()},
              {"stopped", advice.front.stopped},
              {"max_memory", static_cast<Bytes>(advice.memory)}};
  Json choices = Json::array();
  for (const auto& [choice, reservation] : advice.choices) {
    const Configuration& how = choice.configuration;
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
                       {"host", static_cast<Bytes>(on_host(advice, choice))},
                       {"stage", choice.stage}});
    choices.back().update(settings_json(job_of(advice, how), advice.frameworks));
  }
  if (!advice.ranks.empty()) out["calibration"] = calibration_json(advice);
  out["choices"] = std::move(choices);
  return out;
}

}  // namespace stweaver
