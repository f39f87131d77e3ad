#include "simulate/caching_upstream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/failing_device.h"
#include "device/host_device.h"
#include "support/errors.h"
#include "support/streams.h"

namespace stweaver {
namespace {

using ::testing::HasSubstr;

constexpr Stream kOther = 8;

/// A device whose work takes as long as a test says: while kPassed fails, events have not passed.
class StreamUse : public ::testing::Test {
 protected:
  void work_begins() { device_.fail_every(DeviceCall::kPassed); }
  void work_ends() { device_.heal(); }

  void* allocate(Bytes size, Stream stream) { return upstream_.allocate(size, stream, 0); }

  HostDevice host_{100 * kMiB};
  FailingDevice device_{host_};
  CachingUpstream upstream_{{}, device_};
};

TEST_F(StreamUse, KeepsABlockInUseUntilTheOtherStreamIsDone) {
  void* block = allocate(30 * kMiB, kMain);
  upstream_.record_stream(block, kSide);
  work_begins();
  upstream_.free(block);
  EXPECT_EQ(upstream_.allocated(), 30 * kMiB);
  void* second = allocate(30 * kMiB, kMain);
  EXPECT_NE(second, block);
  EXPECT_EQ(upstream_.reserved(), 60 * kMiB);
  work_ends();
  EXPECT_EQ(allocate(30 * kMiB, kMain), block);
  EXPECT_EQ(upstream_.reserved(), 60 * kMiB);
}

TEST_F(StreamUse, TakesOneEventForEachOtherStream) {
  void* block = allocate(kMiB, kMain);
  for (const Stream stream : {kSide, kMain, kOther, kSide}) upstream_.record_stream(block, stream);
  EXPECT_EQ(device_.calls(DeviceCall::kRecord), 0);
  upstream_.free(block);
  EXPECT_EQ(device_.calls(DeviceCall::kRecord), 2);
  EXPECT_EQ(allocate(kMiB, kMain), block);
}

TEST_F(StreamUse, OfAPoolThatIsReleasedIsOverBeforeItsMemoryGoesBack) {
  void* block = upstream_.allocate(30 * kMiB, kMain, 1);
  upstream_.record_stream(block, kSide);
  upstream_.empty_cache();
  EXPECT_EQ(upstream_.reserved(), 30 * kMiB);
  upstream_.release_pool(1);
  upstream_.empty_cache();
  EXPECT_EQ(upstream_.reserved(), 30 * kMiB);
  upstream_.free(block);
  upstream_.empty_cache();
  EXPECT_EQ(upstream_.reserved(), 0);
}

TEST_F(StreamUse, OfItsOwnStreamIsNotWaitedFor) {
  void* block = allocate(30 * kMiB, kMain);
  upstream_.record_stream(block, kMain);
  work_begins();
  upstream_.free(block);
  EXPECT_EQ(allocate(30 * kMiB, kMain), block);
}

TEST_F(StreamUse, IsForgottenWithTheBlock) {
  void* block = allocate(30 * kMiB, kMain);
  upstream_.record_stream(block, kSide);
  upstream_.free(block);
  EXPECT_EQ(allocate(30 * kMiB, kMain), block);
  work_begins();
  upstream_.free(block);
  EXPECT_EQ(allocate(30 * kMiB, kMain), block);
}

TEST_F(StreamUse, WaitsForEveryStreamInTurn) {
  void* block = allocate(30 * kMiB, kMain);
  upstream_.record_stream(block, kSide);
  upstream_.record_stream(block, kOther);
  upstream_.free(block);
  device_.fail_nth(DeviceCall::kPassed, 2);  // the one is done, the other is not
  EXPECT_NE(allocate(30 * kMiB, kMain), block);
  EXPECT_EQ(allocate(30 * kMiB, kMain), block);
}

TEST_F(StreamUse, AsksNoFurtherThanTheFirstEventThatHasNotPassed) {
  for (int i = 0; i < 3; ++i) {
    void* block = allocate(kMiB, kMain);
    upstream_.record_stream(block, kSide);
    work_begins();
    upstream_.free(block);
  }
  const std::int64_t asked = device_.calls(DeviceCall::kPassed);
  allocate(kMiB, kMain);
  EXPECT_EQ(device_.calls(DeviceCall::kPassed), asked + 1);
}

TEST_F(StreamUse, IsWaitedForBeforeMemoryRunsOut) {
  void* block = allocate(60 * kMiB, kMain);
  upstream_.record_stream(block, kSide);
  work_begins();
  upstream_.free(block);
  EXPECT_NE(allocate(70 * kMiB, kMain), nullptr);
  EXPECT_EQ(upstream_.statistics().retries, 1);
  EXPECT_EQ(upstream_.reserved(), 70 * kMiB);
  EXPECT_EQ(upstream_.allocated(), 70 * kMiB);
}

TEST_F(StreamUse, IsWaitedForWhenTheCacheIsEmptied) {
  void* block = allocate(60 * kMiB, kMain);
  upstream_.record_stream(block, kSide);
  work_begins();
  upstream_.free(block);
  upstream_.empty_cache();
  EXPECT_EQ(upstream_.reserved(), 0);
}

TEST_F(StreamUse, HoldsTheBlockWhereTheDeviceCannotWait) {
  void* block = allocate(60 * kMiB, kMain);
  upstream_.record_stream(block, kSide);
  work_begins();
  device_.fail_every(DeviceCall::kSynchronize);
  upstream_.free(block);
  EXPECT_EQ(allocate(70 * kMiB, kMain), nullptr);
  upstream_.empty_cache();
  EXPECT_EQ(upstream_.allocated(), 60 * kMiB);
  device_.heal();
  EXPECT_NE(allocate(70 * kMiB, kMain), nullptr);
}

TEST_F(StreamUse, WithoutAnEventWaitsUntilAllWorkIsOver) {
  void* block = allocate(30 * kMiB, kMain);
  upstream_.record_stream(block, kSide);
  device_.fail_every(DeviceCall::kRecord);
  device_.fail_every(DeviceCall::kSynchronize);
  upstream_.free(block);
  void* second = allocate(30 * kMiB, kMain);
  EXPECT_NE(second, block);
  device_.heal();
  EXPECT_EQ(allocate(30 * kMiB, kMain), block);
}

TEST_F(StreamUse, LeavesABlockToItsFirstFree) {
  void* block = allocate(30 * kMiB, kMain);
  upstream_.record_stream(block, kSide);
  work_begins();
  upstream_.free(block);
  EXPECT_THAT(refusal([&] { upstream_.free(block); }), HasSubstr("is not allocated"));
  EXPECT_THAT(refusal([&] { upstream_.record_stream(block, kSide); }), HasSubstr("is not allocated"));
  EXPECT_EQ(upstream_.allocated(), 30 * kMiB);
}

TEST_F(StreamUse, OfWhatIsNotItsOwnIsRefused) {
  int mine = 0;
  EXPECT_THAT(refusal([&] { upstream_.record_stream(&mine, kSide); }), HasSubstr("is not allocated"));
}

/// Host memory whose work never ends by itself, and that counts its events.
class BusyDevice : public HostDevice {
 public:
  using HostDevice::HostDevice;

  DeviceEvent record(Stream stream) override {
    ++events;
    return HostDevice::record(stream);
  }
  bool passed(DeviceEvent event) override { return !busy && HostDevice::passed(event); }
  void forget(DeviceEvent event) override {
    --events;
    HostDevice::forget(event);
  }

  bool busy = true;
  int events = 0;
};

TEST(CachingUpstream, ForgetsItsEvents) {
  BusyDevice device(100 * kMiB);
  {
    CachingUpstream upstream({}, device);
    const auto use_elsewhere = [&] {
      void* block = upstream.allocate(kMiB, kMain, 0);
      upstream.record_stream(block, kSide);
      upstream.free(block);
    };
    use_elsewhere();
    EXPECT_EQ(device.events, 1);
    device.busy = false;
    upstream.allocate(kMiB, kMain, 0);
    EXPECT_EQ(device.events, 0);  // passed
    device.busy = true;
    use_elsewhere();
    EXPECT_EQ(device.events, 1);
    upstream.empty_cache();
    EXPECT_EQ(device.events, 0);  // waited for
    use_elsewhere();
    EXPECT_EQ(device.events, 1);
  }
  EXPECT_EQ(device.events, 0);  // not needed any more
  EXPECT_EQ(device.memory().free, 100 * kMiB);
}

TEST(CachingUpstream, OnNumbersHasNoWorkToWaitFor) {
  CachingUpstream upstream({}, 100 * kMiB);
  void* block = upstream.allocate(30 * kMiB, kMain, 0);
  upstream.record_stream(block, kSide);
  upstream.free(block);
  EXPECT_EQ(upstream.allocated(), 0);
  EXPECT_EQ(upstream.allocate(30 * kMiB, kMain, 0), block);
  EXPECT_EQ(upstream.reserved(), 30 * kMiB);
  EXPECT_EQ(upstream.allocate(80 * kMiB, kMain, 0), nullptr);
}

TEST(CachingUpstream, KeepsPoolsApart) {
  HostDevice device(100 * kMiB);
  CachingUpstream upstream({}, device);
  void* block = upstream.allocate(kMiB, kMain, 0);
  upstream.free(block);
  EXPECT_NE(upstream.allocate(kMiB, kMain, 3), block);
}

}  // namespace
}  // namespace stweaver
