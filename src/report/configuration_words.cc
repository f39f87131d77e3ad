#include "report/configuration_words.h"

#include <optional>

#include <fmt/format.h>

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string layout_of(const Configuration& how) {
  std::string layout;
  const auto add = [&layout](const char* name, int value) {
    if (value > 1) layout += fmt::format("{}{}{}", layout.empty() ? "" : " ", name, value);
  };
  add("tp", how.tp);
  add("pp", how.pp);
  if (how.short_last) layout += fmt::format(" last{}", how.last_layers);
  add("vp", how.virtual_stages);
  add("cp", how.cp);
  add("ep", how.ep);
  add("dp", data_parallel(how));
  if (how.zero == 3) layout += layout.empty() ? "fsdp" : " fsdp";
  return layout.empty() ? "-" : layout;
}

std::string recompute_of(const Configuration& how) {
  std::string name = name_of(how.recompute);
  if (how.recompute == Recompute::kFull && how.recompute_layers > 0)
    name += fmt::format(", {} layer{}", how.recompute_layers, how.recompute_layers > 1 ? "s" : "");
  return name;
}

Json configuration_json(const Configuration& how) {
  return {{"gpus", how.gpus},
          {"tp", how.tp},
          {"pp", how.pp},
          {"short_last", how.short_last},
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

Json settings_json(const Job& job, std::span<const Framework> frameworks) {
  Json out = Json::object();
  for (const Framework& framework : frameworks) {
    const std::optional<std::string> settings = framework.settings(job);
    const bool is_document = settings && settings->starts_with('{');
    out[framework.key] = !settings ? Json() : is_document ? Json::parse(*settings) : Json(*settings);
  }
  return out;
}

}  // namespace stweaver
