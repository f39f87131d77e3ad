// `compare` and `report`: jobs under several allocators, as text for people and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "simulate/comparison.h"

namespace stweaver {

/// `compare`: a table and a sentence on what was saved; a second table where jobs were planned online.
std::string compare_text(const std::vector<Comparison>& comparisons);
nlohmann::ordered_json compare_json(const std::vector<Comparison>& comparisons);

/// `report`: what was written where.
std::string report_text(const std::string& file, std::size_t bytes,
                        const std::vector<Comparison>& comparisons);
nlohmann::ordered_json report_json(const std::string& file, std::size_t bytes,
                                   const std::vector<Comparison>& comparisons);

}  // namespace stweaver
