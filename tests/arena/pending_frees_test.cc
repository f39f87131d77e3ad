#include "arena/pending_frees.h"

#include <cstddef>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/clocked_device.h"

namespace stweaver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Stream kOwn = 1;  ///< of all blocks

class PendingFreesTest : public testing::Test {
 protected:
  /// A block of a KiB at that offset, used on those streams too.
  LivingBlock block(Bytes offset, const std::vector<Stream>& users) {
    LivingBlock made = {.address = 4096 + static_cast<std::uintptr_t>(offset),
                        .size = 1000,
                        .rounded = 1024,
                        .stream = order.index_of(kOwn),
                        .recorded = static_cast<RequestId>(offset)};
    for (const Stream user : users) {
      works.push_back(clocked.work(user));
      pending->note_use(made, user);
    }
    return made;
  }
  /// A block that is freed at once. Whether it is pending.
  bool free(Bytes offset, const std::vector<Stream>& users) {
    return pending->add(block(offset, users), offset, ++now);
  }

  std::vector<Bytes> offsets() {
    std::vector<Bytes> all;
    for (const PendingFrees::Released& range : released) all.push_back(range.offset);
    released.clear();
    return all;
  }
  std::vector<Bytes> release_passed() {
    pending->release_passed();
    return offsets();
  }
  [[nodiscard]] bool is_behind(Stream stream) const {
    return std::all_of(works.begin(), works.end(),
                       [&](const Work& work) { return clocked.is_behind(stream, work); });
  }

  ClockedDevice clocked;
  FailingDevice device{clocked};
  StreamOrder order{device};
  std::vector<PendingFrees::Released> released;
  std::vector<Work> works;  ///< of other streams with blocks
  std::unique_ptr<PendingFrees> pending = std::make_unique<PendingFrees>(
      device, order, [this](const PendingFrees::Released& range) { released.push_back(range); });
  Tick now = 10;
};

TEST_F(PendingFreesTest, KeepsNothingThatNoOtherStreamUses) {
  EXPECT_FALSE(free(0, {}));
  EXPECT_TRUE(pending->empty());
  EXPECT_EQ(device.calls(DeviceCall::kRecord), 0);
}

TEST_F(PendingFreesTest, ReleasesABlockWhenTheOtherStreamsAreDone) {
  ASSERT_TRUE(free(512, {2, 3}));
  EXPECT_FALSE(pending->empty());
  EXPECT_EQ(pending->bytes(), 1024);
  EXPECT_THAT(release_passed(), IsEmpty());
  clocked.finish(2);
  EXPECT_THAT(release_passed(), IsEmpty());
  clocked.finish(3);
  pending->release_passed();
  ASSERT_EQ(released.size(), 1U);
  EXPECT_EQ(released.front().offset, 512);
  EXPECT_EQ(released.front().size, 1024) << "as it was rounded";
  EXPECT_EQ(released.front().last.stream, order.index_of(kOwn));
  EXPECT_EQ(released.front().last.freed, 11U);
  EXPECT_EQ(released.front().recorded, 512U);
  EXPECT_TRUE(pending->empty());
  EXPECT_EQ(pending->bytes(), 0);
}

TEST_F(PendingFreesTest, AStreamThatIsSlowHoldsBackNoOthers) {
  free(0, {2});
  free(1024, {3});
  free(2048, {2});
  free(3072, {2, 3});
  clocked.finish(3);
  EXPECT_THAT(release_passed(), ElementsAre(1024));
  EXPECT_EQ(device.calls(DeviceCall::kPassed), 2) << "the slow one is asked once";
  clocked.finish(2);
  EXPECT_THAT(release_passed(), ElementsAre(0, 2048, 3072));
  EXPECT_EQ(clocked.events_alive(), 0U);
}

TEST_F(PendingFreesTest, ReleasesAsFarAsTheOtherStreamsHaveGot) {
  free(0, {2});
  free(1024, {3});
  clocked.finish(2);
  EXPECT_THAT(release_passed(), ElementsAre(0));
  EXPECT_EQ(pending->bytes(), 1024);
}

TEST_F(PendingFreesTest, AsksAStreamOnceHoweverOftenItUsesABlock) {
  free(0, {2, 2, 3, 2});
  EXPECT_EQ(device.calls(DeviceCall::kRecord), 2);
}

TEST_F(PendingFreesTest, ForgetsTheStreamsOfABlockThatIsFreed) {
  const LivingBlock other = block(1024, {3});
  free(0, {2});
  clocked.finish();
  EXPECT_THAT(release_passed(), ElementsAre(0));
  EXPECT_FALSE(free(0, {})) << "another block at that address";
  clocked.work(3);
  EXPECT_TRUE(pending->add(other, 1024, ++now)) << "those of others are kept";
}

TEST_F(PendingFreesTest, WaitsForTheDeviceWhereMoreThanFourStreamsUseABlock) {
  ASSERT_TRUE(free(0, {2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(device.calls(DeviceCall::kSynchronize), 1);
  EXPECT_TRUE(is_behind(99)) << "the device was still";
  EXPECT_THAT(release_passed(), ElementsAre(0));
  EXPECT_EQ(clocked.events_alive(), 0U);
}

TEST_F(PendingFreesTest, WaitsForTheDeviceWhereAStreamCannotBeAsked) {
  device.fail_nth(DeviceCall::kRecord, 1);
  EXPECT_FALSE(free(0, {2}));
  EXPECT_EQ(device.calls(DeviceCall::kSynchronize), 1);
  EXPECT_TRUE(is_behind(99));
}

TEST_F(PendingFreesTest, AsksStreamsThatHaveNoNumber) {
  (void)order.index_of(kOwn);
  for (Stream stream = 1000; order.index_of(stream) != kNoStream; ++stream) {
  }
  ASSERT_TRUE(free(0, {77}));
  EXPECT_EQ(device.calls(DeviceCall::kSynchronize), 0);
  EXPECT_THAT(release_passed(), IsEmpty());
  clocked.finish(77);
  EXPECT_THAT(release_passed(), ElementsAre(0));
}

TEST_F(PendingFreesTest, KeepsAnUncertainBlockUntilAllStreamsAreDone) {
  device.fail_every(DeviceCall::kRecord);
  device.fail_every(DeviceCall::kSynchronize);
  ASSERT_TRUE(free(0, {2}));
  clocked.finish();
  EXPECT_THAT(release_passed(), IsEmpty()) << "nobody can tell";
  EXPECT_FALSE(pending->release_overlapping({0, 1024}, 9, now));
  device.heal();
  works.push_back(clocked.work(2));
  EXPECT_THAT(release_passed(), ElementsAre(0));
  EXPECT_TRUE(is_behind(99)) << "the device was still";
}

TEST_F(PendingFreesTest, AnUncertainBlockOfManyStreamsIsKeptToo) {
  device.fail_every(DeviceCall::kSynchronize);
  ASSERT_TRUE(free(0, {2, 3, 4, 5, 6}));
  for (const Stream stream : {2UL, 3UL, 4UL, 5UL}) clocked.finish(stream);
  EXPECT_THAT(release_passed(), IsEmpty()) << "the fifth is at work";
  device.heal();
  EXPECT_THAT(release_passed(), ElementsAre(0));
  EXPECT_TRUE(is_behind(99));
}

TEST_F(PendingFreesTest, ReleasesWhatOverlapsAPlaceBehindWaits) {
  free(0, {2, 3});
  free(1024, {4});
  free(2048, {2});
  works.pop_back();  // the third block's
  const Tick before = now;
  EXPECT_TRUE(pending->release_overlapping({512, 2048}, 9, now));
  ASSERT_EQ(released.size(), 2U);
  EXPECT_TRUE(is_behind(kOwn));
  EXPECT_TRUE(is_behind(9));
  EXPECT_FALSE(is_behind(10));
  for (const PendingFrees::Released& range : released) {
    EXPECT_GT(range.last.freed, before) << "others must come after the waits";
    EXPECT_LE(range.last.freed, now);
  }
  EXPECT_THAT(offsets(), ElementsAre(0, 1024));
  EXPECT_EQ(pending->bytes(), 1024);
  EXPECT_EQ(clocked.events_alive(), 1U);
}

TEST_F(PendingFreesTest, ReleasesNothingBesideAPlace) {
  free(1024, {2});
  EXPECT_FALSE(pending->release_overlapping({0, 1024}, 9, now));
  EXPECT_FALSE(pending->release_overlapping({2048, 4096}, 9, now));
  EXPECT_THAT(released, IsEmpty());
  EXPECT_EQ(device.calls(DeviceCall::kWait), 0);
}

TEST_F(PendingFreesTest, KeepsWhatNoStreamCanWaitFor) {
  free(0, {2});
  for (const int call : {1, 2}) {
    device.fail_nth(DeviceCall::kWait, call);
    EXPECT_FALSE(pending->release_overlapping({0, 1024}, 9, now));
    EXPECT_THAT(released, IsEmpty());
    EXPECT_FALSE(pending->empty());
  }
  clocked.finish(2);
  EXPECT_THAT(release_passed(), ElementsAre(0));
}

TEST_F(PendingFreesTest, ForgetsWhatTheRecorderKnew) {
  free(512, {2});
  pending->forget_recorded();
  clocked.finish();
  pending->release_passed();
  ASSERT_EQ(released.size(), 1U);
  EXPECT_EQ(released.front().recorded, kNotRecorded);
}

TEST_F(PendingFreesTest, ForgetsItsEventsAtItsEnd) {
  free(0, {2, 3});
  free(1024, {2, 3, 4, 5});
  ASSERT_EQ(clocked.events_alive(), 6U);
  pending.reset();
  EXPECT_EQ(clocked.events_alive(), 0U);
  EXPECT_THAT(released, IsEmpty());
}

}  // namespace
}  // namespace stweaver
