#include "profile/phases.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace stweaver {
namespace {

/// A turn of the load counts when it goes back by more than this share of its range.
constexpr double kTurn = 0.05;

bool names_phase(std::string_view label) {
  constexpr std::array<std::string_view, 4> kWords = {"phase ", "forward", "backward", "optimizer"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [label](std::string_view word) { return label.starts_with(word); });
}

/// Bytes after each event of requests that are freed while recording.
std::vector<Bytes> passing_load(const Trace& trace) {
  std::vector<Bytes> load(static_cast<std::size_t>(trace.end), 0);
  for (const Request& request : trace.requests) {
    if (request.life.upper == kForever) continue;
    if (request.life.lower >= 0) load[static_cast<std::size_t>(request.life.lower)] += request.size;
    load[static_cast<std::size_t>(request.life.upper)] -= request.size;
  }
  for (std::size_t t = 1; t < load.size(); ++t) load[t] += load[t - 1];
  return load;
}

/// The times at which the load turns, told from noise by how far it comes back.
std::vector<Time> turning_points(const std::vector<Bytes>& load) {
  std::vector<Time> turns;
  if (load.empty()) return turns;
  const auto [low, high] = std::minmax_element(load.begin(), load.end());
  const auto noise = static_cast<Bytes>(kTurn * static_cast<double>(*high - *low));
  std::size_t extreme = 0;
  bool rising = true;
  for (std::size_t t = 0; t < load.size(); ++t) {
    const Bytes ahead = rising ? load[t] - load[extreme] : load[extreme] - load[t];
    if (ahead >= 0) {
      extreme = t;
    } else if (-ahead > noise) {
      turns.push_back(static_cast<Time>(extreme) + 1);
      extreme = t;
      rising = !rising;
    }
  }
  return turns;
}

}  // namespace

Phases find_phases(const Trace& trace, const Steps& steps) {
  Phases phases;
  for (const Mark& mark : trace.marks) {
    if (names_phase(mark.label)) phases.begins.push_back(mark.time);
  }
  phases.marked = !phases.begins.empty();
  if (!phases.marked) phases.begins = turning_points(passing_load(trace));
  for (const Lifespan& step : steps.spans) phases.begins.push_back(step.lower);
  if (!steps.spans.empty()) phases.begins.push_back(steps.spans.back().upper);
  phases.begins.push_back(0);
  std::sort(phases.begins.begin(), phases.begins.end());
  phases.begins.erase(std::unique(phases.begins.begin(), phases.begins.end()), phases.begins.end());
  return phases;
}

std::size_t phase_at(const Phases& phases, Time time) {
  const auto after = std::upper_bound(phases.begins.begin(), phases.begins.end(), time);
  return after == phases.begins.begin() ? 0 : static_cast<std::size_t>(after - phases.begins.begin()) - 1;
}

}  // namespace stweaver
