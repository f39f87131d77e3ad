// `plan` and `check`: what was planned, and whether it is sound, as text for people and as JSON for programs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trace/model.h"

namespace stweaver {

/// What `plan` found, of a trace or of a CSV instance.
struct PlanAnswer {
  std::string name;
  std::size_t requests = 0;   ///< planned and unplanned
  std::size_t unplanned = 0;  ///< of them, without a place
  Bytes lower_bound = 0;
  Bytes peak = 0;
  double seconds = 0;
  int threads = 0;
  std::string winner;
  /// Requests between streams that share bytes; 0 with one stream, and where any distance costs memory.
  Time stream_gap = 0;
  bool steps_differ = false;  ///< in sizes of their own: the run time follows no plan of them
  bool stopped = false;       ///< before its time: the best plan until then
};
std::string plan_text(const PlanAnswer& answer);
nlohmann::ordered_json plan_json(const PlanAnswer& answer);

/// What `check` found. A plan for nothing is sound, too: so it tells how much was planned.
struct CheckAnswer {
  std::size_t requests = 0;  ///< as PlanAnswer counts them
  std::size_t planned = 0;   ///< of them, with a place
  std::vector<std::string> violations;
};
std::string check_text(const CheckAnswer& answer);
nlohmann::ordered_json check_json(const CheckAnswer& answer);

}  // namespace stweaver
