// The simulator against real training jobs: the traces of examples/traces hold the segment events of
// PyTorch's own allocator, and manifest.json what another run of each job reserved with expandable segments.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "simulate/simulate.h"
#include "support/examples.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

/// The reserve as a function of time, without what changes nothing.
std::vector<Reserve> curve_of(const std::vector<Reserve>& reserves) {
  std::map<Time, Bytes> at;
  for (const Reserve& reserve : reserves) at[reserve.time] = reserve.bytes;
  std::vector<Reserve> curve;
  for (const auto& [time, bytes] : at) {
    if (bytes != (curve.empty() ? 0 : curve.back().bytes)) curve.push_back({time, bytes});
  }
  return curve;
}

/// The two curves side by side around their first difference.
std::string table_of(const std::vector<Reserve>& simulated, const std::vector<Reserve>& measured) {
  const auto differs = [](const Reserve& a, const Reserve& b) {
    return a.time != b.time || a.bytes != b.bytes;
  };
  std::size_t first = 0;
  while (first < std::min(simulated.size(), measured.size()) && !differs(simulated[first], measured[first]))
    ++first;
  std::string table =
      "        simulated                  measured\n        event      MiB           event      MiB\n";
  const auto cell = [](const std::vector<Reserve>& curve, std::size_t row) {
    return row < curve.size() ? text(curve[row].time, "  ", curve[row].bytes / kMiB) : std::string("-");
  };
  for (std::size_t row = first > 3 ? first - 3 : 0; row < first + 8; ++row) {
    const std::string left = cell(simulated, row);
    table +=
        text("        ", left, std::string(std::max<std::size_t>(25, left.size() + 2) - left.size(), ' '),
             cell(measured, row), row == first ? "   <- first difference\n" : "\n");
  }
  return table;
}

class Jobs : public ::testing::TestWithParam<std::string> {};

TEST_P(Jobs, MakeTheSameSegmentsAtTheSameEventsAsPyTorch) {
  const Trace& trace = example(GetParam());
  CachingAllocator allocator(parse_settings(trace.settings));
  const ReplayResult result = replay(trace, allocator);
  EXPECT_EQ(result.reserved_peak, measured_reserve_peak(trace));
  const std::vector<Reserve> simulated = curve_of(result.reserves);
  const std::vector<Reserve> measured = curve_of(trace.reserves);
  EXPECT_TRUE(
      std::equal(simulated.begin(), simulated.end(), measured.begin(), measured.end(),
                 [](const Reserve& a, const Reserve& b) { return a.time == b.time && a.bytes == b.bytes; }))
      << table_of(simulated, measured);
  EXPECT_EQ(result.requested_peak, peak_requested(trace));
  EXPECT_EQ(result.ooms, 0);
}

nlohmann::json manifest_of(const std::string& job) {
  return nlohmann::json::parse(std::ifstream(STWEAVER_TEST_DATA "/traces/manifest.json")).at(job);
}

TEST_P(Jobs, AllocateWhatWasMeasuredAfterRounding) {
  const double measured = manifest_of(GetParam()).at("native").at("allocated_gib").get<double>();
  CachingAllocator allocator({});
  replay(example(GetParam()), allocator);
  EXPECT_NEAR(to_gib(allocator.statistics().allocated_peak), measured, 0.0001);  // it has four digits
}

TEST_P(Jobs, ReserveWhatWasMeasuredWithExpandableSegments) {
  const double measured = manifest_of(GetParam()).at("expandable").at("reserved_gib").get<double>();
  CachingAllocator allocator(parse_settings("expandable_segments:True"));
  const double simulated = to_gib(replay(example(GetParam()), allocator).reserved_peak);
  // Measured in a run of its own, which may differ by a page (moe_N routes tokens at random):
  // docs/simulation.md.
  EXPECT_NEAR(simulated, measured, to_gib(kSmallBuffer));
}

INSTANTIATE_TEST_SUITE_P(Traces, Jobs, ::testing::ValuesIn(example_jobs()),
                         [](const auto& job) { return job.param; });

}  // namespace
}  // namespace stweaver
