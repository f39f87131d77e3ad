#include "trace/history.h"

#include "support/collisions.h"
#include "support/errors.h"
#include "support/traces.h"

namespace stweaver {
namespace {

using testing::HasSubstr;
using Action = HistoryEntry::Action;

HistoryEntry entry(Action action, std::int64_t address, Bytes size, std::int64_t micros = 0) {
  HistoryEntry made;
  made.action = action;
  made.address = address;
  made.size = size;
  made.micros = micros;
  return made;
}

HistoryEntry alloc(std::int64_t address, Bytes size) {
  return entry(Action::kAlloc, address, size);
}
HistoryEntry requested(std::int64_t address, Bytes size) {
  return entry(Action::kFreeRequested, address, size);
}
HistoryEntry completed(std::int64_t address, Bytes size) {
  return entry(Action::kFreeCompleted, address, size);
}

DeviceHistory history(std::vector<HistoryEntry> entries) {
  DeviceHistory made;
  made.name = "made";
  made.entries = std::move(entries);
  return made;
}

Trace traced(const DeviceHistory& made) {
  Trace trace = reconstruct(made);
  validate(trace);
  return trace;
}

std::vector<Mark> marks(std::vector<Mark> expected) {
  return expected;
}

TEST(History, MakesOneEventOfAFreeThatNobodyWaitsFor) {
  const Trace trace = traced(history({alloc(0, 100), requested(0, 100), completed(0, 100)}));
  expect_same(trace.requests, {{100, {0, 1}, 1}}, "request");
  EXPECT_EQ(trace.end, 2);
}

TEST(History, MakesTwoEventsOfAFreeThatAnotherStreamHoldsUp) {
  const Trace trace = traced(history({alloc(0, 100), requested(0, 100), alloc(512, 7), completed(0, 100)}));
  expect_same(trace.requests, {{100, {0, 3}, 1}, {7, {2, kForever}, kForever}}, "request");
}

TEST(History, KeepsSegmentEventsFromSplittingAFree) {
  const Trace trace = traced(
      history({alloc(0, 100), requested(0, 100), entry(Action::kSegmentShrink, 4096, 1), completed(0, 100)}));
  EXPECT_EQ(trace.end, 2);
}

TEST(History, LeavesAFreeOpenThatDidNotComplete) {
  const Trace trace =
      traced(history({alloc(0, 1), requested(0, 1), alloc(512, 2), requested(512, 2), completed(512, 2)}));
  expect_same(trace.requests, {{1, {0, kForever}, 1}, {2, {2, 3}, 3}}, "request");
}

TEST(History, TakesRequestedForCompletedWhereOnlyThatWasRecorded) {
  const Trace trace = traced(history({alloc(0, 1), requested(0, 1), alloc(0, 2)}));
  expect_same(trace.requests, {{1, {0, 1}, 1}, {2, {2, kForever}, kForever}}, "request");
}

TEST(History, PutsWhatIsFreedUnseenBeforeRecording) {
  const Trace trace =
      traced(history({requested(0, 100), alloc(512, 1), completed(0, 100), completed(1024, 5)}));
  expect_same(trace.requests,
              {{100, {kBeforeRecording, 2}, 0}, {5, {kBeforeRecording, 3}, 3}, {1, {1, kForever}, kForever}},
              "request");
}

TEST(History, PutsBlocksWithoutAnyEventBeforeRecording) {
  DeviceHistory made = history({alloc(4096, 1)});
  made.segments = {{0, 8192, 3, 2, {{0, 10, false}, {512, 20, true}, {4096, 1, false}}}};
  expect_same(traced(made).requests,
              {{10, {kBeforeRecording, kForever}, kForever, 3, 2},
               {20, {kBeforeRecording, kForever}, kBeforeRecording, 3, 2},
               {1, {0, kForever}, kForever, 0, 2}},
              "request");
}

TEST(History, FreesWhatWasReplacedWhileRecordingWasOff) {
  const Trace trace = traced(history({alloc(0, 100), alloc(512, 100), alloc(0, 600), completed(0, 600)}));
  expect_same(trace.requests, {{100, {0, 2}, 2}, {100, {1, 3}, 3}, {600, {4, 5}, 5}}, "request");
}

TEST(History, FreesAtTheEndWhatTheSegmentsDoNotHold) {
  DeviceHistory made =
      history({alloc(0, 100), alloc(512, 100), alloc(9999, 1), completed(512, 100), alloc(512, 9)});
  made.segments = {{0, 8192, 0, 0, {{512, 9, false}}}};
  const Trace trace = traced(made);
  EXPECT_EQ(trace.requests[0].life, (Lifespan{0, 5}));
  EXPECT_EQ(trace.requests[2].life.upper, kForever) << "a segment that is not listed says nothing";
  EXPECT_EQ(trace.requests[3].life.upper, kForever);
  EXPECT_EQ(trace.end, 6);
}

TEST(History, FreesWhatASegmentHeldWhenItGoes) {
  const Trace trace = traced(history({alloc(0, 100), alloc(4096, 100), alloc(512, 9), completed(512, 9),
                                      entry(Action::kSegmentShrink, 0, 2048), alloc(0, 7)}));
  expect_same(
      trace.requests,
      {{100, {0, 4}, 4}, {100, {1, kForever}, kForever}, {9, {2, 3}, 3}, {7, {5, kForever}, kForever}},
      "request");
}

TEST(History, KnowsAPendingBlockWhereNobodyTellsWhenFreesComplete) {
  DeviceHistory made = history({alloc(0, 100), requested(0, 100), alloc(512, 9)});
  made.segments = {{0, 8192, 0, 0, {{0, 100, true}, {512, 9, false}}}};
  expect_same(traced(made).requests, {{100, {0, kForever}, 1}, {9, {2, kForever}, kForever}}, "request");
}

TEST(History, RefusesARecordingWithoutFrees) {
  EXPECT_THAT(refusal([] {
                reconstruct(history({alloc(0, 1), alloc(0, 2)}));
              }),
              HasSubstr("without skip_actions"));
}

TEST(History, IgnoresASecondFreeRequest) {
  const Trace trace =
      traced(history({alloc(0, 1), requested(0, 1), alloc(512, 1), requested(0, 1), completed(0, 1)}));
  EXPECT_EQ(trace.requests[0].dropped, 1);
  EXPECT_EQ(trace.requests[0].life.upper, 3);
}

TEST(History, KeepsRequestsOfNoBytesApart) {
  const Trace trace = traced(history({alloc(0, 0), alloc(512, 0), completed(0, 0), completed(512, 0)}));
  expect_same(trace.requests, {{0, {0, 2}, 2}, {0, {1, 3}, 3}}, "request");
}

TEST(History, SumsUpTheReserveFromItsEnd) {
  DeviceHistory made =
      history({entry(Action::kSegmentGrow, 0, 20), alloc(0, 1), entry(Action::kSegmentShrink, 64, 5)});
  made.segments = {{0, 20, 0, 0, {{0, 1, false}}}, {100, 80, 0, 0, {}}};
  expect_same(traced(made).reserves, {{0, 85}, {0, 105}, {1, 100}}, "reserve");
}

TEST(History, KnowsTheReserveThatNeverChanged) {
  DeviceHistory made = history({alloc(0, 1)});
  made.segments = {{0, 20, 0, 0, {{0, 1, false}}}};
  expect_same(traced(made).reserves, {{0, 20}}, "reserve");
  made.segments.clear();
  EXPECT_TRUE(traced(made).reserves.empty());
}

TEST(History, RefusesSegmentsThatDoNotAddUp) {
  DeviceHistory made = history({alloc(0, 1)});
  made.segments = {{4096, INT64_MAX - 4096, 0, 0, {}}, {8192, INT64_MAX - 8192, 0, 0, {}}};
  EXPECT_THAT(refusal([&] { reconstruct(made); }), HasSubstr("sum of segment sizes is out of range"));
}

TEST(History, FindsThePoolInTheSegment) {
  DeviceHistory made = history(
      {alloc(10, 1), completed(10, 1), entry(Action::kSegmentGrow, 0, 100), alloc(20, 1), alloc(200, 1)});
  made.segments = {{0, 100, 0, 7, {{20, 1, false}}}};
  const Trace trace = traced(made);
  EXPECT_EQ(trace.requests[0].pool, 0) << "the segment of that time is gone";
  EXPECT_EQ(trace.requests[1].pool, 7);
  EXPECT_EQ(trace.requests[2].pool, 0);
}

TEST(History, FindsPoolsInAboutTheSameTimeWhereverSegmentsLie) {
  expect_no_collisions([](std::int64_t step) {
    DeviceHistory made = history({alloc(1, 1), completed(1, 1)});
    for (std::int64_t i = 0; i < kColliding; ++i)
      made.entries.push_back(entry(Action::kSegmentGrow, i * step, 1));
    made.segments = {{1, 1, 0, 1, {}}};
    EXPECT_EQ(traced(made).requests.front().pool, 1);
  });
}

TEST(History, BelievesAnEntryThatNamesItsPool) {
  DeviceHistory made = history({alloc(10, 1)});
  made.entries[0].pool = 3;
  made.segments = {{0, 100, 0, 7, {{10, 1, false}}}};
  EXPECT_EQ(traced(made).requests[0].pool, 3);
}

TEST(History, MarksWhereTheTextChanges) {
  DeviceHistory made = history({alloc(0, 1), alloc(512, 1), alloc(1024, 1), alloc(2048, 1), alloc(4096, 1)});
  made.texts = {"", "a", "b"};
  made.entries[1].text = 1;
  made.entries[2].text = 1;
  made.entries[4].text = 1;
  expect_same(traced(made).marks, marks({{1, "a"}, {4, "a"}}), "mark");
}

TEST(History, PlacesMarkersWhereBothCountsAreReached) {
  DeviceHistory made =
      history({alloc(0, 1), alloc(512, 1), requested(0, 1), alloc(1024, 1), completed(0, 1)});
  made.markers = {{0, 0, "begin"}, {1, 0, "one"}, {2, 1, "dropped"}, {3, 1, "three"}, {9, 9, "never"}};
  expect_same(traced(made).marks,
              marks({{0, "begin"}, {1, "one"}, {3, "dropped"}, {4, "three"}, {5, "never"}}), "mark");
}

TEST(History, PlacesAnnotationsByTheClock) {
  DeviceHistory made = history({entry(Action::kAlloc, 0, 1, 10), entry(Action::kAlloc, 512, 1, 20)});
  made.annotations = {{"late", true, 21}, {"closed", true, 1},  {"closed", false, 2},
                      {"open", true, 3},  {"second", true, 11}, {"second", false, 12}};
  expect_same(traced(made).marks, marks({{0, "open"}, {1, "second"}, {2, "late"}}), "mark");
}

TEST(History, HasNoClockWhereAnEventHasNone) {
  DeviceHistory made = history({entry(Action::kAlloc, 0, 1, 10), alloc(512, 1)});
  made.annotations = {{"somewhere", true, 5}};
  EXPECT_EQ(traced(made).micros, (std::vector<std::int64_t>{10, 0}));
  made.entries[1].micros = HistoryEntry::kNoMicros;
  EXPECT_TRUE(traced(made).micros.empty());
  EXPECT_TRUE(traced(made).marks.empty());
}

TEST(History, KeepsFailedAllocations) {
  const Trace trace = traced(history({alloc(0, 1), entry(Action::kOom, 77, 1000)}));
  expect_same(trace.ooms, {{1, 1000, 77}}, "failed allocation");
}

}  // namespace
}  // namespace stweaver
