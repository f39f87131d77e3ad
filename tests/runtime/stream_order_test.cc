#include "runtime/stream_order.h"

#include <cstddef>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/clocked_device.h"

namespace stweaver {
namespace {

using testing::ElementsAre;

TEST(StreamOrder, NumbersStreamsAsTheyAreFirstSeen) {
  ClockedDevice device;
  StreamOrder order(device);
  EXPECT_EQ(order.lane_of(7), 0U);
  EXPECT_EQ(order.lane_of(0), 1U);
  EXPECT_EQ(order.lane_of(7), 0U);
  EXPECT_EQ(order.lanes(), 2U);
  EXPECT_EQ(order.stream_of(1), 0U);
}

TEST(StreamOrder, GivesNoLaneToTheSixtyFifthStream) {
  ClockedDevice device;
  StreamOrder order(device);
  for (Stream stream = 1; stream <= StreamOrder::kMostLanes; ++stream) {
    EXPECT_EQ(order.lane_of(stream * 1000), stream - 1);
  }
  EXPECT_EQ(order.lane_of(5), kNobody);
  EXPECT_EQ(order.lane_of(5), kNobody);
  EXPECT_EQ(order.lane_of(64000), 63U) << "those that have one keep it";
  EXPECT_EQ(order.lanes(), StreamOrder::kMostLanes);
}

TEST(StreamOrder, WantsNoWaitForItselfNorForNewMemory) {
  ClockedDevice device;
  StreamOrder order(device);
  const LaneId lane = order.lane_of(1);
  EXPECT_TRUE(order.ordered(lane, {lane, 10}));
  EXPECT_TRUE(order.ordered(lane, {}));
  EXPECT_TRUE(order.order(lane, {lane, 10}, 11));
  EXPECT_EQ(order.events(), 0);
  EXPECT_EQ(order.waits(), 0);
}

TEST(StreamOrder, MakesTheTakerComeAfterTheGiversWork) {
  ClockedDevice device;
  StreamOrder order(device);
  const LaneId giver = order.lane_of(1);
  const LaneId taker = order.lane_of(2);
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
  const LaneId giver = order.lane_of(1);
  const LaneId taker = order.lane_of(2);
  ASSERT_TRUE(order.order(taker, {giver, 10}, 12));
  ASSERT_TRUE(order.order(taker, {giver, 11}, 13));
  EXPECT_EQ(order.waits(), 1);
  EXPECT_EQ(order.events(), 1);
}

TEST(StreamOrder, TakesTheOldestEventThatWillDo) {
  ClockedDevice device;
  StreamOrder order(device);
  const LaneId giver = order.lane_of(1);
  const LaneId taker = order.lane_of(2);
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
  const LaneId lane = order.lane_of(1);
  order.set_spacing(8);
  for (Tick now = 1; now <= 8; ++now) {
    order.advance(now);
    order.hand_over(lane, now);
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
  const LaneId giver = order.lane_of(1);
  const LaneId taker = order.lane_of(2);
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
      const LaneId lane = order.lane_of(stream);
      for (Tick now = 0; now < 200; ++now) {
        order.hand_over(lane, now);
        order.advance(now + 1);
      }
    }
    EXPECT_LE(device.events_alive(), 3 * 16U);
    EXPECT_GT(device.events_alive(), 0U);
  }
  EXPECT_EQ(device.events_alive(), 0U);
}

TEST(StreamOrder, SaysNoWhenTheDeviceCannotRecordOrWait) {
  ClockedDevice clocked;
  for (const DeviceCall call : {DeviceCall::kRecord, DeviceCall::kWait}) {
    FailingDevice device(clocked);
    StreamOrder order(device);
    const LaneId giver = order.lane_of(1);
    const LaneId taker = order.lane_of(2);
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
    std::mt19937 random(seed);
    const auto any = [&](std::uint64_t most) {
      return std::uniform_int_distribution<std::uint64_t>(0, most)(random);
    };
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
      const LaneId lane = order.lane_of(stream);
      const bool is_free = any(1) == 0;
      if (is_free) frees.push_back({{lane, now}, device.work(stream)});  // first work, then the call
      order.advance(now);
      if (is_free) {
        if (any(1) == 0) order.hand_over(lane, now);
        continue;
      }
      if (frees.empty()) continue;
      const Free& free = frees[any(1) == 0 ? frees.size() - 1 : any(frees.size() - 1)];
      if (order.ordered(lane, free.last)) {
        ASSERT_TRUE(device.is_behind(stream, free.work)) << "seed " << seed << " at " << now;
      }
      if (any(9) == 0) failing.fail_nth(any(1) == 0 ? DeviceCall::kRecord : DeviceCall::kWait, 1);
      if (order.order(lane, free.last, now)) {
        ASSERT_TRUE(device.is_behind(stream, free.work)) << "seed " << seed << " at " << now;
      }
    }
    EXPECT_GT(order.waits(), 100);
  }
}

}  // namespace
}  // namespace stweaver
