// Recorded jobs, as benches serve them.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "archive/archive.h"
#include "profile/profile.h"
#include "trace/trace.h"

namespace stweaver {

struct Job {
  Trace trace;
  std::vector<Time> steps;  ///< where they begin
};

/// The jobs of some files. Error as of the readers.
inline std::vector<Job> read_jobs(std::span<char*> paths) {
  std::vector<Job> jobs;
  for (const std::string path : paths) {
    for (Trace& trace : read_traces(open_archive(path), path)) {
      std::vector<Time> steps;
      for (const Lifespan& step : profile_of(trace).steps.spans) steps.push_back(step.lower);
      jobs.push_back({std::move(trace), std::move(steps)});
    }
  }
  return jobs;
}

}  // namespace stweaver
