#include "advise/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "advise/memory.h"
#include "base/base.h"
#include "profile/profile.h"

namespace stweaver {
namespace {

RankMemory uncalibrated(const RecordedRank& rank) {
  Job job = rank.job;
  job.calibration = {};
  return live_memory(job, rank.stage);
}

Bytes live_at(const Trace& trace, Time time) {
  Bytes live = 0;
  for (const Request& request : trace.requests)
    if (request.life.lower < time && time < request.life.upper) live += request.size;
  return live;
}

/// The least that lives where a step begins. The first makes states that the others find.
Bytes between_steps(const Trace& trace) {
  const Steps steps = find_steps(trace);
  if (steps.spans.size() < 2)
    fail(trace.name, ": has ", steps.spans.size(), " steps; record two whole ones at least");
  Bytes least = std::numeric_limits<Bytes>::max();
  for (std::size_t i = 1; i < steps.spans.size(); ++i)
    least = std::min(least, live_at(trace, steps.spans[i].lower));
  return least;
}

/// Weights and moments in bf16 without gradients between steps are a third of what the model expects.
void require_states_of_its_job(const RecordedRank& rank) {
  constexpr double kMost = 4;
  constexpr auto kGibibyte = static_cast<double>(kGiB);
  const double said = uncalibrated(rank).states;
  if (rank.states <= kMost * said && said <= kMost * rank.states) return;
  fail(rank.name, ": holds ", rank.states / kGibibyte, " GiB between steps, where such a rank of ",
       rank.job.model.name, " has ", said / kGibibyte, "; it is of another model or layout");
}

}  // namespace

RecordedRank recorded_rank(const Trace& trace, const Job& job, int stage) {
  RecordedRank rank{.name = trace.name,
                    .job = job,
                    .stage = stage,
                    .states = static_cast<double>(between_steps(trace)),
                    .peak = static_cast<double>(peak_requested(trace))};
  if (rank.states <= 0 || rank.peak <= rank.states)
    fail(trace.name, ": holds nothing between steps, or asks for nothing in them");
  require_states_of_its_job(rank);
  return rank;
}

Calibration calibrate(std::span<const RecordedRank> ranks) {
  if (ranks.empty()) return {};
  double states = 0;
  double activations = 0;
  for (const RecordedRank& rank : ranks) {
    const RankMemory said = uncalibrated(rank);
    states += std::log(rank.states / said.states);
    activations += std::log((rank.peak - rank.states) / (said.peak() - said.states));
  }
  const auto count = static_cast<double>(ranks.size());
  return {.states = std::exp(states / count), .activations = std::exp(activations / count)};
}

double predicted_peak(const RecordedRank& rank, const Calibration& calibration) {
  Job job = rank.job;
  job.calibration = calibration;
  return live_memory(job, rank.stage).peak();
}

}  // namespace stweaver
