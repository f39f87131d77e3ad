// Tables of measured training steps: what was run, and how long it took.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "advise/configuration.h"

namespace stweaver {

/// The most memory that a rank was seen to need.
struct MeasuredMemory {
  double bytes = 0;
  bool reserved = false;  ///< by PyTorch with expandable segments; else what was allocated
  int stage = -1;         ///< the pipeline stage of the rank; -1 for the fullest
};

/// One measured configuration.
struct Measurement {
  Job job;
  double seconds = 0;                    ///< of a step; 0 in a table without times
  std::optional<MeasuredMemory> memory;  ///< where the table has it
  std::size_t line = 0;                  ///< in the file, from 1
  std::string model;                     ///< what configurations are ranked within: model and what it runs in
};

/// A file of them.
struct Measurements {
  std::string kind;   ///< "vtrain", "bridge", "torchtitan", "memory": by its columns
  std::string stack;  ///< whose constants it asks for (constants.h)
  std::vector<Measurement> rows;
  std::vector<std::string> left_out;  ///< rows that cannot be predicted, each with its line and the reason
};

/// The same that a model says, in bytes.
double predicted_memory(const Measurement& row);

/// Reads a table whose first line names its columns. Four kinds are known by them (docs/advise.md lists the
/// columns): iteration times of GPT shapes, tokens per second of named models by layout, the same by FSDP
/// degree, and peaks of memory. A row that no job can have, that has no time or memory, or a cell that
/// cannot be read, is left out with its reason.
///
/// Error, with `name` and the line in front, for a table of no such kind and a line with too few or too many
/// cells.
Measurements read_measurements(const std::string& csv, const std::string& name);

}  // namespace stweaver
