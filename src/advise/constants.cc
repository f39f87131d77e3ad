#include "advise/constants.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "advise/constant_files.h"
#include "base/base.h"

namespace stweaver {
namespace {

/// To six digits: no constant is known better.
double rounded(double number) {
  std::array<char, 32> digits{};
  const auto written = std::to_chars(digits.begin(), digits.end(), number, std::chars_format::general, 6);
  std::from_chars(digits.begin(), written.ptr, number);
  return number;
}

nlohmann::ordered_json write_layer(const LayerKind& kind, double factor) {
  nlohmann::ordered_json layer = {{"gpu", kind.gpu}, {"precision", name_of(kind.precision)}};
  for (const LayerField& field : layer_fields()) layer[field.name] = kind.*field.member;
  layer["factor"] = rounded(factor);
  return layer;
}

template <typename Value>
Value value_of(const nlohmann::json& layer, const std::string& key) {
  try {
    return layer.at(key).get<Value>();
  } catch (const nlohmann::json::exception&) {
    fail("it has no ", key, ", or one that is none; `stweaver advise --fit` writes all of a layer");
  }
}

std::pair<LayerKind, double> read_layer(const nlohmann::json& layer) {
  if (!layer.is_object()) fail("no JSON object of a layer");
  LayerKind kind{.gpu = value_of<std::string>(layer, "gpu"),
                 .precision = precision_named(value_of<std::string>(layer, "precision"))};
  for (const LayerField& field : layer_fields()) {
    const auto number = value_of<double>(layer, field.name);
    if (!(number >= 0 && number <= std::numeric_limits<int>::max()) || number != std::floor(number))
      fail(field.name, " is ", number, ", and no count");
    kind.*field.member = static_cast<int>(number);
  }
  const auto factor = value_of<double>(layer, "factor");
  if (!(factor >= kLeastLayerFactor && factor <= kMostLayerFactor))
    fail("a factor is ", factor, ", and lies between ", kLeastLayerFactor, " and ", kMostLayerFactor);
  return {std::move(kind), factor};
}

MeasuredLayers read_layers(const nlohmann::json& list, const std::string& name) {
  if (!list.is_array()) fail(name, ": layers is no list");
  MeasuredLayers layers;
  for (std::size_t i = 0; i < list.size(); ++i) {
    try {
      layers.insert(read_layer(list[i]));
    } catch (const std::exception& error) {
      fail(name, ": layers[", i, "]: ", error.what());
    }
  }
  return layers;
}

}  // namespace

std::span<const ConstantInfo> constant_table() {
  using C = Constants;
  static const std::vector<ConstantInfo> table = {
      {"matrix", &C::matrix, 0.05, 1.5},
      {"matrix_fp8_rowwise", &C::matrix_fp8_rowwise, 0.05, 1.5},
      {"matrix_fp4", &C::matrix_fp4, 0.05, 1.5},
      {"attention", &C::attention, 0.05, 1.5},
      {"streaming", &C::streaming, 0.1, 1},
      {"dispatch", &C::dispatch, 0, 1000},
      {"layer", &C::layer, 0, 1},
      {"unfused_softmax", &C::unfused_softmax, 0, 2},
      {"moe_layer", &C::moe_layer, 0, 1},
      {"moe_layer_node", &C::moe_layer_node, 0, 1},
      {"fused_experts", &C::fused_experts, 0.1, 1},
      {"head", &C::head, 0, 1},
      {"unaligned", &C::unaligned, 0.05, 1},
      {"sharpness", &C::sharpness, 1, 20},
      {"link", &C::link, 0.05, 1.2},
      {"tensor_exposed", &C::tensor_exposed, 0, 4},
      {"tensor_exposed_overlap", &C::tensor_exposed_overlap, 0, 4},
      {"expert_exposed", &C::expert_exposed, 0, 4},
      {"data_exposed", &C::data_exposed, 0, 4},
      {"several_nodes", &C::several_nodes, 1, 2},
      {"ultra", &C::ultra, 1, 2},
      {"step", &C::step, 0, 1},
  };
  return table;
}

const Constants& known_constants(const std::string& name) {
  static const std::map<std::string, Constants> sets = [] {
    std::map<std::string, Constants> read;
    for (const ConstantFile& file : constant_files())
      read[std::string(file.name)] = read_constants(std::string(file.json), std::string(file.name), {});
    return read;
  }();
  const auto found = sets.find(name);
  if (found != sets.end()) return found->second;
  std::string names;
  for (const auto& [known, set] : sets) names += " " + known;
  fail("no constants are called ", name, "; there are those of", names);
}

std::string write_constants(const Constants& constants) {
  nlohmann::ordered_json document;
  for (const ConstantInfo& info : constant_table()) document[info.name] = rounded(constants.*info.member);
  // A layer is a line.
  std::string layers;
  for (const auto& [kind, factor] : constants.layers)
    layers += (layers.empty() ? "\n    " : ",\n    ") + write_layer(kind, factor).dump();
  std::string text = document.dump(2);
  text.erase(text.rfind('\n'));
  return text + ",\n  \"layers\": [" + layers + (layers.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

Constants read_constants(const std::string& json, const std::string& name, const Constants& base) {
  const nlohmann::json document = nlohmann::json::parse(json, nullptr, false);
  if (!document.is_object()) fail(name, ": not a JSON object of constants; advise --fit writes one with -o");
  Constants constants = base;
  for (const auto& [key, value] : document.items()) {
    if (key == "layers") {
      constants.layers = read_layers(value, name);
      continue;
    }
    const auto table = constant_table();
    const auto info = std::find_if(table.begin(), table.end(),
                                   [&key = key](const ConstantInfo& i) { return i.name == key; });
    if (info == table.end()) fail(name, ": no constant is called ", key);
    if (!value.is_number()) fail(name, ": ", key, " is no number");
    const double number = value.get<double>();
    if (!(number >= info->least && number <= info->most))
      fail(name, ": ", key, " is ", number, ", and lies between ", info->least, " and ", info->most);
    constants.*info->member = number;
  }
  return constants;
}

}  // namespace stweaver
