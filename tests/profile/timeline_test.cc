#include "profile/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job.h"

namespace stweaver {
namespace {

using testing::ElementsAre;

TEST(Timeline, CountsTheBirthsBeforeEachEvent) {
  Job job;
  job.before(1);
  const RequestId first = job.allocate(1);
  job.allocate(1);
  job.free(first);
  job.allocate(1);
  const Trace trace = job.trace();
  EXPECT_THAT(births_before(trace), ElementsAre(1, 2, 3, 3, 4));
  EXPECT_EQ(death_of(trace.requests[first], births_before(trace)), 3) << "the request born after the free";
}

TEST(Timeline, LosesNoMeetingByCountingBirths) {
  Training training({.micro_batches = 2, .side_stream = 3});
  for (int i = 0; i < 3; ++i) training.step();
  const Trace trace = training.job.trace();
  const std::vector<RequestId> births = births_before(trace);
  for (RequestId a = 0; a < trace.requests.size(); ++a) {
    for (RequestId b = a + 1; b < trace.requests.size(); ++b) {
      const Request& request = trace.requests[a];
      const bool meet = overlaps(request.life, trace.requests[b].life);
      EXPECT_EQ(request.life.upper == kForever || b < death_of(request, births), meet) << a << " and " << b;
    }
  }
}

TEST(Timeline, TellsStructureFromSize) {
  Job job;
  job.touch(10);
  job.touch(20);
  job.touch(20, 5);
  job.allocate(20);
  job.touch(20);
  const RequestId used_elsewhere = job.allocate(20);
  job.touch(20);
  job.free(used_elsewhere);
  Trace trace = job.trace();
  trace.requests[used_elsewhere].dropped = trace.requests[used_elsewhere].life.lower + 1;
  const auto structure = structure_tokens(trace);
  EXPECT_EQ(structure[0], structure[1]);
  EXPECT_EQ(structure[1], structure[used_elsewhere]) << "how long other streams use it is chance";
  EXPECT_NE(structure[1], structure[2]) << "another stream";
  EXPECT_NE(structure[1], structure[3]) << "another lifetime";
  const auto sizes = size_tokens(trace);
  EXPECT_NE(sizes[0], sizes[1]);
  EXPECT_NE(sizes[1], sizes[2]) << "another stream";
  EXPECT_EQ(sizes[1], sizes[3]);
}

TEST(Timeline, OfWhatWasDroppedBeforeTheRecordingStructureIsWhenItIsFreed) {
  Job job;
  const RequestId late = job.before(20);
  const RequestId never = job.before(20);
  const RequestId other = job.before(20);
  job.touch(30);
  job.free(late);
  job.free(other);
  Trace trace = job.trace();
  const auto as_seen = structure_tokens(trace);
  for (const RequestId id : {late, never}) trace.requests[id].dropped = kBeforeRecording;
  validate(trace);
  EXPECT_EQ(structure_tokens(trace), as_seen);
}

TEST(Timeline, CutsATraceToAValidPrefixAnywhere) {
  Training training({.zero_grad_first = true});
  for (int i = 0; i < 3; ++i) training.step();
  Trace trace = training.job.trace();
  trace.requests[3].dropped = trace.requests[3].life.upper;
  for (Time t = 0; t < trace.end; ++t) {
    trace.micros.push_back(t);
    if (t % 10 == 0) trace.reserves.push_back({t, t});
    if (t % 100 == 0) trace.ooms.push_back({t, 1, 1});
  }
  for (Time end = 0; end <= trace.end; ++end) {
    const Trace prefix = prefix_of(trace, end);
    ASSERT_NO_THROW(validate(prefix)) << end;
    EXPECT_EQ(prefix.end, end);
    for (const Request& request : prefix.requests) EXPECT_LT(request.life.lower, end);
    for (const Mark& mark : prefix.marks) EXPECT_LT(mark.time, end);
  }
  EXPECT_EQ(prefix_of(trace, trace.end).requests.size(), trace.requests.size());
}

}  // namespace
}  // namespace stweaver
