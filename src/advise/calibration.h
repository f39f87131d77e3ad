// What recordings of a real job say of the memory model.
#pragma once

#include <span>
#include <string>

#include "advise/configuration.h"
#include "trace/model.h"

namespace stweaver {

/// A rank whose requests were recorded, and the job that it was of.
struct RecordedRank {
  std::string name;
  Job job;
  int stage = 0;
  double states = 0;  ///< bytes that live where steps begin, the first left out
  double peak = 0;    ///< bytes requested at most
};

/// Error when no steps are found in the trace, it holds nothing between them, or less than a quarter or more
/// than four times what the model says of such a rank.
RecordedRank recorded_rank(const Trace& trace, const Job& job, int stage);

/// Two factors by which the ranks differ from the model, each the geometric mean over them: what lives
/// between steps (a job may keep another number of bytes for each parameter), and what a step needs on top
/// (it may keep more or less of each token). Both are of a kind that other layouts share, unlike an offset.
Calibration calibrate(std::span<const RecordedRank> ranks);

/// The model's peak of a rank.
double predicted_peak(const RecordedRank& rank, const Calibration& calibration);

}  // namespace stweaver
