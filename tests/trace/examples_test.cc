// The readers against real jobs: what the job itself measured must come out of its snapshot.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "archive/archive.h"
#include "support/errors.h"
#include "support/sources.h"
#include "support/traces.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

namespace fs = std::filesystem;

const fs::path kExamples = STWEAVER_TEST_DATA;

/// A number that the manifest gives under the first `key` after the name of the job.
double measured(const std::string& job, const std::string& key) {
  std::ifstream file(kExamples / "traces" / "manifest.json");
  const std::string manifest(std::istreambuf_iterator<char>(file), {});
  const std::string quoted = '"' + key + "\": ";
  const std::size_t found = manifest.find(quoted, manifest.find('"' + job + '"'));
  return std::stod(manifest.substr(found + quoted.size(), 40));
}

std::vector<std::string> jobs() {
  std::vector<std::string> names;
  for (const fs::directory_entry& file : fs::directory_iterator(kExamples / "traces")) {
    const std::string name = file.path().filename().string();
    if (name.ends_with(".pickle.xz")) names.push_back(name.substr(0, name.find('.')));
  }
  std::ranges::sort(names);
  return names;
}

class RealJob : public testing::TestWithParam<std::string> {
 protected:
  static Trace read() {
    const fs::path path = kExamples / "traces" / (GetParam() + ".pickle.xz");
    const std::vector<Trace> traces = read_traces(open_archive(path), path.string());
    EXPECT_EQ(traces.size(), 1);
    return traces.front();
  }
};

TEST_P(RealJob, AskedForWhatItMeasured) {
  const Trace trace = read();
  EXPECT_EQ(static_cast<double>(trace.requests.size()), measured(GetParam(), "requests"));
  EXPECT_NEAR(to_gib(peak_requested(trace)), measured(GetParam(), "peak_requested_gib"), 0.00005 + 1e-9);
}

TEST_P(RealJob, ReservedWhatItMeasured) {
  const Trace trace = read();
  Bytes largest = 0;
  for (const Reserve& reserve : trace.reserves) largest = std::max(largest, reserve.bytes);
  EXPECT_EQ(to_gib(largest), measured(GetParam(), "reserved_gib"));  // the first is that of "native"
  EXPECT_EQ(trace.reserves.back().bytes, largest) << "none of these jobs gave memory back";
}

TEST_P(RealJob, HasItsMarksAndClock) {
  const Trace trace = read();
  EXPECT_EQ(trace.marks.front().label, "iteration 0");
  EXPECT_EQ(trace.marks.back().label, "end");
  EXPECT_EQ(trace.marks.back().time, trace.end);
  EXPECT_EQ(trace.micros.size(), static_cast<std::size_t>(trace.end));
  EXPECT_TRUE(std::ranges::is_sorted(trace.micros));
}

TEST_P(RealJob, SurvivesOurTraceFileAtATenthOfTheSize) {
  const Trace trace = read();
  std::string bytes;
  write_trace_file(trace, [&](std::span<const std::byte> part) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  EXPECT_LT(bytes.size(), trace.requests.size() * 20) << "the pickle takes about 200 bytes per request";
  expect_same(read_trace_file(source_of(bytes), "copy"), trace);
}

INSTANTIATE_TEST_SUITE_P(Examples, RealJob, testing::ValuesIn(jobs()),
                         [](const auto& job) { return job.param; });

}  // namespace
}  // namespace stweaver
