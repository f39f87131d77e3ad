#include "arena/stream_order.h"

#include <cstddef>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/clocked_device.h"

namespace stweaver {
namespace {

using testing::ElementsAre;

/// Random numbers: of chance(n) each from 0 to n is as likely.
class Chance {
 public:
  explicit Chance(unsigned seed) : random_(seed) {}
  std::uint64_t operator()(std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(0, most)(random_);
  }

 private:
  std::mt19937 random_;
};

TEST(StreamOrder, NumbersStreamsAsTheyAreFirstSeen) {
  ClockedDevice device;
  StreamOrder order(device);
  EXPECT_EQ(order.index_of(7), 0U);
  EXPECT_EQ(order.index_of(0), 1U);
  EXPECT_EQ(order.index_of(7), 0U);
  EXPECT_EQ(order.streams(), 2U);
  EXPECT_EQ(order.stream_of(1), 0U);
}

TEST(StreamOrder, GivesNoIndexToTheSixtyFifthStream) {
  ClockedDevice device;
  StreamOrder order(device);
  for (Stream stream = 1; stream <= kMostStreams; ++stream) {
    EXPECT_EQ(order.index_of(stream * 1000), stream - 1);
  }
  EXPECT_EQ(order.index_of(5), kNoStream);
  EXPECT_EQ(order.index_of(5), kNoStream);
  EXPECT_EQ(order.index_of(64000), 63U) << "those that have one keep it";
  EXPECT_EQ(order.streams(), kMostStreams);
}

TEST(StreamOrder, WantsNoWaitForItselfNorForNewMemory) {
  ClockedDevice device;
  StreamOrder order(device);
  const StreamIndex index = order.index_of(1);
  EXPECT_TRUE(order.ordered(index, {index, 10}));
  EXPECT_TRUE(order.ordered(index, {}));
  EXPECT_TRUE(order.order(index, {index, 10}, 11));
  EXPECT_EQ(order.events(), 0);
  EXPECT_EQ(order.waits(), 0);
}

TEST(StreamOrder, MakesTheTakerComeAfterTheGiversWork) {
  ClockedDevice device;
  StreamOrder order(device);
  const StreamIndex giver = order.index_of(1);
  const StreamIndex taker = order.index_of(2);
  const Work work = device.work(1);
  EXPECT_FALSE(order.ordered(taker, {giver, 10}));
  EXPECT_FALSE(device.is_behind(2, work));
  ASSERT_TRUE(order.order(taker, {giver, 10}, 12));
  EXPECT_TRUE(device.is_behind(2, work));
  EXPECT_TRUE(order.ordered(taker, {giver, 10}));
  EXPECT_TRUE(order.ordered(taker, {giver, 12})) << "the event lies behind frees up to then";
  EXPECT_FALSE(order.ordered(taker, {giver, 13}));
  EXPECT_FALSE(order.ordered(giver, {taker, 1})) << "order is one way";
  EXPECT_EQ(order.waits(), 1);
}

TEST(StreamOrder, WaitsOnceForWhatItKnows) {
  ClockedDevice device;
  StreamOrder order(device);
  const StreamIndex giver = order.index_of(1);
  const StreamIndex taker = order.index_of(2);
  ASSERT_TRUE(order.order(taker, {giver, 10}, 12));
  ASSERT_TRUE(order.order(taker, {giver, 11}, 13));
  EXPECT_EQ(order.waits(), 1);
  EXPECT_EQ(order.events(), 1);
}

TEST(StreamOrder, TakesTheOldestEventThatWillDo) {
  ClockedDevice device;
  StreamOrder order(device);
  const StreamIndex giver = order.index_of(1);
  const StreamIndex taker = order.index_of(2);
  order.set_spacing(10);
  std::vector<Work> works;
  for (Tick now = 0; now < 100; now += 10) {  // events at 10, 20, ..., numbered from 1
    works.push_back(device.work(1));
    order.hand_over(giver, now);
    order.advance(now + 10);
  }
  ASSERT_TRUE(order.order(taker, {giver, 41}, 200));
  EXPECT_THAT(device.waited_for(), ElementsAre(5)) << "recorded at 50";
  EXPECT_TRUE(device.is_behind(2, works[4]));
  EXPECT_FALSE(device.is_behind(2, works[5])) << "nobody waits for more than is needed";
  EXPECT_EQ(order.events(), 10);
}

TEST(StreamOrder, RecordsOneEventForAllFreesWithinItsSpacing) {
  ClockedDevice device;
  StreamOrder order(device);
  const StreamIndex index = order.index_of(1);
  order.set_spacing(8);
  for (Tick now = 1; now <= 8; ++now) {
    order.advance(now);
    order.hand_over(index, now);
  }
  EXPECT_EQ(order.events(), 0);
  order.advance(9);
  EXPECT_EQ(order.events(), 1);
  order.advance(1000);
  EXPECT_EQ(order.events(), 1) << "nothing was freed since";
}

TEST(StreamOrder, RecordsAnEventOfItsOwnForFreesThatNoneLiesBehind) {
  ClockedDevice device;
  StreamOrder order(device);
  const StreamIndex giver = order.index_of(1);
  const StreamIndex taker = order.index_of(2);
  order.hand_over(giver, 1);
  order.advance(2);
  const Work later = device.work(1);
  ASSERT_TRUE(order.order(taker, {giver, 5}, 6));
  EXPECT_EQ(order.events(), 2);
  EXPECT_TRUE(device.is_behind(2, later));
}

TEST(StreamOrder, ForgetsEventsThatItDoesNotKeep) {
  ClockedDevice device;
  {
    StreamOrder order(device);
    for (Stream stream = 1; stream <= 3; ++stream) {
      const StreamIndex index = order.index_of(stream);
      for (Tick now = 0; now < 2000; ++now) {
        order.hand_over(index, now);
        order.advance(now + 1);
      }
    }
    EXPECT_LE(device.events_alive(), 3 * 256U);
    EXPECT_GT(device.events_alive(), 0U);
  }
  EXPECT_EQ(device.events_alive(), 0U);
}

TEST(StreamOrder, SaysNoWhenTheDeviceCannotRecordOrWait) {
  ClockedDevice clocked;
  for (const DeviceCall call : {DeviceCall::kRecord, DeviceCall::kWait}) {
    FailingDevice device(clocked);
    StreamOrder order(device);
    const StreamIndex giver = order.index_of(1);
    const StreamIndex taker = order.index_of(2);
    const Work work = clocked.work(1);
    device.fail_every(call);
    EXPECT_FALSE(order.order(taker, {giver, 10}, 12));
    EXPECT_FALSE(order.ordered(taker, {giver, 10}));
    EXPECT_EQ(order.waits(), 0);
    order.hand_over(giver, 12);
    order.advance(20);
    device.heal();
    EXPECT_TRUE(order.order(taker, {giver, 10}, 21));
    EXPECT_TRUE(clocked.is_behind(2, work));
  }
  EXPECT_EQ(clocked.events_alive(), 0U);
}

TEST(StreamOrder, IsNeverWrongAboutWhoComesAfterWhom) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Chance any(seed);
    ClockedDevice device;
    FailingDevice failing(device);
    StreamOrder order(failing);
    order.set_spacing(1 + any(20));
    struct Free {
      LastUse last;
      Work work;
    };
    std::vector<Free> frees;
    for (Tick now = 1; now < 3000; ++now) {
      const Stream stream = any(3);
      const StreamIndex index = order.index_of(stream);
      const bool is_free = any(1) == 0;
      if (is_free) frees.push_back({{index, now}, device.work(stream)});  // first work, then the call
      order.advance(now);
      if (is_free) {
        if (any(1) == 0) order.hand_over(index, now);
        continue;
      }
      if (frees.empty()) continue;
      const Free& free = frees[any(1) == 0 ? frees.size() - 1 : any(frees.size() - 1)];
      if (order.ordered(index, free.last)) {
        ASSERT_TRUE(device.is_behind(stream, free.work)) << "seed " << seed << " at " << now;
      }
      if (any(9) == 0) failing.fail_nth(any(1) == 0 ? DeviceCall::kRecord : DeviceCall::kWait, 1);
      if (order.order(index, free.last, now)) {
        ASSERT_TRUE(device.is_behind(stream, free.work)) << "seed " << seed << " at " << now;
      }
    }
    EXPECT_GT(order.waits(), 100);
  }
}

// ---- what is over ----

class OverTest : public testing::Test {
 protected:
  /// Work on a stream and a free behind it.
  LastUse free(Stream stream) {
    const StreamIndex index = order.index_of(stream);
    clocked.work(stream);
    order.advance(++now);
    order.note_free(index, kMiB, now);
    return {index, now};
  }
  bool is_over(const LastUse& last) {
    order.find_what_is_over();
    return order.is_over(last);
  }

  ClockedDevice clocked;
  FailingDevice device{clocked};
  StreamOrder order{device, 1};
  Tick now = 0;
};

TEST_F(OverTest, NewMemoryIsInNobodysUse) {
  EXPECT_TRUE(order.is_over({}));
}

TEST_F(OverTest, WhatWorkUsesIsNotOverBeforeItsEventHasPassed) {
  const LastUse last = free(1);
  EXPECT_FALSE(is_over(last));
  clocked.finish(1);
  EXPECT_FALSE(order.is_over(last)) << "nobody asked the device";
  EXPECT_TRUE(is_over(last));
}

TEST_F(OverTest, EachStreamIsOverByItself) {
  const LastUse first = free(1);
  const LastUse second = free(2);
  clocked.finish(2);
  EXPECT_FALSE(is_over(first));
  EXPECT_TRUE(is_over(second));
}

TEST_F(OverTest, LaterFreesAreNotOverWithTheEarlierOnes) {
  const LastUse early = free(1);
  clocked.finish(1);
  const LastUse late = free(1);
  EXPECT_TRUE(is_over(early));
  EXPECT_FALSE(is_over(late));
  clocked.finish(1);
  EXPECT_TRUE(is_over(late));
}

TEST_F(OverTest, AsksForNoEventThatIsKnownToHavePassed) {
  for (int i = 0; i < 10; ++i) free(1);
  clocked.finish(1);
  order.find_what_is_over();
  const std::int64_t calls = device.calls(DeviceCall::kPassed);
  order.find_what_is_over();
  EXPECT_EQ(device.calls(DeviceCall::kPassed), calls);
}

TEST_F(OverTest, RecordsAnEventEverySoManyBytes) {
  StreamOrder spaced(device, 10 * kMiB);
  const StreamIndex index = spaced.index_of(5);
  const auto free = [&](Bytes size) {
    spaced.advance(++now);
    spaced.note_free(index, size, now);
    return device.calls(DeviceCall::kRecord);
  };
  for (int call = 1; call < 10; ++call) EXPECT_EQ(free(kMiB), 0);
  EXPECT_EQ(free(kMiB), 1);
  EXPECT_EQ(free(9 * kMiB), 1);
  EXPECT_EQ(free(kGiB), 2) << "a large block has one of its own";
  EXPECT_EQ(free(kGiB), 3);
  EXPECT_EQ(spaced.events(), 0) << "they hand nothing over";
}

TEST_F(OverTest, WaitsForNothingBehindALargeBlock) {
  const LastUse large = free(1);
  const Work later = clocked.work(1);
  ASSERT_TRUE(order.await(large));
  EXPECT_TRUE(order.is_over(large));
  EXPECT_FALSE(clocked.is_behind(99, later));
}

TEST_F(OverTest, KnowsWhatIsOverOfMoreFreesThanItKeepsEventsFor) {
  std::vector<LastUse> frees;
  for (int i = 0; i < 2000; ++i) frees.push_back(free(1));
  EXPECT_LE(clocked.events_alive(), 256U);
  ASSERT_TRUE(order.await(frees[1000]));
  EXPECT_TRUE(order.is_over(frees[1000]));
  EXPECT_FALSE(order.is_over(frees[1200])) << "it waits for little that came later";
  clocked.finish(1);
  EXPECT_TRUE(is_over(frees.back()));
  EXPECT_EQ(clocked.events_alive(), 0U);
}

TEST_F(OverTest, TakesWhatIsOverWithoutAWait) {
  const LastUse last = free(1);
  const StreamIndex taker = order.index_of(2);
  clocked.finish(1);
  order.find_what_is_over();
  EXPECT_TRUE(order.order(taker, last, now));
  EXPECT_TRUE(order.ordered(taker, last));
  EXPECT_EQ(order.waits(), 0);
}

TEST_F(OverTest, DoesWithoutAnEventThatCannotBeRecorded) {
  device.fail_nth(DeviceCall::kRecord, 1);
  const LastUse last = free(1);
  clocked.finish();
  EXPECT_FALSE(is_over(last));
  free(1);
  clocked.finish();
  EXPECT_TRUE(is_over(last));
}

TEST_F(OverTest, AllIsOverOnceTheDeviceIsStill) {
  const LastUse first = free(1);
  const LastUse second = free(2);
  order.settle(now);
  for (const LastUse& last : {first, second}) {
    EXPECT_TRUE(order.is_over(last));
    for (const StreamIndex taker : {first.stream, second.stream}) EXPECT_TRUE(order.ordered(taker, last));
  }
  EXPECT_FALSE(order.is_over({first.stream, now + 1}));
  EXPECT_FALSE(order.ordered(second.stream, {first.stream, now + 1}));
}

TEST_F(OverTest, AwaitsOneStreamsWorkAndNoLaterOne) {
  const LastUse first = free(1);
  const LastUse later = free(1);
  const LastUse other = free(2);
  ASSERT_TRUE(order.await(first));
  EXPECT_TRUE(order.is_over(first));
  EXPECT_FALSE(order.is_over(later));
  EXPECT_FALSE(order.is_over(other));
  EXPECT_TRUE(order.await({kNoStream, 0})) << "nobody used it";
  EXPECT_EQ(device.calls(DeviceCall::kAwait), 1);
}

TEST_F(OverTest, AwaitsNothingWhereTheDeviceRefuses) {
  const LastUse last = free(1);
  device.fail_every(DeviceCall::kAwait);
  EXPECT_FALSE(order.await(last));
  EXPECT_FALSE(order.is_over(last));
}

TEST_F(OverTest, SearchesSkipOnlyWhatTheTakerMayNotUse) {
  const StreamIndex taker = order.index_of(0);
  const LastUse last = free(1);
  const std::size_t group = GapSummary::group_of(last.stream);
  EXPECT_FALSE(order.usable_by(taker).may_use(group, last.freed));
  EXPECT_FALSE(order.usable_by(taker)(last));
  EXPECT_TRUE(order.usable_by(taker).may_use(GapSummary::group_of(taker), last.freed));
  EXPECT_TRUE(order.usable_by(taker).may_use(GapSummary::group_of(kNoStream), last.freed));
  ASSERT_TRUE(order.order(taker, last, now));
  EXPECT_TRUE(order.usable_by(taker).may_use(group, last.freed));
  EXPECT_TRUE(order.usable_by(taker)(last));
  EXPECT_FALSE(order.usable_by(taker).may_use(group, now + 1));
}

TEST(StreamOrder, IsNeverWrongAboutWhatIsOver) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Chance any(seed);
    ClockedDevice device;
    FailingDevice failing(device);
    StreamOrder order(failing, static_cast<Bytes>(1 + any(20)));
    std::vector<std::pair<LastUse, Work>> frees;
    std::size_t over = 0;
    for (Tick now = 1; now < 2000; ++now) {
      const Stream stream = any(3);
      const StreamIndex index = order.index_of(stream);
      if (any(9) == 0) failing.fail_nth(any(1) == 0 ? DeviceCall::kRecord : DeviceCall::kAwait, 1);
      frees.push_back({{index, now}, device.work(stream)});  // first work, then the call
      order.advance(now);
      order.note_free(index, static_cast<Bytes>(any(3)), now);
      if (any(1) == 0) order.hand_over(index, now);
      if (any(19) == 0) device.finish(any(3));
      if (any(29) == 0) (void)order.await(frees[any(frees.size() - 1)].first);
      if (any(9) == 0) order.find_what_is_over();
      const auto& [last, work] = frees[any(frees.size() - 1)];
      if (!order.is_over(last)) continue;
      ++over;
      ASSERT_TRUE(device.is_behind(99, work)) << "seed " << seed << " at " << now;
    }
    EXPECT_GT(over, 100U);
  }
}

}  // namespace
}  // namespace stweaver
