#include "report/snapshot_export.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job.h"
#include "support/sources.h"
#include "support/traces.h"
#include "trace/snapshot.h"

namespace stweaver {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Trace exported(const Trace& trace, const ReplayResult& served, const std::string& settings = "") {
  return read_snapshot(source_of(snapshot_of(trace, served, settings)), "export").at(0);
}

void expect_same_job(const Trace& a, const Trace& b) {
  expect_same(a.requests, b.requests, "request");
  expect_same(a.marks, b.marks, "mark");
  EXPECT_EQ(a.sites, b.sites);
  EXPECT_EQ(a.micros, b.micros);
  EXPECT_EQ(a.end, b.end);
  EXPECT_EQ(a.device, b.device);
}

/// A loop with a second stream, a graph's pool, lines of code, a clock, and memory that a stream still uses.
Trace rich_trace() {
  Training training({.side_stream = 7});
  for (int i = 0; i < 3; ++i) training.step();
  training.job.touch(30 * kMiB, 7);
  training.job.allocate(3 * kMiB, 0, 1);
  Trace trace = training.job.trace();
  trace.device = 2;
  trace.sites = {"", "forward (job/model.py:12)", "f (x) (a b/c:d.py:7)"};
  for (RequestId id = 0; id < trace.requests.size(); ++id) trace.requests[id].site = std::min(id, 2U);
  trace.requests.back().dropped = trace.end++;
  for (Time time = 0; time < trace.end; ++time) trace.micros.push_back(1'700'000'000'000'000 + 3 * time);
  validate(trace);
  return trace;
}

TEST(SnapshotExport, ReadsBackAsTheSameTrace) {
  const Trace trace = rich_trace();
  for (const char* const settings : {"", "expandable_segments:True"}) {
    const ReplayResult served = simulate(trace, parse_settings(settings));
    const Trace back = exported(trace, served, settings);
    expect_same_job(trace, back);
    EXPECT_EQ(back.settings, settings);
    EXPECT_EQ(measured_reserve_peak(back), served.reserved_peak);
  }
}

TEST(SnapshotExport, OfAPlannedJobReadsBackAsTheSameTrace) {
  const JobReport report = report_job(rich_trace(), {.threads = 1, .timeout = 0.1});
  const Trace back = read_snapshot(source_of(snapshot_of(report, Contender::kStweaver)), "export").at(0);
  expect_same_job(report.trace, back);
  EXPECT_EQ(measured_reserve_peak(back), report.comparison.stweaver.replay.reserved_peak);
}

TEST(SnapshotExport, IsSimulatedAgainWithTheSettingsOfTheJob) {
  JobReport report = report_job(rich_trace(), {.threads = 1, .timeout = 0.1});
  report.trace.settings = "expandable_segments:True,roundup_power2_divisions:2";
  report.comparison = compare(report.trace, {.threads = 1, .timeout = 0.1});
  for (const Contender contender : {Contender::kNative, Contender::kExpandable}) {
    Trace back = read_snapshot(source_of(snapshot_of(report, contender)), "export").at(0);
    for (const AllocatorKind kind : {AllocatorKind::kNative, AllocatorKind::kExpandable})
      EXPECT_EQ(simulate(back, settings_of(back, kind)).reserved_peak,
                simulate(report.trace, settings_of(report.trace, kind)).reserved_peak);
  }
}

TEST(SnapshotExport, KnowsWhatWasThereBeforeRecording) {
  Job job;
  const RequestId freed = job.before(5 * kMiB);
  job.before(3 * kMiB);
  job.free(freed);
  job.allocate(kMiB);
  const Trace trace = job.trace();
  const ReplayResult served = simulate(trace, {});
  const Trace back = exported(trace, served);
  expect_same_job(trace, back);
  ASSERT_FALSE(back.reserves.empty());
  EXPECT_EQ(back.reserves.front().bytes, served.reserves.front().bytes) << "those segments are no events";
}

TEST(SnapshotExport, KeepsMarksThatPyTorchHasNoWordFor) {
  Job job;
  job.mark("step");
  job.mark("forward");
  job.touch(1000);
  job.mark("step");
  job.mark("step");
  job.touch(1000);
  const Trace trace = job.trace();
  expect_same_job(trace, exported(trace, simulate(trace, {})));
}

TEST(SnapshotExport, LeavesOutRequestsWithoutBytes) {
  Job job;
  job.touch(0);
  job.allocate(100);
  const Trace trace = job.trace();
  const Trace back = exported(trace, simulate(trace, {}));
  EXPECT_EQ(back.requests.size(), 1U);
  EXPECT_EQ(back.end, 1);
}

TEST(SegmentLog, TellsWhenMemoryWasTakenAndGivenBack) {
  Job job;
  job.before(kMiB);
  job.touch(30 * kMiB);
  const Trace trace = job.trace();
  SegmentLog log;
  CachingAllocator allocator{AllocatorSettings()};
  allocator.log_segments(log);
  const ReplayResult served = replay(trace, allocator, {.segments = &log});
  std::vector<Time> times;
  for (const SegmentChange& change : served.segments) times.push_back(change.time);
  EXPECT_THAT(times, ElementsAre(kBeforeRecording, 0));
  log.set_time(trace.end);
  allocator.empty_cache();
  const std::vector<SegmentChange> later = log.take();
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].action, SegmentAction::kFree);
  EXPECT_EQ(later[0].size, 30 * kMiB);
  EXPECT_EQ(later[0].time, trace.end);
  EXPECT_THAT(log.take(), IsEmpty());
}

}  // namespace
}  // namespace stweaver
