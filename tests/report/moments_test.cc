#include "report/moments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulate/simulate.h"
#include "support/job.h"

namespace stweaver {
namespace {

constexpr Stream kSide = 7;

PeakMoment peak_of(const Trace& trace) {
  return peak_moment(trace, std::vector<LifeClass>(trace.requests.size(), LifeClass::kScoped));
}

TEST(PeakMoment, GroupsWhatIsAliveTheLargestFirst) {
  Job job;
  job.before(5);
  job.touch(1000);
  job.allocate(100);
  job.allocate(600);
  job.allocate(100, kSide);
  job.allocate(600);
  const PeakMoment peak = peak_of(job.trace());
  EXPECT_EQ(peak.time, 5);
  EXPECT_EQ(peak.bytes, 1405);
  EXPECT_EQ(peak.requests, 5);
  ASSERT_EQ(peak.groups.size(), 4);
  EXPECT_EQ(peak.groups[0].bytes, 1200);
  EXPECT_EQ(peak.groups[0].requests, 2);
  EXPECT_EQ(peak.groups[1].bytes, 100);
  EXPECT_EQ(peak.groups[2].bytes, 100);
  EXPECT_NE(peak.groups[1].stream, peak.groups[2].stream);
  EXPECT_EQ(peak.groups[3].bytes, 5);
}

TEST(PeakMoment, GroupsByLineOfCodeWhereThatIsKnown) {
  Job job;
  for (const Bytes size : {100, 200, 300}) job.allocate(size);
  Trace trace = job.trace();
  trace.sites = {"", "forward (model.py:3)"};
  trace.requests[0].site = trace.requests[2].site = 1;
  const PeakMoment peak = peak_of(trace);
  ASSERT_EQ(peak.groups.size(), 2);
  EXPECT_EQ(peak.groups[0].site, 1);
  EXPECT_EQ(peak.groups[0].bytes, 400);
  EXPECT_EQ(peak.groups[0].smallest, 100);
  EXPECT_EQ(peak.groups[0].largest, 300);
  EXPECT_EQ(peak.groups[1].site, 0);
}

TEST(PeakMoment, MayLieBeforeTheFirstEvent) {
  Job job;
  const RequestId large = job.before(10'000);
  job.before(5);
  job.free(large);
  job.allocate(1000);
  const PeakMoment peak = peak_of(job.trace());
  EXPECT_EQ(peak.time, kBeforeRecording);
  EXPECT_EQ(peak.bytes, 10'005);
  EXPECT_EQ(peak.requests, 2);
}

TEST(PeakMoment, OfAnEmptyTraceIsNothing) {
  const PeakMoment peak = peak_of(Job().trace());
  EXPECT_EQ(peak.bytes, 0);
  EXPECT_TRUE(peak.groups.empty());
}

StrandedMoment stranded_in(const Trace& trace) {
  CachingAllocator allocator(settings_of(trace, AllocatorKind::kNative));
  return stranded_moment(trace, replay(trace, allocator).reserves);
}

TEST(StrandedMoment, IsJustBeforeTheReserveReachesItsPeak) {
  Job job;
  job.touch(30 * kMiB);
  job.allocate(5);
  job.allocate(40 * kMiB);
  job.touch(30 * kMiB);
  const StrandedMoment moment = stranded_in(job.trace());
  EXPECT_EQ(moment.time, 3);
  ASSERT_TRUE(moment.request);
  EXPECT_EQ(moment.request->size, 40 * kMiB);
  EXPECT_EQ(moment.reserved, 32 * kMiB);
  EXPECT_EQ(moment.allocated, 512);
  EXPECT_EQ(moment.requested, 5);
  ASSERT_EQ(moment.segments.size(), 2);
}

TEST(StrandedMoment, IsOfTheJobsOwnSettings) {
  Job job;
  job.allocate(5 * kMiB);
  job.allocate(600 * kMiB);
  Trace trace = job.trace();
  trace.settings = "large_segment_size_mb:512";
  const StrandedMoment moment = stranded_in(trace);
  EXPECT_EQ(moment.reserved, 512 * kMiB);
  ASSERT_TRUE(moment.request);
  EXPECT_EQ(moment.request->size, 600 * kMiB);
}

TEST(StrandedMoment, KnowsNoRequestWhereAllWasThereBefore) {
  Job job;
  job.before(30 * kMiB);
  job.touch(100);
  Trace trace = job.trace();
  trace.requests[1].size = 0;
  const StrandedMoment moment = stranded_in(trace);
  EXPECT_FALSE(moment.request);
  EXPECT_FALSE(stranded_in(Job().trace()).request);
}

}  // namespace
}  // namespace stweaver
