// Tables of measured training steps: what was run, and how long it took.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "advise/configuration.h"

namespace stweaver {

/// One measured configuration.
struct Measurement {
  Job job;
  double seconds = 0;            ///< of a step
  std::optional<double> memory;  ///< GiB that the fullest rank reserved
  std::size_t line = 0;          ///< in the file, from 1
  std::string model;             ///< what configurations are ranked within: model and what it runs in
};

/// A file of them.
struct Measurements {
  std::string kind;   ///< "vtrain", "bridge", "torchtitan": by its columns
  std::string stack;  ///< whose constants it asks for (constants.h)
  std::vector<Measurement> rows;
  std::vector<std::string> left_out;  ///< rows that cannot be predicted, each with its line and the reason
};

/// Reads a table whose first line names its columns. Three kinds are known by them (docs/advise.md lists the
/// columns): iteration times of GPT shapes, tokens per second of named models by layout, and the same by FSDP
/// degree. A row that no job can have is left out with its reason.
///
/// Error, with `name` and the line in front, for a table of no such kind, a line with too few or too many
/// cells, and a cell that is no number where one is needed.
Measurements read_measurements(const std::string& csv, const std::string& name);

}  // namespace stweaver
