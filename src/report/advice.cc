#include "report/advice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "report/configuration_words.h"
#include "report/table.h"
#include "report/wording.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> totals_of(std::span<const StepTime> times) {
  std::vector<double> totals;
  totals.reserve(times.size());
  for (const StepTime& time : times) totals.push_back(time.total);
  return totals;
}

std::string left_out_text(const Measurements& measured) {
  std::string out;
  for (const std::string& line : measured.left_out) out += "left out: " + printable(line) + "\n";
  return out;
}

bool has_times_of(const Measurements& measured) {
  return std::all_of(measured.rows.begin(), measured.rows.end(),
                     [](const Measurement& row) { return row.seconds > 0; });
}

/// Predicted bytes of the rows that have measured ones.
std::vector<std::optional<double>> memory_of(const Measurements& measured) {
  std::vector<std::optional<double>> memory;
  memory.reserve(measured.rows.size());
  for (const Measurement& row : measured.rows)
    memory.push_back(row.memory ? std::optional(predicted_memory(row)) : std::nullopt);
  return memory;
}

std::vector<double> memory_errors(const Measurements& measured,
                                  const std::vector<std::optional<double>>& memory) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < memory.size(); ++i)
    if (memory[i]) errors.push_back(std::abs(*memory[i] / measured.rows[i].memory->bytes - 1));
  return errors;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string memory_accuracy_text(const Measurements& measured,
                                 const std::vector<std::optional<double>>& memory) {
  const std::vector<double> errors = memory_errors(measured, memory);
  return fmt::format("memory of {} rows: mean absolute error {}, median {}\n", errors.size(),
                     percent_text(mean_of(errors)), percent_text(median_of(errors)));
}

std::string accuracy_text(const Measurements& measured, const Accuracy& accuracy) {
  std::string out = fmt::format("{} rows: mean absolute error {}, median {}\n", accuracy.rows,
                                percent_text(accuracy.mean), percent_text(accuracy.median));
  if (accuracy.models > 0)
    out += fmt::format("rank correlation over the configurations of a model: {:.3f} (mean over {})\n",
                       accuracy.rank_correlation, accuracy.models);
  if (accuracy.choices > 0)
    out += fmt::format("time lost by running the predicted best: {}, {} at worst (of {} choices)\n",
                       percent_text(accuracy.loss), percent_text(accuracy.worst_loss), accuracy.choices);
  return out + left_out_text(measured);
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

/// How many of a table's kinds of layers have factors, and between what these lie.
std::string layers_text(const Measurements& measured, const MeasuredLayers& layers) {
  std::set<LayerKind> kinds;
  for (const Measurement& row : measured.rows) kinds.insert(layer_kind(row.job));
  std::vector<double> factors;
  for (const LayerKind& kind : kinds)
    if (const auto found = layers.find(kind); found != layers.end()) factors.push_back(found->second);
  if (factors.empty())
    return "no kind of layer has a factor: that takes kinds that were measured twice, and differ\n";
  const auto [least, most] = std::minmax_element(factors.begin(), factors.end());
  return fmt::format("{} of {} kinds of layers take {:.2f} to {:.2f} times what the constants say\n",
                     factors.size(), kinds.size(), *least, *most);
}

}  // namespace

std::string predict_text(const Measurements& measured, std::span<const StepTime> times) {
  const bool has_times = has_times_of(measured);
  const std::vector<std::optional<double>> memory = memory_of(measured);
  const bool has_memory =
      std::any_of(memory.begin(), memory.end(), [](const auto& m) { return m.has_value(); });
  std::vector<std::string> head = {"line", "model", "gpu", "gpus", "layout", "mbs", "gbs"};
  std::string alignment = "rllrlrr";
  const auto add_columns = [&](const char* unit) {
    head.insert(head.end(), {std::string("measured ") + unit, std::string("predicted ") + unit, "error"});
    alignment += "rrr";
  };
  if (has_times) add_columns("s");
  if (has_memory) add_columns("GiB");
  Table table(head, alignment);
  for (std::size_t i = 0; i < measured.rows.size(); ++i) {
    const Measurement& row = measured.rows[i];
    const Configuration& how = row.job.configuration;
    std::vector<std::string> cells = {
        std::to_string(row.line),        printable(row.model), row.job.gpu.name,
        std::to_string(how.gpus),        layout_of(how),       std::to_string(how.micro_batch),
        std::to_string(how.global_batch)};
    const auto add = [&cells](double was, double said) {
      cells.insert(cells.end(), {fmt::format("{:.3f}", was), fmt::format("{:.3f}", said),
                                 fmt::format("{:+.1f} %", 100 * (said / was - 1))});
    };
    if (has_times) add(row.seconds, times[i].total);
    if (has_memory && memory[i]) add(to_gib(row.memory->bytes), to_gib(*memory[i]));
    if (has_memory && !memory[i]) cells.insert(cells.end(), {"", "", ""});
    table.add_row(cells);
  }
  std::string out = table.text();
  if (has_times) {
    out += accuracy_text(measured, judge(measured.rows, totals_of(times)));
  } else {
    out += left_out_text(measured);
  }
  return has_memory ? out + memory_accuracy_text(measured, memory) : out;
}

Json predict_json(const Measurements& measured, std::span<const StepTime> times) {
  const std::vector<std::optional<double>> memory = memory_of(measured);
  const bool has_times = has_times_of(measured);
  Json out = {{"kind", measured.kind}};
  if (has_times) {
    out.update(accuracy_json(measured, judge(measured.rows, totals_of(times))));
  } else {
    out["rows"] = measured.rows.size();
    out["left_out"] = measured.left_out;
  }
  const std::vector<double> errors = memory_errors(measured, memory);
  if (!errors.empty()) {
    out["mean_absolute_memory_error"] = mean_of(errors);
    out["median_absolute_memory_error"] = median_of(errors);
  }
  Json rows = Json::array();
  for (std::size_t i = 0; i < measured.rows.size(); ++i) {
    const Measurement& row = measured.rows[i];
    Json one = {{"line", row.line},
                {"model", row.model},
                {"gpu", row.job.gpu.name},
                {"configuration", configuration_json(row.job.configuration)}};
    if (has_times) {
      one["measured_seconds"] = row.seconds;
      one["predicted_seconds"] = times[i].total;
    }
    if (memory[i]) {
      one["measured_bytes"] = static_cast<Bytes>(row.memory->bytes);
      one["predicted_bytes"] = static_cast<Bytes>(*memory[i]);
      one["reserved"] = row.memory->reserved;
    }
    rows.push_back(std::move(one));
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
  const bool has_layers = std::find(names.begin(), names.end(), kLayers) != names.end();
  return (names.size() > std::size_t{has_layers} ? table.text() : "") +
         (has_layers ? layers_text(measured, fitted.layers) : "") +
         "on the rows that they were fitted on:\n" +
         accuracy_text(measured, judge(measured.rows, totals_of(times)));
}

Json fit_json(const Measurements& measured, std::span<const StepTime> times,
              const std::vector<std::string>& names, const Constants& fitted) {
  Json constants = Json::object();
  for (const ConstantInfo& info : constant_table())
    if (std::find(names.begin(), names.end(), info.name) != names.end())
      constants[info.name] = fitted.*info.member;
  Json out = {{"kind", measured.kind}, {"constants", constants}, {"layers", fitted.layers.size()}};
  out.update(accuracy_json(measured, judge(measured.rows, totals_of(times))));
  return out;
}

}  // namespace stweaver
