// What the command answers, as text for people and as JSON for programs. Bytes are integers in JSON and GiB
// in texts.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "simulate/simulate.h"

namespace stweaver {

/// `inspect`: what a job asks for.
std::string inspect_text(const Trace& trace, const Profile& profile, const Summary& summary);
nlohmann::ordered_json inspect_json(const Trace& trace, const Profile& profile, const Summary& summary);

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
  Time stream_gap = 0;   ///< requests between streams that share bytes; 0 with one stream
  bool stopped = false;  ///< before its time: the best plan until then
};
std::string plan_text(const PlanAnswer& answer);
nlohmann::ordered_json plan_json(const PlanAnswer& answer);

/// `check`.
std::string check_text(const std::vector<std::string>& violations);
nlohmann::ordered_json check_json(const std::vector<std::string>& violations);

/// `replay`: how a trace was served, in `steps` steps.
std::string replay_text(const Trace& trace, std::size_t steps, const Serving& serving);
nlohmann::ordered_json replay_json(const Trace& trace, std::size_t steps, const Serving& serving);

/// `compare`: a table and a sentence on what was saved; a second table where jobs were planned online.
std::string compare_text(const std::vector<Comparison>& comparisons);
nlohmann::ordered_json compare_json(const std::vector<Comparison>& comparisons);

/// `report`: what was written where.
std::string report_text(const std::string& file, std::size_t bytes,
                        const std::vector<Comparison>& comparisons);
nlohmann::ordered_json report_json(const std::string& file, std::size_t bytes,
                                   const std::vector<Comparison>& comparisons);

/// The last part of a path, without the endings of snapshots: what a job is called in tables.
std::string job_name(const std::string& path);

}  // namespace stweaver
