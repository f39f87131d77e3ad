// The configurations to choose from: parameters, the values of each, and which of them go together.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "advise/configuration.h"
#include "pareto/problem.h"

namespace stweaver {

/// What is given, and what is fixed of the rest.
struct Space {
  ModelShape model;
  Gpu gpu;
  int gpus = 1;  ///< at most; whole nodes (of eight where they are larger), or powers of two of one node
  int sequence = 0;
  int global_batch = 0;
  Precision precision = Precision::kBf16;
  Modules modules = Modules::kMegatron;
  Calibration calibration = {};
  /// Whether the software in use can run it; all of it where none is named.
  std::function<bool(const Job&)> runs = nullptr;
  /// Parameter to value: gpus, tp, cp, pp, short_last, dp, mbs, vp, ep, zero, recompute, recompute_layers,
  /// offload.
  std::map<std::string, std::string> fixed;
};

/// The global batch where none is given: four million tokens or near it, in so many sequences as all GPUs can
/// share.
int usual_batch(int gpus, int sequence);

/// The configuration of a space in which these parameters have these values, and others are 1 or nothing;
/// beside those of `fixed` there are global_batch and sequence. Error for a parameter that does not exist, a
/// value that it cannot have, and what cannot run.
Job job_named(const Space& space, const std::map<std::string, std::string>& values);

/// A parameter's value from its text. Error when it is none.
int value_named(const std::string& name, const std::string& value);

/// A parameter and the values that a search tries.
struct Parameter {
  std::string name;
  std::vector<int> values;
  bool ordered = true;  ///< neighbours are alike
};

/// All configurations of a space. A point holds the index of a value for each parameter. Parameters stand in
/// an order in which what goes with a value is decided by those before it: a search that goes by it never
/// looks into what cannot run, and a point is mended from left to right.
class Grid {
 public:
  /// Error for a fixed parameter that does not exist, a value that it cannot have, and a precision that the
  /// GPU has no units for.
  explicit Grid(const Space& space);

  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Of pareto::Problem: one for each parameter, its indices.
  [[nodiscard]] std::vector<pareto::Variable> variables() const;

  [[nodiscard]] Job job_of(std::span<const double> point) const;
  /// Moves each index to the nearest whose value goes with those before it. Where there is none, the point
  /// stays one that cannot run.
  void repair(std::span<double> point) const;

  /// Whether a job can run, with the software in use.
  [[nodiscard]] bool can_run(const Job& job) const;
  /// Calls `visit` with every configuration that can run, until it says no; returns whether it never did.
  bool for_each(const std::function<bool(const Job&)>& visit) const;
  /// How many there are; `most` where there are more, and fewer where `stop` ended it.
  [[nodiscard]] std::int64_t count(std::int64_t most, const std::stop_token& stop = {}) const;

 private:
  bool visit_from(std::size_t parameter, Job& job, const std::function<bool(const Job&)>& visit) const;

  Job job_;  ///< what is given
  std::function<bool(const Job&)> runs_;
  std::vector<int> gpus_;  ///< how many there may be, ascending
  std::vector<Parameter> parameters_;
};

/// Why a space has no configuration, in one line: a fixed parameter and what it could be beside the others;
/// empty where there is one. Errors as of Grid.
std::string why_none(const Space& space);

}  // namespace stweaver
