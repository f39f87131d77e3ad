// The planning instances that ship with the project.
#pragma once

#include <string>

#include "archive/archive.h"
#include "plan/instance.h"
#include "trace/csv.h"

namespace stweaver {

/// The instance in examples/planning/`name`.csv.
inline Instance planning_example(const std::string& name) {
  const std::string path = STWEAVER_TEST_DATA "/planning/" + name + ".csv";
  Instance instance;
  for (const CsvRow& row : read_csv(open_archive(path), path))
    instance.items.push_back({.size = row.size, .life = row.life});
  return instance;
}

}  // namespace stweaver
