#include "report/advice.h"

#include <algorithm>

#include <fmt/format.h>

#include "report/table.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::vector<double> totals_of(std::span<const StepTime> times) {
  std::vector<double> totals;
  totals.reserve(times.size());
  for (const StepTime& time : times) totals.push_back(time.total);
  return totals;
}

/// "tp4 pp2 cp1 ..." without what is 1.
std::string layout_of(const Configuration& how) {
  std::string layout;
  const auto add = [&layout](const char* name, int value) {
    if (value > 1) layout += fmt::format("{}{}{}", layout.empty() ? "" : " ", name, value);
  };
  add("tp", how.tp);
  add("pp", how.pp);
  add("vp", how.virtual_stages);
  add("cp", how.cp);
  add("ep", how.ep);
  add("dp", data_parallel(how));
  if (how.zero == 3) layout += layout.empty() ? "fsdp" : " fsdp";
  return layout.empty() ? "-" : layout;
}

/// "none", "selective", "full", "full, 3 layers".
std::string recompute_of(const Configuration& how) {
  std::string name = name_of(how.recompute);
  if (how.recompute == Recompute::kFull && how.recompute_layers > 0)
    name += fmt::format(", {} layer{}", how.recompute_layers, how.recompute_layers > 1 ? "s" : "");
  return name;
}

std::string accuracy_text(const Measurements& measured, const Accuracy& accuracy) {
  std::string out = fmt::format("{} rows: mean absolute error {}, median {}\n", accuracy.rows,
                                percent(accuracy.mean), percent(accuracy.median));
  if (accuracy.models > 0)
    out += fmt::format("rank correlation over the configurations of a model: {:.3f} (mean over {})\n",
                       accuracy.rank_correlation, accuracy.models);
  if (accuracy.choices > 0)
    out += fmt::format("time lost by running the predicted best: {}, {} at worst (of {} choices)\n",
                       percent(accuracy.loss), percent(accuracy.worst_loss), accuracy.choices);
  for (const std::string& line : measured.left_out) out += "left out: " + printable(line) + "\n";
  return out;
}

Json accuracy_json(const Measurements& measured, const Accuracy& accuracy) {
  Json out = {{"rows", accuracy.rows},
              {"mean_absolute_error", accuracy.mean},
              {"median_absolute_error", accuracy.median},
              {"rank_correlation", accuracy.models > 0 ? Json(accuracy.rank_correlation) : Json()},
              {"ranked_models", accuracy.models},
              {"loss", accuracy.choices > 0 ? Json(accuracy.loss) : Json()},
              {"worst_loss", accuracy.choices > 0 ? Json(accuracy.worst_loss) : Json()},
              {"choices", accuracy.choices}};
  out["left_out"] = measured.left_out;
  return out;
}

Json configuration_json(const Configuration& how) {
  return {{"gpus", how.gpus},
          {"tp", how.tp},
          {"pp", how.pp},
          {"virtual_stages", how.virtual_stages},
          {"cp", how.cp},
          {"ep", how.ep},
          {"dp", data_parallel(how)},
          {"zero", how.zero},
          {"micro_batch", how.micro_batch},
          {"global_batch", how.global_batch},
          {"sequence", how.sequence},
          {"recompute", name_of(how.recompute)},
          {"recompute_layers", how.recompute_layers},
          {"offload_optimizer", how.offload_optimizer},
          {"precision", name_of(how.precision)}};
}

}  // namespace

std::string predict_text(const Measurements& measured, std::span<const StepTime> times) {
  Table table({"line", "model", "gpu", "gpus", "layout", "mbs", "gbs", "measured s", "predicted s", "error"},
              "rllrlrrrrr");
  for (std::size_t i = 0; i < measured.rows.size(); ++i) {
    const Measurement& row = measured.rows[i];
    const Configuration& how = row.job.configuration;
    table.add_row({std::to_string(row.line), row.model, row.job.gpu.name, std::to_string(how.gpus),
                   layout_of(how), std::to_string(how.micro_batch), std::to_string(how.global_batch),
                   fmt::format("{:.3f}", row.seconds), fmt::format("{:.3f}", times[i].total),
                   fmt::format("{:+.1f} %", 100 * (times[i].total / row.seconds - 1))});
  }
  return table.text() + accuracy_text(measured, judge(measured.rows, totals_of(times)));
}

Json predict_json(const Measurements& measured, std::span<const StepTime> times) {
  Json out = {{"kind", measured.kind}};
  out.update(accuracy_json(measured, judge(measured.rows, totals_of(times))));
  Json rows = Json::array();
  for (std::size_t i = 0; i < measured.rows.size(); ++i) {
    const Measurement& row = measured.rows[i];
    rows.push_back({{"line", row.line},
                    {"model", row.model},
                    {"gpu", row.job.gpu.name},
                    {"configuration", configuration_json(row.job.configuration)},
                    {"measured_seconds", row.seconds},
                    {"predicted_seconds", times[i].total}});
  }
  out["predictions"] = std::move(rows);
  return out;
}

std::string fit_text(const Measurements& measured, std::span<const StepTime> times,
                     const std::vector<std::string>& names, const Constants& fitted) {
  Table table({"constant", "fitted"}, "lr");
  for (const ConstantInfo& info : constant_table())
    if (std::find(names.begin(), names.end(), info.name) != names.end())
      table.add_row({info.name, fmt::format("{:.4g}", fitted.*info.member)});
  return table.text() + "on the rows that they were fitted on:\n" +
         accuracy_text(measured, judge(measured.rows, totals_of(times)));
}

Json fit_json(const Measurements& measured, std::span<const StepTime> times,
              const std::vector<std::string>& names, const Constants& fitted) {
  Json constants;
  for (const ConstantInfo& info : constant_table())
    if (std::find(names.begin(), names.end(), info.name) != names.end())
      constants[info.name] = fitted.*info.member;
  Json out = {{"kind", measured.kind}, {"constants", constants}};
  out.update(accuracy_json(measured, judge(measured.rows, totals_of(times))));
  return out;
}

std::string advise_text(const Recommendation& advice) {
  if (advice.choices.empty())
    return fmt::format(
        "none of {} configurations fits in {:.1f} GiB: more GPUs, a larger GPU, a shorter sequence "
        "or more pipeline stages may help\n",
        advice.front.evaluations, to_gib(static_cast<Bytes>(advice.memory)));
  Table table(
      {"", "gpus", "layout", "mbs", "recompute", "s/step", "tokens/s",
       advice.price ? "price/Gtoken" : "GPU h/Gtoken", "planned GiB", "expandable", "default", "longer"},
      "rrlrlrrrrrrr");
  std::string flags;
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
    flags +=
        fmt::format("{}: {}\n", i + 1,
                    megatron_arguments({.model = advice.model, .gpu = advice.gpu, .configuration = how}));
  }
  return table.text() +
         fmt::format("{} of {} on the front, from {} {} configurations in {:.2f} s{}\n\nfor Megatron-LM:\n",
                     advice.choices.size(), advice.front.choices.size(),
                     advice.front.exhaustive ? "all" : "a search of", advice.front.evaluations,
                     advice.seconds, advice.front.stopped ? ", stopped early" : "") +
         flags;
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
    choices.push_back(
        {{"configuration", configuration_json(how)},
         {"step_seconds", choice.seconds},
         {"tokens_per_second", choice.rate()},
         {"gpu_hours_per_billion_tokens", choice.cost()},
         {"headroom", choice.headroom},
         {"live", static_cast<Bytes>(choice.memory)},
         {"requested", reservation.requested},
         {"reserved", reservation.planned},
         {"reserved_native", reservation.native},
         {"reserved_expandable", reservation.expandable},
         {"stage", choice.stage},
         {"megatron", megatron_arguments({.model = advice.model, .gpu = advice.gpu, .configuration = how})}});
  }
  out["choices"] = std::move(choices);
  return out;
}

}  // namespace stweaver
