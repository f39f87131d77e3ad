// The real jobs that ship with the project.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

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

/// Read once in a process: with sanitizers that takes seconds.
inline const Trace& example(const std::string& job) {
  static std::map<std::string, Trace> read;
  if (const auto found = read.find(job); found != read.end()) return found->second;
  const std::filesystem::path path = STWEAVER_TEST_DATA "/traces/" + job + ".pickle.xz";
  std::vector<Trace> traces = read_traces(open_archive(path), path.string());
  EXPECT_EQ(traces.size(), 1U) << path;
  return read.emplace(job, std::move(traces.front())).first->second;
}

}  // namespace stweaver
