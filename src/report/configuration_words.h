// How a configuration is told to people and in JSON.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "advise/frameworks.h"

namespace stweaver {

/// "tp4 pp2 cp1 ..." without what is 1.
std::string layout_of(const Configuration& how);
/// "none", "selective", "full", "full, 3 layers".
std::string recompute_of(const Configuration& how);

nlohmann::ordered_json configuration_json(const Configuration& how);
/// What frameworks are told to run it, by their keys; null for those that cannot.
nlohmann::ordered_json settings_json(const Job& job, std::span<const Framework> frameworks);

}  // namespace stweaver
