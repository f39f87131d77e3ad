// Snapshots of PyTorch's own making, one feature each (bench/gpu/snapshots.py), against what the job knows of
// itself.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "archive/archive.h"
#include "profile/profile.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

const std::filesystem::path kSnapshots = std::filesystem::path(STWEAVER_TEST_DATA) / "snapshots";

std::vector<Trace> read(const std::string& name) {
  const std::filesystem::path path = kSnapshots / (name + ".pickle.xz");
  return read_traces(open_archive(path), path.string());
}

nlohmann::json facts_of(const std::string& name) {
  std::ifstream file(kSnapshots / "facts.json");
  return nlohmann::json::parse(file).at(name).at("devices");
}

std::size_t before_recording(const Trace& trace) {
  return static_cast<std::size_t>(
      std::ranges::count(trace.requests, kBeforeRecording, [](const Request& r) { return r.life.lower; }));
}

class RealSnapshot : public testing::TestWithParam<const char*> {};

TEST_P(RealSnapshot, HoldsWhatTheJobCounted) {
  const nlohmann::json facts = facts_of(GetParam());
  for (const Trace& trace : read(GetParam())) {
    const nlohmann::json& device = facts.at(static_cast<std::size_t>(trace.device));
    EXPECT_EQ(trace.requests.size() - before_recording(trace), device.at("allocations"));
    EXPECT_EQ(peak_requested(trace), device.at("requested_peak"));
    EXPECT_EQ(static_cast<std::int64_t>(trace.ooms.size()), device.at("ooms"));
    ASSERT_FALSE(trace.reserves.empty());
    EXPECT_EQ(trace.reserves.back().bytes, device.at("reserved"));
  }
}

INSTANTIATE_TEST_SUITE_P(Torch211, RealSnapshot,
                         testing::Values("steps", "expandable", "streams", "out_of_memory", "graph", "late",
                                         "devices"));

TEST(RealSnapshots, StepsMarkedByMetadataAreFound) {
  for (const char* name : {"steps", "expandable"}) {
    const Steps steps = find_steps(read(name).front());
    EXPECT_EQ(steps.source, StepSource::kMarks);
    EXPECT_EQ(steps.spans.size(), 5);
  }
}

TEST(RealSnapshots, ExpandableSegmentsAreKnown) {
  EXPECT_NE(read("expandable").front().settings.find("expandable_segments:True"), std::string::npos);
  EXPECT_EQ(read("steps").front().settings.find("expandable_segments:True"), std::string::npos);
}

TEST(RealSnapshots, RecordedStreamsDelayTheFree) {
  const Trace trace = read("streams").front();
  const auto delayed =
      std::ranges::count_if(trace.requests, [](const Request& r) { return r.dropped < r.life.upper; });
  EXPECT_EQ(delayed,
            3);  // four rounds, but in the first the side stream was done before the block was dropped
}

TEST(RealSnapshots, FailedRequestsAreKept) {
  const Trace trace = read("out_of_memory").front();
  EXPECT_FALSE(trace.ooms.empty());
  for (const OutOfMemory& oom : trace.ooms) {
    EXPECT_EQ(oom.size, Bytes{1} << 41);
    EXPECT_GT(oom.device_free, 0);
  }
}

TEST(RealSnapshots, GraphsHaveAPoolOfTheirOwn) {
  const Trace trace = read("graph").front();
  EXPECT_TRUE(std::ranges::any_of(trace.requests, [](const Request& r) { return r.pool != 0; }));
  EXPECT_TRUE(std::ranges::any_of(trace.requests, [](const Request& r) { return r.pool == 0; }));
}

TEST(RealSnapshots, BlocksFromBeforeRecordingAreThere) {
  EXPECT_EQ(before_recording(read("late").front()), 4);
}

TEST(RealSnapshots, EachDeviceHasATrace) {
  const std::vector<Trace> traces = read("devices");
  ASSERT_EQ(traces.size(), 2);
  EXPECT_EQ(traces[0].device, 0);
  EXPECT_EQ(traces[1].device, 1);
}

}  // namespace
}  // namespace stweaver
