// When work is done: streams and events as far as time goes.

#include "model/streams.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/helpers.h"

namespace nullcuda {
namespace {

constexpr int kNotReady = 600;
constexpr int kInvalidHandle = 400;
constexpr unsigned kNonBlocking = 1;

TEST(Streams, RememberWhatTheyWereMadeWith) {
  const Settings settings = small_gpu();
  Streams streams(settings);
  const StreamId stream = streams.create(3, kNonBlocking, -2);
  EXPECT_EQ(streams.device(stream, 0), 3);
  EXPECT_EQ(streams.flags(stream), kNonBlocking);
  EXPECT_EQ(streams.priority(stream), -2);
  EXPECT_EQ(streams.device(0, 5), 5);
  EXPECT_NE(streams.create(0, 0, 0), stream);
}

TEST(Streams, AreGoneOnceDestroyed) {
  const Settings settings = small_gpu();
  Streams streams(settings);
  const StreamId stream = streams.create(0, 0, 0);
  Event* event = streams.create_event(0, true);
  EXPECT_TRUE(streams.destroy(stream));
  EXPECT_FALSE(streams.destroy(stream));
  EXPECT_EQ(streams.query(stream), kInvalidHandle);
  EXPECT_EQ(streams.synchronize(stream), kInvalidHandle);
  EXPECT_EQ(streams.record(event, stream), kInvalidHandle);
  EXPECT_EQ(streams.wait(stream, event), kInvalidHandle);
  streams.work(stream, {});
  EXPECT_EQ(streams.query(stream), kInvalidHandle);
  EXPECT_FALSE(streams.destroy(0));
  EXPECT_EQ(streams.query(StreamId{0}), 0);
}

TEST(Events, AreGoneOnceDestroyed) {
  const Settings settings = small_gpu();
  Streams streams(settings);
  Event* event = streams.create_event(0, true);
  EXPECT_TRUE(streams.destroy_event(event));
  EXPECT_FALSE(streams.destroy_event(event));
  EXPECT_EQ(streams.record(event, 0), kInvalidHandle);
  EXPECT_EQ(streams.wait(0, event), kInvalidHandle);
  EXPECT_EQ(streams.query(event), kInvalidHandle);
  EXPECT_EQ(streams.synchronize(event), kInvalidHandle);
}

TEST(Events, AreDoneBeforeTheyAreRecorded) {
  const Settings settings = completing("delay:100");
  Streams streams(settings);
  Event* event = streams.create_event(0, true);
  EXPECT_EQ(streams.query(event), 0);
  EXPECT_EQ(streams.wait(0, event), 0);
  EXPECT_EQ(streams.query(StreamId{0}), 0);
}

TEST(Events, AreDoneAtOnceWhereNothingTakesTime) {
  const Settings settings = small_gpu();
  Streams streams(settings);
  Event* event = streams.create_event(0, true);
  const StreamId stream = streams.create(0, 0, 0);
  streams.work(stream, {});
  streams.record(event, stream);
  EXPECT_EQ(streams.query(event), 0);
  EXPECT_EQ(streams.query(stream), 0);
}

TEST(Events, AreDoneAsManyCallsLaterAsTold) {
  const Settings settings = completing("delay:10");
  Streams streams(settings);
  Event* event = streams.create_event(0, true);
  streams.record(event, 0);
  make_calls(9);
  EXPECT_EQ(streams.query(event), kNotReady);
  EXPECT_EQ(streams.query(StreamId{0}), kNotReady);
  make_calls(1);
  EXPECT_EQ(streams.query(event), 0);
  EXPECT_EQ(streams.query(StreamId{0}), 0);
}

TEST(Events, StandForTheirLastRecord) {
  const Settings settings = completing("delay:10");
  Streams streams(settings);
  Event* event = streams.create_event(0, true);
  streams.record(event, 0);
  make_calls(10);
  EXPECT_EQ(streams.query(event), 0);
  streams.record(event, 0);
  EXPECT_EQ(streams.query(event), kNotReady);
}

TEST(Events, OutliveTheirStream) {
  const Settings settings = completing("delay:10");
  Streams streams(settings);
  Event* event = streams.create_event(0, true);
  const StreamId stream = streams.create(0, 0, 0);
  streams.record(event, stream);
  streams.destroy(stream);
  EXPECT_EQ(streams.query(event), kNotReady);  // to destroy it is not to wait for it
  streams.synchronize_all();
  EXPECT_EQ(streams.query(event), 0);
}

TEST(Events, AreOfOneDevice) {
  const Settings settings = completing("delay:10");
  Streams streams(settings);
  Event* event = streams.create_event(0, true);
  const StreamId other = streams.create(1, 0, 0);
  EXPECT_EQ(streams.record(event, other), kInvalidHandle);
  Event* theirs = streams.create_event(1, true);
  EXPECT_EQ(streams.record(theirs, other), 0);
  streams.synchronize_all(0);
  EXPECT_EQ(streams.query(theirs), kNotReady) << "who waits for a device waits for no other";
  streams.synchronize_all(1);
  EXPECT_EQ(streams.query(theirs), 0);
  EXPECT_EQ(streams.wait(streams.create(0, 0, 0), theirs), 0) << "any stream may wait for it";
}

TEST(Events, AreDoneAfterOneThatTheirStreamWaitsFor) {
  const Settings settings = completing("delay:10");
  Streams streams(settings);
  Event* first = streams.create_event(0, true);
  const StreamId slow = streams.create(0, kNonBlocking, 0);
  const StreamId waiting = streams.create(0, kNonBlocking, 0);
  streams.record(first, slow);
  streams.wait(waiting, first);
  EXPECT_EQ(streams.query(waiting), kNotReady);
  make_calls(10);
  EXPECT_EQ(streams.query(waiting), 0);
}

TEST(Events, TellTheTimeBetweenThemOnceTheyAreDone) {
  const Settings settings = completing("delay:10");
  Streams streams(settings);
  Event* first = streams.create_event(0, true);
  Event* second = streams.create_event(0, true);
  Event* untimed = streams.create_event(0, false);
  double milliseconds = -1;
  EXPECT_EQ(streams.elapsed(first, second, milliseconds), kInvalidHandle);
  streams.record(first, 0);
  streams.record(untimed, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  streams.record(second, 0);
  EXPECT_EQ(streams.elapsed(first, untimed, milliseconds), kInvalidHandle);
  EXPECT_EQ(streams.elapsed(first, second, milliseconds), kNotReady);
  streams.synchronize(second);
  EXPECT_EQ(streams.elapsed(first, second, milliseconds), 0);
  EXPECT_GE(milliseconds, 2);
}

TEST(Waiting, LetsTheTimePass) {
  const Settings settings = completing("delay:1000");
  Streams streams(settings);
  Event* event = streams.create_event(0, true);
  const StreamId stream = streams.create(0, kNonBlocking, 0);
  streams.record(event, stream);
  EXPECT_EQ(streams.synchronize(event), 0);
  EXPECT_EQ(streams.query(event), 0);
  streams.record(event, stream);
  EXPECT_EQ(streams.synchronize(stream), 0);
  EXPECT_EQ(streams.query(event), 0);
  streams.record(event, stream);
  streams.synchronize_all();
  EXPECT_EQ(streams.query(event), 0);
  streams.record(event, stream);
  streams.finish(stream);
  EXPECT_EQ(streams.query(event), 0);
}

// What driver 580 was seen to do on an H100, with functions of the host that sleep in the streams.

TEST(LegacyStream, IsNotDoneBeforeTheStreamsThatItWaitsFor) {
  const Settings settings = completing("delay:10");
  Streams streams(settings);
  Event* event = streams.create_event(0, true);
  const StreamId blocking = streams.create(0, 0, 0);
  const StreamId apart = streams.create(0, kNonBlocking, 0);
  streams.work(apart, {});
  EXPECT_EQ(streams.query(StreamId{0}), 0);
  streams.work(blocking, {});
  EXPECT_EQ(streams.query(StreamId{0}), kNotReady);
  streams.destroy(blocking);
  EXPECT_EQ(streams.query(StreamId{0}), kNotReady);
  streams.record(event, 0);
  EXPECT_EQ(streams.query(event), kNotReady);
  streams.synchronize(StreamId{0});
  EXPECT_EQ(streams.query(StreamId{0}), 0);
}

TEST(LegacyStream, IsWaitedForByWorkAndNotByQuestions) {
  const Settings settings = completing("random:1/500");
  Streams streams(settings);
  Event* legacy = streams.create_event(0, true);
  Event* event = streams.create_event(0, true);
  const StreamId blocking = streams.create(0, 0, 0);
  for (int round = 0; round < 100; ++round) {
    streams.record(legacy, 0);
    if (round == 0) {
      EXPECT_EQ(streams.query(blocking), 0);
    }
    streams.record(event, blocking);
    streams.synchronize(event);
    EXPECT_EQ(streams.query(legacy), 0);
  }
}

TEST(Events, AreNeverDoneBeforeEarlierOnesOfTheirStream) {
  const Settings settings = completing("random:7/50");
  Streams streams(settings);
  std::mt19937_64 random(1);
  const std::vector<StreamId> ids = {0, streams.create(0, 0, 0), streams.create(0, kNonBlocking, 0)};
  std::vector<std::vector<Event*>> events(ids.size());
  std::uint64_t late = 0;
  for (int step = 0; step < 2000; ++step) {
    const std::size_t at = random() % ids.size();
    Event* event = streams.create_event(0, false);
    streams.work(ids[at], {});
    streams.record(event, ids[at]);
    events[at].push_back(event);
    make_calls(random() % 4);
    for (const auto& own : events) {
      bool done = true;
      for (const Event* each : own) {
        const bool now = streams.query(each) == 0;
        ASSERT_TRUE(done || !now) << "step " << step;
        done = now;
      }
      late += static_cast<std::uint64_t>(!done);
    }
    if (events[at].size() > 30) {
      for (Event* each : events[at]) streams.destroy_event(each);
      events[at].clear();
    }
  }
  EXPECT_GT(late, 1000U);
}

TEST(Events, AreDoneAtTheSameTimesWithTheSameSeed) {
  const auto run = [](const std::string& when) {
    const Settings settings = completing(when);
    Streams streams(settings);
    std::vector<int> seen;
    Event* event = streams.create_event(0, true);
    for (int step = 0; step < 100; ++step) {
      if (step % 10 == 0) streams.record(event, 0);
      make_calls(1);
      seen.push_back(streams.query(event));
    }
    return seen;
  };
  EXPECT_EQ(run("random:1/20"), run("random:1/20"));
  EXPECT_NE(run("random:1/20"), run("random:2/20"));
}

TEST(Streams, MayBeUsedByManyThreads) {
  const Settings settings = completing("random:1/20");
  Streams streams(settings);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads(4);
  for (std::thread& thread : threads)
    thread = std::thread([&] {
      for (int round = 0; round < 300; ++round) {
        const StreamId stream = streams.create(0, 0, 0);
        Event* event = streams.create_event(0, true);
        streams.work(stream, {});
        streams.record(event, stream);
        streams.wait(0, event);
        streams.synchronize(event);
        wrong += static_cast<int>(streams.query(event) != 0);
        streams.destroy(stream);
        streams.destroy_event(event);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Streams, CostNextToNothingWhereNothingIsAsked) {
  const Settings settings = small_gpu();
  Streams streams(settings);
  const std::vector<Use> uses;
  const auto start = std::chrono::steady_clock::now();
  for (int launch = 0; launch < 1000000; ++launch) streams.work(0, uses);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

}  // namespace
}  // namespace nullcuda
