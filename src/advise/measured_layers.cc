#include "advise/measured_layers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "advise/time.h"

namespace stweaver {
namespace {

/// Logarithms of measured over predicted time of the layers.
using Errors = std::map<LayerKind, std::vector<double>>;

Errors errors_of(std::span<const Measurement> rows, Constants constants) {
  constants.layers.clear();
  Errors kinds;
  for (const Measurement& row : rows) {
    const StepTime time = step_time(row.job, constants);
    const double layers = time.work + time.bubble;
    const double measured = row.seconds - (time.total - layers);
    // A step that is shorter than what is not its layers tells nothing of them.
    if (measured > 0) kinds[layer_kind(row.job)].push_back(std::log(measured / layers));
  }
  return kinds;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Of the errors of one kind around their mean, and of the kinds' means around zero.
struct Variances {
  double within = 0;
  double between = 0;
};

Variances variances_of(const Errors& kinds) {
  double within = 0, between = 0;
  std::size_t rows = 0;
  for (const auto& [kind, errors] : kinds) {
    const double mean = mean_of(errors);
    rows += errors.size();
    between += static_cast<double>(errors.size()) * mean * mean;
    for (const double error : errors) within += (error - mean) * (error - mean);
  }
  if (rows == kinds.size()) return {};
  Variances variances;
  variances.within = within / static_cast<double>(rows - kinds.size());
  // A kind's mean scatters by its rows' variance as well, which is not its own.
  between -= variances.within * static_cast<double>(kinds.size());
  variances.between = std::max(0.0, between / static_cast<double>(rows));
  return variances;
}

}  // namespace

MeasuredLayers measure_layers(std::span<const Measurement> rows, const Constants& constants) {
  const Errors kinds = errors_of(rows, constants);
  const Variances variances = variances_of(kinds);
  if (variances.between == 0) return {};
  MeasuredLayers factors;
  for (const auto& [kind, errors] : kinds) {
    const double told = variances.between * static_cast<double>(errors.size());
    const double factor = std::exp(mean_of(errors) * told / (told + variances.within));
    factors[kind] = std::clamp(factor, kLeastLayerFactor, kMostLayerFactor);
  }
  return factors;
}

}  // namespace stweaver
