// The readers against real jobs: what the job itself measured must come out of its snapshot.
#include "support/examples.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "support/sources.h"
#include "support/traces.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

/// A number that the manifest gives under the first `key` after the name of the job.
double measured(const std::string& job, const std::string& key) {
  std::ifstream file(STWEAVER_TEST_DATA "/traces/manifest.json");
  const std::string manifest(std::istreambuf_iterator<char>(file), {});
  const std::string quoted = '"' + key + "\": ";
  const std::size_t found = manifest.find(quoted, manifest.find('"' + job + '"'));
  return std::stod(manifest.substr(found + quoted.size(), 40));
}

class RealJob : public testing::TestWithParam<std::string> {};

TEST_P(RealJob, AskedForWhatItMeasured) {
  const Trace& trace = example(GetParam());
  EXPECT_EQ(static_cast<double>(trace.requests.size()), measured(GetParam(), "requests"));
  EXPECT_NEAR(to_gib(peak_requested(trace)), measured(GetParam(), "peak_requested_gib"), 0.00005 + 1e-9);
}

TEST_P(RealJob, ReservedWhatItMeasured) {
  const Trace& trace = example(GetParam());
  Bytes largest = 0;
  for (const Reserve& reserve : trace.reserves) largest = std::max(largest, reserve.bytes);
  EXPECT_EQ(to_gib(largest), measured(GetParam(), "reserved_gib"));  // the first is that of "native"
  EXPECT_EQ(trace.reserves.back().bytes, largest) << "none of these jobs gave memory back";
}

TEST_P(RealJob, HasItsMarksAndClock) {
  const Trace& trace = example(GetParam());
  EXPECT_EQ(trace.marks.front().label, "iteration 0");
  EXPECT_EQ(trace.marks.back().label, "end");
  EXPECT_EQ(trace.marks.back().time, trace.end);
  EXPECT_EQ(trace.micros.size(), static_cast<std::size_t>(trace.end));
  EXPECT_TRUE(std::ranges::is_sorted(trace.micros));
}

TEST_P(RealJob, SurvivesOurTraceFileAtATenthOfTheSize) {
  const Trace& trace = example(GetParam());
  std::string bytes;
  write_trace_file(trace, [&](std::span<const std::byte> part) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  EXPECT_LT(bytes.size(), trace.requests.size() * 20) << "the pickle takes about 200 bytes per request";
  expect_same(read_trace_file(source_of(bytes), "copy"), trace);
}

INSTANTIATE_TEST_SUITE_P(Examples, RealJob, testing::ValuesIn(example_jobs()),
                         [](const auto& job) { return job.param; });

}  // namespace
}  // namespace stweaver
