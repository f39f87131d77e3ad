#include "device/failing_device.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base.h"
#include "device/host_device.h"
#include "support/refusals.h"

namespace stweaver {
namespace {

constexpr Bytes kFailingPage = 2 * kMiB;

class FailingDeviceTest : public testing::Test {
 protected:
  FailingDevice& device() { return device_; }
  Device& inner() { return host_; }

 private:
  HostDevice host_{64 * kMiB};
  FailingDevice device_{host_};
};

/// A call of one kind that goes well on a device that is well.
struct Attempt {
  DeviceCall call;
  std::string name;
  std::function<bool()> succeeds;
};

TEST_F(FailingDeviceTest, FailsEveryKindOfCallWithoutAnyEffect) {
  std::byte* const block = device().allocate(kMiB);
  std::byte* const range = device().reserve(2 * kFailingPage);
  std::byte* const empty = device().reserve(kFailingPage);
  ASSERT_TRUE(device().map(range, kFailingPage));
  const DeviceEvent event = device().record(0);
  // In an order in which each succeeds once the one before it has.
  const std::vector<Attempt> attempts = {
      {DeviceCall::kAllocate, "allocate", [&] { return device().allocate(kMiB) != nullptr; }},
      {DeviceCall::kReserve, "reserve", [&] { return device().reserve(kFailingPage) != nullptr; }},
      {DeviceCall::kMap, "map", [&] { return device().map(range + kFailingPage, kFailingPage); }},
      {DeviceCall::kRecord, "record", [&] { return device().record(0) != kNoEvent; }},
      {DeviceCall::kWait, "wait", [&] { return device().wait(0, event); }},
      {DeviceCall::kAwait, "await", [&] { return device().await(event); }},
      {DeviceCall::kSynchronize, "synchronize", [&] { return device().synchronize(); }},
      {DeviceCall::kFill, "fill", [&] { return device().fill(block, kMiB, 1, 0); }},
      {DeviceCall::kCountOther, "count_other", [&] { return device().count_other(block, kMiB, 1, 0) == 0; }},
      {DeviceCall::kUnmap, "unmap", [&] { return device().unmap(range, kFailingPage); }},
      {DeviceCall::kRelease, "release", [&] { return device().release(empty, kFailingPage); }},
      {DeviceCall::kFree, "free", [&] { return device().free(block); }},
  };
  EXPECT_EQ(attempts.size(), kDeviceCalls - 1);  // all but kPassed, which has a test of its own
  for (const Attempt& attempt : attempts) {
    const Bytes free = inner().memory().free;
    device().fail_every(attempt.call);
    EXPECT_FALSE(attempt.succeeds()) << attempt.name;
    expect_failure(device(), attempt.name + "(): told to fail");
    EXPECT_FALSE(attempt.succeeds()) << attempt.name;
    EXPECT_EQ(inner().memory().free, free) << attempt.name;
    device().heal();
    EXPECT_TRUE(attempt.succeeds()) << attempt.name << ": " << device().failure();
  }
  EXPECT_EQ(inner().failure(), "");
}

TEST_F(FailingDeviceTest, FailsTheNthCallFromNowOnAndNoOther) {
  device().allocate(kMiB);
  device().fail_nth(DeviceCall::kAllocate, 3);
  std::array<bool, 6> served = {};
  for (bool& one : served) one = device().allocate(kMiB) != nullptr;
  EXPECT_THAT(served, testing::ElementsAre(true, true, false, true, true, true));
  EXPECT_NE(device().reserve(kFailingPage), nullptr);
  EXPECT_EQ(device().calls(DeviceCall::kAllocate), 7);
  EXPECT_EQ(device().calls(DeviceCall::kReserve), 1);
  EXPECT_EQ(device().calls(DeviceCall::kMap), 0);
}

TEST_F(FailingDeviceTest, AnEventHasNotPassedAsLongAsItIsTold) {
  const DeviceEvent event = device().record(0);
  device().fail_every(DeviceCall::kPassed);
  EXPECT_FALSE(device().passed(event));
  EXPECT_EQ(device().failure(), "");
  device().heal();
  EXPECT_TRUE(device().passed(event));
}

TEST_F(FailingDeviceTest, HoldsNoMoreThanItsLimit) {
  device().limit(3 * kFailingPage);
  EXPECT_EQ(device().memory().total, 3 * kFailingPage);
  std::byte* const range = device().reserve(4 * kFailingPage);
  std::byte* const block = device().allocate(kFailingPage + 1);
  EXPECT_TRUE(device().map(range, kFailingPage));
  EXPECT_EQ(device().held(), 2 * kFailingPage + 1);
  EXPECT_EQ(device().memory().free, kFailingPage - 1);
  EXPECT_FALSE(device().map(range + kFailingPage, kFailingPage));
  EXPECT_THAT(device().failure(), testing::HasSubstr("out of memory"));
  EXPECT_EQ(device().allocate(kFailingPage), nullptr);
  EXPECT_TRUE(device().free(block));
  EXPECT_TRUE(device().map(range + kFailingPage, 2 * kFailingPage));
  EXPECT_TRUE(device().unmap(range, kFailingPage));
  EXPECT_EQ(device().held(), 2 * kFailingPage);
  EXPECT_NE(device().allocate(kFailingPage), nullptr);
}

TEST_F(FailingDeviceTest, HoldsNothingOfACallThatFailed) {
  device().limit(128 * kMiB);
  EXPECT_EQ(device().allocate(65 * kMiB), nullptr);  // more than the device has
  expect_failure(device(), "allocate(68157440): out of memory");
  EXPECT_FALSE(device().map(device().reserve(kFailingPage), 2 * kFailingPage));
  EXPECT_FALSE(device().unmap(nullptr, kFailingPage));
  EXPECT_EQ(device().allocate(-1), nullptr);
  EXPECT_EQ(device().held(), 0);
  std::byte* const block = device().allocate(kMiB);
  EXPECT_FALSE(device().free(block + 1));
  EXPECT_EQ(device().held(), kMiB);
}

TEST_F(FailingDeviceTest, ALimitBelowWhatIsHeldOnlyStopsGrowth) {
  std::byte* const block = device().allocate(8 * kMiB);
  device().limit(kMiB);
  EXPECT_EQ(device().memory().free, 0);
  EXPECT_EQ(device().allocate(1), nullptr);
  EXPECT_TRUE(device().free(block));
  EXPECT_NE(device().allocate(kMiB), nullptr);
}

TEST_F(FailingDeviceTest, SaysTheDevicesOwnFailureWhenThatCameLast) {
  device().fail_nth(DeviceCall::kAllocate, 1);
  EXPECT_EQ(device().allocate(kMiB), nullptr);
  expect_failure(device(), "allocate(): told to fail");
  EXPECT_EQ(device().allocate(0), nullptr);
  expect_failure(device(), "allocate(0): ");
}

TEST_F(FailingDeviceTest, FailsOneCallOfManyThreads) {
  device().fail_nth(DeviceCall::kRecord, 17);
  std::atomic<int> failures = 0;
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      for (int i = 0; i < 10; ++i) failures += device().record(0) == kNoEvent ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(device().calls(DeviceCall::kRecord), 40);
}

}  // namespace
}  // namespace stweaver
