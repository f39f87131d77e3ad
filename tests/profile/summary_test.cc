#include "profile/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/profile.h"
#include "support/collisions.h"
#include "support/job.h"

namespace stweaver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Summary summary_of(const Trace& trace) {
  const Profile profile = profile_of(trace);
  return summarize(trace, profile.steps, profile.classes, profile.pattern);
}

TEST(RoundedPeak, RoundsEachSizeBeforeItSums) {
  Job job;
  job.allocate(1);
  job.free(job.allocate(513));
  job.allocate(512);
  const Trace trace = job.trace();
  EXPECT_EQ(rounded_peak(trace, 1), 514);
  EXPECT_EQ(rounded_peak(trace, 512), 512 + 1024);
  EXPECT_EQ(rounded_peak(trace, 3), 3 + 513);
  EXPECT_EQ(rounded_peak(trace, kMiB), 2 * kMiB);
}

TEST(RoundedPeak, CountsWhatWasAliveBeforeRecording) {
  Job job;
  const RequestId before = job.before(4096);
  job.free(before);
  job.allocate(512);
  EXPECT_EQ(rounded_peak(job.trace(), 512), 4096);
}

TEST(RoundedPeak, OfNothingIsNothing) {
  EXPECT_EQ(rounded_peak(Trace{}, 512), 0);
}

TEST(RoundedPeak, TakesARequestThatIsFreedBeforeTheNextOneOnce) {
  Job job;
  for (int i = 0; i < 5; ++i) job.touch(1024);
  EXPECT_EQ(rounded_peak(job.trace(), 512), 1024);
}

TEST(RoundedPeak, RefusesSizesThatAlignmentTakesOutOfRange) {
  Trace trace;
  trace.requests.push_back({.size = std::numeric_limits<Bytes>::max() - 1, .life = {0, kForever}});
  trace.end = 1;
  EXPECT_THAT([&] { rounded_peak(trace, 512); }, ThrowsMessage<Error>(HasSubstr("out of range")));
}

TEST(Summary, CountsRequestsStreamsAndSizes) {
  Job job;
  job.before(4096);
  job.touch(512, 7);
  job.touch(512, 9);
  job.allocate(4096, 7);
  job.allocate(0);
  const Summary summary = summary_of(job.trace());
  EXPECT_EQ(summary.requests, 5U);
  EXPECT_EQ(summary.streams, 3U);
  EXPECT_EQ(summary.sizes, 3U);
  EXPECT_EQ(summary.steps, 0U);
  EXPECT_EQ(summary.peak_requested, 8192);
  EXPECT_THAT(summary.by_kind, ElementsAre(0, 0, 0));
}

TEST(Summary, CountsStreamsAndSizesInAboutTheSameTimeWhateverTheyAre) {
  expect_no_collisions([](std::int64_t step) {
    Job job;
    for (std::int64_t i = 0; i < kColliding; ++i) job.touch(i * step, static_cast<Stream>(i * step));
    const Trace trace = job.trace();
    const std::vector<LifeClass> classes(trace.requests.size());
    EXPECT_EQ(summarize(trace, {}, classes, {}).sizes, classes.size());
  });
}

TEST(Summary, OfNothingIsAllNought) {
  const Summary summary = summary_of(Trace{});
  EXPECT_EQ(summary.requests + summary.steps + summary.streams + summary.sizes, 0U);
  EXPECT_EQ(summary.peak_requested, 0);
  EXPECT_EQ(summary.lower_bound, 0);
  EXPECT_THAT(summary.by_class, ElementsAre(0, 0, 0));
  EXPECT_THAT(summary.peak_by_class, ElementsAre(0, 0, 0));
}

TEST(Summary, ClassesAddUpToTheJob) {
  Training training({});
  for (int i = 0; i < 5; ++i) training.step();
  const Trace trace = training.job.trace();
  const Summary summary = summary_of(trace);
  const auto& [persistent, scoped, transient] = summary.by_class;
  EXPECT_EQ(persistent + scoped + transient, trace.requests.size());
  EXPECT_EQ(summary.steps, 5U);
  Bytes sum = 0;
  for (const Bytes peak : summary.peak_by_class) {
    EXPECT_LE(peak, summary.peak_requested);
    sum += peak;
  }
  EXPECT_GE(sum, summary.peak_requested);
  EXPECT_GE(summary.lower_bound, summary.peak_requested);
}

TEST(Summary, PersistentIsWhatIsNeverFreed) {
  Training training({});
  for (int i = 0; i < 5; ++i) training.step();
  const Trace trace = training.job.trace();
  std::size_t never_freed = 0;
  Bytes bytes = 0;
  for (const Request& request : trace.requests) {
    if (request.life.upper != kForever) continue;
    ++never_freed;
    bytes += request.size;
  }
  const Summary summary = summary_of(trace);
  EXPECT_EQ(summary.by_class[0], never_freed);
  EXPECT_EQ(summary.peak_by_class[0], bytes);
}

TEST(Summary, KindsAddUpToTheStepThatRepeats) {
  Training training({});
  for (const Bytes scale : {8, 8, 12, 9, 8}) training.step(scale);
  const Trace trace = training.job.trace();
  const Profile profile = profile_of(trace);
  const Summary summary = summarize(trace, profile.steps, profile.classes, profile.pattern);
  EXPECT_EQ(summary.by_kind[0] + summary.by_kind[1] + summary.by_kind[2], profile.pattern.positions.size());
  EXPECT_GT(summary.by_kind[1], 0U) << "activations";
  EXPECT_GT(summary.by_kind[0], 0U) << "gradients";
}

}  // namespace
}  // namespace stweaver
