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

/// The files that `report` wrote.
struct Written {
  std::string page;
  std::size_t bytes = 0;               ///< of the page
  std::vector<std::string> snapshots;  ///< for PyTorch's memory_viz
  std::string perfetto = {};           ///< a trace for ui.perfetto.dev, if there is one
};
std::string report_text(const Written& written, const std::vector<Comparison>& comparisons);
nlohmann::ordered_json report_json(const Written& written, const std::vector<Comparison>& comparisons);

}  // namespace stweaver
