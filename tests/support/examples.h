// The real jobs that ship with the project.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "trace/trace.h"

namespace stweaver {

inline std::vector<std::string> example_jobs() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(STWEAVER_TEST_DATA "/traces")) {
    const std::string name = file.path().filename().string();
    if (name.ends_with(".pickle.xz")) names.push_back(name.substr(0, name.find('.')));
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline Trace read_example(const std::string& job) {
  const std::filesystem::path path = STWEAVER_TEST_DATA "/traces/" + job + ".pickle.xz";
  return read_traces(open_archive(path), path.string()).front();
}

}  // namespace stweaver
