// Constants from measured steps, and how good a prediction is.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "advise/constants.h"
#include "advise/measurements.h"

namespace stweaver {

/// The names of the constants that rows of a kind can tell (measurements.h).
std::vector<std::string> constants_to_fit(const std::string& kind);

/// Stands among the names for the factors of kinds of layers (measured_layers.h).
inline constexpr const char* kLayers = "layers";

/// Least squares of log(predicted / measured) over the logarithms of the named constants, from `start`, with
/// weights that let outliers pull less (soft L1), and with a weak pull towards `start`, so that what the rows
/// cannot tell stays. Rows that name the same configuration several times count as one.
/// Levenberg-Marquardt with differences for derivatives. With `kLayers` among the names, what is then left in
/// the errors of a kind of layer becomes its factor; factors in `start` stay only where no number is fitted.
Constants fit_constants(std::span<const Measurement> rows, const std::vector<std::string>& names,
                        const Constants& start);

/// Predicted against measured. Ranks and choices are of configurations: one that was measured several times
/// has the geometric mean of its times.
struct Accuracy {
  std::size_t rows = 0;
  double mean = 0;  ///< absolute error, as a share of what was measured
  double median = 0;
  std::size_t models = 0;       ///< with three configurations at least
  double rank_correlation = 0;  ///< Spearman's, of the time per token and GPU; mean over these models, each
                                ///< with the weight of its configurations less one
  std::size_t choices = 0;      ///< groups of one model, GPUs and batch with three configurations at least
  double loss = 0;              ///< time lost by running the predicted best of a group, mean
  double worst_loss = 0;
};

/// `predicted` has the seconds of every row.
Accuracy judge(std::span<const Measurement> rows, std::span<const double> predicted);

}  // namespace stweaver
