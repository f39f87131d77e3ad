#include "trace/model.h"

#include "support/errors.h"

namespace stweaver {
namespace {

using testing::HasSubstr;

/// 0: a is born, 1: b is born, 2: a is dropped, 3: b is freed, 4: a is freed; c is there all the time.
Trace small() {
  Trace trace;
  trace.name = "small";
  trace.requests = {{1000, {kBeforeRecording, kForever}, kForever}, {10, {0, 4}, 2}, {5, {1, 3}, 3}};
  trace.end = 5;
  return trace;
}

std::string refused_trace(const Trace& trace) {
  return refusal([&] { validate(trace); });
}

TEST(Model, OrdersTheEventsOfAllRequests) {
  const Trace trace = small();
  validate(trace);
  const std::vector<Event> events = events_of(trace);
  const std::vector<Event> expected = {{EventKind::kAllocate, 1},
                                       {EventKind::kAllocate, 2},
                                       {EventKind::kDrop, 1},
                                       {EventKind::kFree, 2},
                                       {EventKind::kFree, 1}};
  ASSERT_EQ(events.size(), expected.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].kind, expected[i].kind) << i;
    EXPECT_EQ(events[i].request, expected[i].request) << i;
  }
}

TEST(Model, CountsMemoryInThePeakUntilItMayBeUsedAgain) {
  EXPECT_EQ(peak_requested(small()), 1015);
}

TEST(Model, PeakOfNothingIsWhatWasThereBefore) {
  Trace trace = small();
  trace.requests.resize(1);
  trace.end = 0;
  validate(trace);
  EXPECT_EQ(peak_requested(trace), 1000);
}

TEST(Model, AcceptsWhatWasDroppedBeforeRecording) {
  Trace trace = small();
  trace.requests[0].dropped = kBeforeRecording;
  validate(trace);
  EXPECT_EQ(events_of(trace).size(), 5);
}

TEST(Model, NamesTheTraceAndTheOffence) {
  Trace trace = small();
  trace.requests[1].size = -1;
  EXPECT_THAT(refused_trace(trace), HasSubstr("small: request 1 has a negative size"));
}

TEST(Model, RefusesALifespanThatEndsBeforeItBegins) {
  Trace trace = small();
  trace.requests[2].life = {3, 1};
  EXPECT_THAT(refused_trace(trace), HasSubstr("request 2 ends before it begins"));
  trace.requests[2].life = {kForever, kForever};
  EXPECT_THAT(refused_trace(trace), HasSubstr("request 2 ends before it begins"));
}

TEST(Model, RefusesADropOutsideOfTheLifespan) {
  Trace trace = small();
  trace.requests[1].dropped = 5;
  EXPECT_THAT(refused_trace(trace), HasSubstr("dropped after it is freed"));
  trace.requests[1].dropped = 0;
  EXPECT_THAT(refused_trace(trace), HasSubstr("dropped before it is allocated"));
}

TEST(Model, RefusesRequestsOutOfOrder) {
  Trace trace = small();
  std::swap(trace.requests[1], trace.requests[2]);
  EXPECT_THAT(refused_trace(trace), HasSubstr("request 2 is out of order"));
}

TEST(Model, RefusesTwoEventsAtOneTime) {
  Trace trace = small();
  trace.requests[1].dropped = 3;
  EXPECT_THAT(refused_trace(trace), HasSubstr("two events at time 3"));
}

TEST(Model, RefusesTimesWithoutAnEvent) {
  Trace trace = small();
  trace.end = 6;
  EXPECT_THAT(refused_trace(trace), HasSubstr("5 events of requests, but 6"));
  trace.end = 4;
  EXPECT_THAT(refused_trace(trace), HasSubstr("event at 4, outside"));
}

TEST(Model, RefusesSizesWhoseSumDoesNotFit) {
  Trace trace = small();
  trace.requests[0].size = std::numeric_limits<Bytes>::max() - 100;
  EXPECT_THAT(refused_trace(trace), HasSubstr("sum of all requested bytes is out of range"));
}

TEST(Model, RefusesMarksThatAreOutOfOrderOrOutside) {
  Trace trace = small();
  trace.marks = {{5, "at the end"}};
  validate(trace);
  trace.marks = {{3, "b"}, {2, "a"}};
  EXPECT_THAT(refused_trace(trace), HasSubstr("the mark at 2"));
  trace.marks = {{6, "a"}};
  EXPECT_THAT(refused_trace(trace), HasSubstr("the mark at 6"));
}

TEST(Model, RefusesNegativeReservesAndHalfAClock) {
  Trace trace = small();
  trace.reserves = {{0, -1}};
  EXPECT_THAT(refused_trace(trace), HasSubstr("negative reserve"));
  trace = small();
  trace.micros = {1, 2};
  EXPECT_THAT(refused_trace(trace), HasSubstr("2 clock times for 5 events"));
}

TEST(Model, RefusesClockTimesWithoutADifference) {
  for (const std::int64_t time : {INT64_MIN, INT64_MAX}) {
    Trace trace = small();
    trace.micros = {1, 2, time, 4, 5};
    EXPECT_THAT(refused_trace(trace), HasSubstr("a clock time is out of range"));
  }
}

}  // namespace
}  // namespace stweaver
