// How a configuration is told to people and in JSON.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "advise/frameworks.h"

namespace stweaver {

/// "tp4 pp2 cp1 ..." without what is 1.
std::string layout_of(const Configuration& how);
/// "none", "selective", "full", "full, 3 layers".
std::string recompute_of(const Configuration& how);

nlohmann::ordered_json configuration_json(const Configuration& how);
/// What the frameworks that can run it are told; null for others.
nlohmann::ordered_json settings_json(const Job& job);

}  // namespace stweaver
