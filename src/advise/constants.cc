#include "advise/constants.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "base/base.h"

namespace stweaver {
namespace {

/// What docs/advise.md says was fitted on which rows; the rest is as in Constants.
std::map<std::string, Constants> make_sets() {
  return {
      {"megatron",
       {.matrix_bf16 = 0.6767,
        .matrix_fp8 = 0.5019,
        .matrix_mxfp8 = 0.5732,
        .matrix_fp4 = 0.401,
        .experts = 0.3663,
        .elementwise = 72.44,
        .dispatch = 13.55,
        .layer = 0.005031,
        .moe_layer = 0.00328,
        .moe_layer_node = 0.007649,
        .fused_experts = 0.6211,
        .tensor_exposed = 0.3899,
        .expert_exposed = 0.3861,
        .data_exposed = 0.4072,
        .ultra = 1.2,
        .step = 0.08788}},
      {"torchtitan",
       {.matrix_bf16 = 0.9852,
        .matrix_fp8 = 0.7965,
        .matrix_fp8_rowwise = 0.414,
        .attention = 0.2141,
        .elementwise = 144.6,
        .eager = 1.438,
        .tensor_exposed = 1.49,
        .tensor_exposed_overlap = 0.8851,
        .data_exposed = 0.2818}},
      {"megatron-deepspeed",
       {.matrix_bf16 = 1.02,
        .elementwise = 80,
        .unsplit = 0.3,
        .scores = 8.76,
        .layer = 0.002193,
        .unfused_softmax = 0.5522,
        .head = 0.004621,
        .unaligned = 0.3945,
        .data_exposed = 1,
        .several_nodes = 1.267,
        .step = 0.003367}},
  };
}

}  // namespace

std::span<const ConstantInfo> constant_table() {
  using C = Constants;
  static const std::vector<ConstantInfo> table = {
      {"matrix_bf16", &C::matrix_bf16, 0.05, 1.2},
      {"matrix_fp8", &C::matrix_fp8, 0.05, 1.2},
      {"matrix_fp8_rowwise", &C::matrix_fp8_rowwise, 0.05, 1.2},
      {"matrix_mxfp8", &C::matrix_mxfp8, 0.05, 1.2},
      {"matrix_fp4", &C::matrix_fp4, 0.05, 1.2},
      {"experts", &C::experts, 0.05, 2},
      {"attention", &C::attention, 0.05, 1.2},
      {"elementwise", &C::elementwise, 1, 1000},
      {"unsplit", &C::unsplit, 0, 1},
      {"scores", &C::scores, 0, 100},
      {"dispatch", &C::dispatch, 0, 1000},
      {"eager", &C::eager, 1, 10},
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
  static const std::map<std::string, Constants> sets = make_sets();
  const auto found = sets.find(name);
  if (found != sets.end()) return found->second;
  std::string names;
  for (const auto& [known, set] : sets) names += " " + known;
  fail("no constants are called ", name, "; there are those of", names);
}

std::string write_constants(const Constants& constants) {
  nlohmann::ordered_json document;
  for (const ConstantInfo& info : constant_table()) document[info.name] = constants.*info.member;
  return document.dump(2) + "\n";
}

Constants read_constants(const std::string& json, const std::string& name, const Constants& base) {
  const nlohmann::json document = nlohmann::json::parse(json, nullptr, false);
  if (!document.is_object()) fail(name, ": not a JSON object of constants; advise --fit writes one with -o");
  Constants constants = base;
  for (const auto& [key, value] : document.items()) {
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
