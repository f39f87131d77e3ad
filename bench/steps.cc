// steps TRACE...: where steps are found that nobody marks, in recordings that end anywhere. Of each job with
// marks so many beginnings are taken, each longer by a part of a step and without its marks. Counted is how
// long the usual step is that is found there, beside what the job has marked.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "jobs.h"
#include "profile/timeline.h"

namespace stweaver {
namespace {

constexpr int kCuts = 24;
constexpr std::size_t kFirstEnd = 3;  ///< steps in the shortest beginning
constexpr std::size_t kLastEnd = 9;   ///< in the longest, at most
constexpr double kAlike = 0.05;       ///< how far a step may be from the marked one and be called the same

enum Found : std::uint8_t { kNone, kShorter, kSame, kLonger, kKinds };

/// Requests in the usual step.
double usual(const Trace& trace, const Steps& steps) {
  const std::vector<RequestId> births = births_before(trace);
  std::vector<double> counts;
  counts.reserve(steps.spans.size());
  for (const Lifespan& span : steps.spans)
    counts.push_back(births[static_cast<std::size_t>(span.upper)] -
                     births[static_cast<std::size_t>(span.lower)]);
  const auto middle = counts.begin() + std::ssize(counts) / 2;
  std::nth_element(counts.begin(), middle, counts.end());
  return *middle;
}

Found found_in(const Trace& beginning, double marked) {
  const Steps steps = find_steps(beginning);
  if (steps.spans.empty()) return kNone;
  const double share = usual(beginning, steps) / marked;
  if (share < 1 - kAlike) return kShorter;
  return share <= 1 + kAlike ? kSame : kLonger;
}

void print(const std::vector<Job>& jobs) {
  fmt::print("| job | the same | shorter | longer | none |\n|---|---|---|---|---|\n");
  std::array<int, kKinds> sums{};
  const auto row = [](const std::string& name, const std::array<int, kKinds>& counts) {
    fmt::print("| {} | {} | {} | {} | {} |\n", name, counts[kSame], counts[kShorter], counts[kLonger],
               counts[kNone]);
  };
  for (const Job& job : jobs) {
    const Steps marked = steps_from_marks(job.trace);
    if (marked.spans.size() <= kFirstEnd) continue;
    const double marked_step = usual(job.trace, marked);
    const Time first = marked.spans[kFirstEnd - 1].upper;
    const Time last = marked.spans[std::min(marked.spans.size(), kLastEnd) - 1].upper;
    std::array<int, kKinds> counts{};
    for (int cut = 0; cut < kCuts; ++cut) {
      Trace beginning = prefix_of(job.trace, first + (last - first) * cut / kCuts);
      beginning.marks.clear();
      const Found found = found_in(beginning, marked_step);
      ++counts.at(found);
      ++sums.at(found);
    }
    row(std::filesystem::path(job.trace.name).filename().string(), counts);
  }
  row("all", sums);
}

}  // namespace
}  // namespace stweaver

int main(int count, char** arguments) {
  return stweaver::run_on_jobs("steps", count, arguments, stweaver::print);
}
