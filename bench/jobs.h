// Recorded jobs, as benches serve them.
#pragma once

#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "archive/archive.h"
#include "profile/profile.h"
#include "trace/trace.h"

namespace stweaver {

inline constexpr Bytes kCapacity = 140 * kGiB;  ///< as an H200 has, so that addresses are no more plentiful

struct Job {
  Trace trace;
  std::vector<Time> steps;  ///< where they begin
};

/// The jobs of some files. Error as of the readers, and for one that the device cannot serve.
inline std::vector<Job> read_jobs(std::span<char*> paths) {
  std::vector<Job> jobs;
  for (const std::string path : paths) {
    for (Trace& trace : read_traces(open_archive(path), path)) {
      if (peak_requested(trace) > kCapacity)
        fail(path, ": asks for more than the ", in_gib(kCapacity), " of a bench's device");
      std::vector<Time> steps;
      for (const Lifespan& step : profile_of(trace).steps.spans) steps.push_back(step.lower);
      jobs.push_back({std::move(trace), std::move(steps)});
    }
  }
  return jobs;
}

/// What main() of a bench does that takes nothing but traces: its exit status.
template <typename Print>
int run_on_jobs(std::string_view name, int count, char** arguments, Print print) {
  if (count < 2) {
    fmt::print(stderr, "usage: {} TRACE...\n", name);
    return 2;
  }
  try {
    print(read_jobs(std::span(arguments + 1, static_cast<std::size_t>(count - 1))));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

}  // namespace stweaver
