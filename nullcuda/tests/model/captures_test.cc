// Captures. What is refused, and how, is what driver 580 answered on an H100.

#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/helpers.h"
#include "model/streams.h"

namespace nullcuda {
namespace {

// cudaError_t.
constexpr int kInvalidValue = 1;
constexpr int kIllegalState = 401;
constexpr int kUnsupported = 900;
constexpr int kInvalidated = 901;
constexpr int kMerge = 902;
constexpr int kUnmatched = 903;
constexpr int kUnjoined = 904;
constexpr int kIsolation = 905;
constexpr int kImplicit = 906;
constexpr int kCapturedEvent = 907;
constexpr int kWrongThread = 908;

/// What another thread gets.
template <typename Function>
int elsewhere(Function function) {
  int got = -1;
  std::thread([&] { got = function(); }).join();
  return got;
}

class CaptureTest : public testing::Test {
 protected:
  int begin(StreamId stream, CaptureMode mode = CaptureMode::kRelaxed) {
    return streams_.begin_capture(stream, mode);
  }
  int end(StreamId stream) { return streams_.end_capture(stream, graph_); }
  int record(StreamId stream) { return streams_.record(event_, stream); }
  int wait(StreamId stream) { return streams_.wait(stream, event_); }
  int fork() {
    EXPECT_EQ(begin(a_), 0);
    EXPECT_EQ(record(a_), 0);
    return wait(b_);
  }
  int join() {
    EXPECT_EQ(record(b_), 0);
    return wait(a_);
  }
  Streams& streams() { return streams_; }
  Event* event() { return event_; }
  [[nodiscard]] StreamId a() const { return a_; }
  [[nodiscard]] StreamId b() const { return b_; }
  const Graph* graph() { return graph_.get(); }
  [[nodiscard]] bool is_capturing(StreamId stream) const { return streams_.capture(stream).id != 0; }

 private:
  Settings settings_ = checking();
  Streams streams_{settings_};
  StreamId a_ = streams_.create(0, kNonBlocking, 0);
  StreamId b_ = streams_.create(0, kNonBlocking, 0);
  Event* event_ = streams_.create_event(0, true);
  std::unique_ptr<Graph> graph_;
};

TEST_F(CaptureTest, CountsItsNodesAndRunsNone) {
  const Use use{.begin = 512, .size = 512, .writes = true};
  EXPECT_EQ(begin(a()), 0);
  EXPECT_TRUE(is_capturing(a()));
  EXPECT_FALSE(is_capturing(b()));
  EXPECT_EQ(streams().work(a(), {use}), "");
  EXPECT_EQ(streams().work(a(), {}), "");
  EXPECT_EQ(end(a()), 0);
  EXPECT_FALSE(is_capturing(a()));
  EXPECT_EQ(graph()->nodes, 2U);
  EXPECT_EQ(streams().work(b(), {use}), "");
}

TEST_F(CaptureTest, IsCheckedWhereItsGraphIsLaunched) {
  EXPECT_EQ(begin(a()), 0);
  streams().work(a(), {{.begin = 512, .size = 512, .writes = true}});
  EXPECT_EQ(end(a()), 0);
  EXPECT_EQ(streams().work(a(), graph()->uses), "");
  EXPECT_NE(streams().work(b(), graph()->uses), "");
}

TEST_F(CaptureTest, KeepsTheEffectsOfItsWorkInTheirOrder) {
  std::string done;
  EXPECT_EQ(begin(a()), 0);
  for (const char effect : {'x', 'y'}) streams().work(a(), {}, [&done, effect] { done += effect; });
  streams().work(b(), {}, [&done] { done += 'z'; });  // not captured: whoever gives it does it
  EXPECT_EQ(end(a()), 0);
  EXPECT_EQ(done, "");
  for (const Effect& effect : graph()->effects) effect();
  EXPECT_EQ(done, "xy");
}

TEST_F(CaptureTest, BeginsOnceAndNotOnTheLegacyStream) {
  EXPECT_EQ(begin(0), kUnsupported);
  EXPECT_EQ(begin(a()), 0);
  EXPECT_EQ(begin(a()), kIllegalState);
  EXPECT_EQ(end(a()), 0);
  EXPECT_EQ(begin(2), 0);
  EXPECT_EQ(end(2), 0);
}

TEST_F(CaptureTest, EndsOnlyWhereOneBegan) {
  EXPECT_EQ(end(a()), kIllegalState);
  EXPECT_EQ(fork(), 0);
  EXPECT_EQ(end(b()), kUnmatched);
  EXPECT_EQ(end(a()), kInvalidated);
  EXPECT_FALSE(is_capturing(b()));
}

TEST_F(CaptureTest, EndsInTheThreadThatBeganItUnlessRelaxed) {
  EXPECT_EQ(begin(a(), CaptureMode::kGlobal), 0);
  EXPECT_EQ(elsewhere([&] { return end(a()); }), kWrongThread);
  EXPECT_EQ(end(a()), kIllegalState);
  EXPECT_EQ(begin(a()), 0);
  EXPECT_EQ(elsewhere([&] { return end(a()); }), 0);
}

// ---- streams that join ----

TEST_F(CaptureTest, IsJoinedByAStreamThatWaitsForItsEvent) {
  EXPECT_EQ(fork(), 0);
  EXPECT_TRUE(is_capturing(b()));
  streams().work(b(), {});
  EXPECT_EQ(join(), 0);
  EXPECT_EQ(end(a()), 0);
  EXPECT_FALSE(is_capturing(b()));
  EXPECT_EQ(graph()->nodes, 1U);
}

TEST_F(CaptureTest, FailsWhereAStreamDoesNotComeBack) {
  EXPECT_EQ(fork(), 0);
  streams().work(b(), {});
  EXPECT_EQ(end(a()), kUnjoined);
  EXPECT_FALSE(is_capturing(b()));
  EXPECT_EQ(fork(), 0);
  streams().work(b(), {});
  EXPECT_EQ(join(), 0);
  streams().work(b(), {});
  EXPECT_EQ(end(a()), kUnjoined);
}

TEST_F(CaptureTest, FailsWhereAStreamIsDestroyedInsteadOfComingBack) {
  EXPECT_EQ(fork(), 0);
  streams().work(b(), {});
  EXPECT_TRUE(streams().destroy(b()));
  EXPECT_EQ(end(a()), kUnjoined);
}

TEST_F(CaptureTest, NeedNotHaveAStreamBackThatDidNothing) {
  EXPECT_EQ(fork(), 0);
  EXPECT_EQ(end(a()), 0);
  EXPECT_FALSE(is_capturing(b()));
}

TEST_F(CaptureTest, IsNotMergedWithAnother) {
  EXPECT_EQ(begin(a()), 0);
  EXPECT_EQ(begin(b()), 0);
  EXPECT_EQ(record(a()), 0);
  EXPECT_EQ(wait(b()), kMerge);
  EXPECT_EQ(end(a()), kInvalidated);
  EXPECT_EQ(end(b()), kInvalidated);
}

TEST_F(CaptureTest, WaitsForNothingOutside) {
  EXPECT_EQ(record(b()), 0);
  EXPECT_EQ(begin(a()), 0);
  EXPECT_EQ(wait(a()), kIsolation);
  EXPECT_TRUE(streams().capture(a()).invalid);
  EXPECT_EQ(end(a()), kInvalidated);
}

TEST_F(CaptureTest, WaitsForEventsThatWereNeverRecorded) {
  EXPECT_EQ(begin(a()), 0);
  EXPECT_EQ(wait(a()), 0);
  EXPECT_EQ(end(a()), 0);
}

TEST_F(CaptureTest, LeavesNothingInItsEventsOnceItEnded) {
  EXPECT_EQ(fork(), 0);
  EXPECT_EQ(end(a()), 0);
  EXPECT_EQ(wait(b()), kInvalidValue);
  EXPECT_EQ(streams().query(event()), kInvalidValue);
  EXPECT_EQ(streams().synchronize(event()), kInvalidValue);
  EXPECT_FALSE(is_capturing(b()));
  EXPECT_EQ(record(a()), 0);
  EXPECT_EQ(wait(b()), 0);
  EXPECT_EQ(streams().query(event()), 0);
}

TEST_F(CaptureTest, OrdersNothingOutside) {
  const Use use{.begin = 512, .size = 512, .writes = true};
  EXPECT_EQ(streams().work(a(), {use}), "");
  EXPECT_EQ(fork(), 0);
  EXPECT_EQ(end(a()), 0);
  EXPECT_NE(streams().work(b(), {use}), "");
}

// ---- what a capture cannot bear ----

TEST_F(CaptureTest, IsSpoiltByQuestionsAboutItsStreamOrEvent) {
  EXPECT_EQ(begin(a()), 0);
  EXPECT_EQ(streams().query(a()), kUnsupported);
  EXPECT_EQ(end(a()), kInvalidated);
  EXPECT_EQ(begin(a()), 0);
  EXPECT_EQ(streams().synchronize(a()), kUnsupported);
  EXPECT_EQ(end(a()), kInvalidated);
  EXPECT_EQ(begin(a()), 0);
  EXPECT_EQ(record(a()), 0);
  EXPECT_EQ(streams().query(event()), kCapturedEvent);
  EXPECT_EQ(end(a()), kInvalidated);
  EXPECT_EQ(begin(a()), 0);
  EXPECT_EQ(record(a()), 0);
  EXPECT_EQ(streams().synchronize(event()), kCapturedEvent);
  EXPECT_EQ(end(a()), kInvalidated);
}

TEST_F(CaptureTest, IsSpoiltByWaitingForTheWholeDeviceWhateverItsMode) {
  EXPECT_EQ(streams().forbidden(), 0);
  EXPECT_EQ(begin(a()), 0);
  EXPECT_EQ(streams().forbidden(), kUnsupported);
  EXPECT_EQ(end(a()), kInvalidated);
}

TEST_F(CaptureTest, IsSpoiltByUnsafeCallsOfAnyThreadWhenGlobal) {
  EXPECT_EQ(streams().unsafe(), 0);
  EXPECT_EQ(begin(a(), CaptureMode::kGlobal), 0);
  EXPECT_EQ(streams().unsafe(), kUnsupported);
  EXPECT_EQ(end(a()), kInvalidated);
  EXPECT_EQ(begin(a(), CaptureMode::kGlobal), 0);
  EXPECT_EQ(elsewhere([&] { return streams().unsafe(); }), kUnsupported);
  EXPECT_EQ(end(a()), kInvalidated);
  EXPECT_EQ(streams().unsafe(), 0);
}

TEST_F(CaptureTest, IsSpoiltByUnsafeCallsOfItsOwnThreadWhenThreadLocal) {
  EXPECT_EQ(begin(a(), CaptureMode::kThreadLocal), 0);
  EXPECT_EQ(elsewhere([&] { return streams().unsafe(); }), 0);
  EXPECT_EQ(end(a()), 0);
  EXPECT_EQ(begin(a(), CaptureMode::kThreadLocal), 0);
  EXPECT_EQ(streams().unsafe(), kUnsupported);
  EXPECT_EQ(end(a()), kInvalidated);
}

TEST_F(CaptureTest, IsSpoiltByNoUnsafeCallWhenRelaxed) {
  EXPECT_EQ(begin(a()), 0);
  EXPECT_EQ(streams().unsafe(), 0);
  EXPECT_EQ(elsewhere([&] { return streams().unsafe(); }), 0);
  EXPECT_EQ(end(a()), 0);
}

TEST_F(CaptureTest, IsNotSpoiltByThreadsThatAreRelaxed) {
  EXPECT_EQ(begin(a(), CaptureMode::kGlobal), 0);
  EXPECT_EQ(streams().exchange_mode(CaptureMode::kRelaxed), CaptureMode::kGlobal);
  EXPECT_EQ(streams().unsafe(), 0);
  EXPECT_EQ(streams().query(b()), 0);
  EXPECT_EQ(streams().exchange_mode(CaptureMode::kGlobal), CaptureMode::kRelaxed);
  EXPECT_EQ(end(a()), 0);
}

TEST_F(CaptureTest, IsNotSpoiltByOtherThreadsThatAreThreadLocal) {
  EXPECT_EQ(begin(a(), CaptureMode::kGlobal), 0);
  EXPECT_EQ(elsewhere([&] {
              streams().exchange_mode(CaptureMode::kThreadLocal);
              return streams().unsafe();
            }),
            0);
  EXPECT_EQ(end(a()), 0);
}

TEST_F(CaptureTest, IsSpoiltByTheLegacyStreamThatWouldWaitForIt) {
  const StreamId blocking = streams().create(0, 0, 0);
  EXPECT_EQ(begin(a()), 0);
  streams().work(0, {});
  EXPECT_EQ(record(0), 0);
  EXPECT_EQ(end(a()), 0);
  EXPECT_EQ(begin(blocking), 0);
  streams().work(0, {});
  EXPECT_EQ(end(blocking), kInvalidated);
  EXPECT_EQ(begin(blocking), 0);
  EXPECT_EQ(record(0), kImplicit);
  EXPECT_EQ(end(blocking), kInvalidated);
}

TEST_F(CaptureTest, TakesNoMoreEventsOnceItIsSpoilt) {
  EXPECT_EQ(begin(a(), CaptureMode::kGlobal), 0);
  EXPECT_EQ(streams().unsafe(), kUnsupported);
  EXPECT_EQ(record(a()), kInvalidated);
  EXPECT_EQ(begin(a()), kIllegalState);
  EXPECT_EQ(end(a()), kInvalidated);
}

TEST_F(CaptureTest, IsGoneWithItsStream) {
  EXPECT_EQ(begin(a(), CaptureMode::kGlobal), 0);
  EXPECT_EQ(record(a()), 0);
  EXPECT_EQ(wait(b()), 0);
  EXPECT_TRUE(streams().destroy(a()));
  EXPECT_EQ(streams().unsafe(), 0);
  EXPECT_FALSE(is_capturing(b()));
}

}  // namespace
}  // namespace nullcuda
