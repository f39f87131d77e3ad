#include "device/host_device.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base.h"
#include "support/refusals.h"

namespace stweaver {
namespace {

constexpr Bytes kPage = 2 * kMiB;

TEST(HostDevice, ServesItsCapacityAndNotAByteMore) {
  HostDevice device(10 * kMiB);
  EXPECT_EQ(device.memory().total, 10 * kMiB);
  std::byte* const most = device.allocate(10 * kMiB - kAlignment);
  std::byte* const rest = device.allocate(kAlignment);
  ASSERT_NE(most, nullptr);
  ASSERT_NE(rest, nullptr);
  EXPECT_EQ(device.memory().free, 0);
  EXPECT_EQ(device.allocate(1), nullptr);
  EXPECT_EQ(device.failure(), "allocate(1): out of memory, 0 of 10485760 bytes are free");
  EXPECT_TRUE(device.free(rest));
  EXPECT_NE(device.allocate(1), nullptr);
}

TEST(HostDevice, CountsBlocksInUnitsOf512Bytes) {
  HostDevice device(4096);
  EXPECT_NE(device.allocate(1), nullptr);
  EXPECT_EQ(device.memory().free, 4096 - 512);
  EXPECT_NE(device.allocate(513), nullptr);
  EXPECT_EQ(device.memory().free, 4096 - 512 - 1024);
}

TEST(HostDevice, CountsMappedMemoryAgainstTheSameCapacity) {
  HostDevice device(3 * kPage);
  std::byte* const range = device.reserve(8 * kPage);
  EXPECT_EQ(device.memory().free, 3 * kPage);
  std::byte* const block = device.allocate(kPage);
  EXPECT_TRUE(device.map(range, kPage));
  EXPECT_EQ(device.memory().free, kPage);
  EXPECT_FALSE(device.map(range + kPage, 2 * kPage));
  EXPECT_TRUE(device.free(block));
  EXPECT_TRUE(device.map(range + kPage, 2 * kPage));
  EXPECT_EQ(device.memory().free, 0);
  EXPECT_TRUE(device.unmap(range, kPage));
  EXPECT_EQ(device.memory().free, kPage);
}

TEST(HostDevice, RefusesSizesThatNoMachineHas) {
  HostDevice device(std::numeric_limits<Bytes>::max());
  EXPECT_EQ(device.allocate(std::numeric_limits<Bytes>::max() - kPage), nullptr);
  expect_failure(device, "allocate(");
  EXPECT_EQ(device.reserve(std::numeric_limits<Bytes>::max() / kPage * kPage), nullptr);
  expect_failure(device, "reserve(");
  EXPECT_EQ(device.memory().free, device.memory().total);
}

TEST(HostDevice, RefusesANegativeCapacity) {
  EXPECT_THROW(HostDevice(-1), Error);
}

TEST(HostDevice, OffersMoreMemoryThanTheMachineHasUntilItIsWritten) {
  HostDevice device(200 * kGiB);
  std::byte* const block = device.allocate(100 * kGiB);
  std::byte* const range = device.reserve(100 * kGiB);
  ASSERT_NE(block, nullptr) << device.failure();
  ASSERT_NE(range, nullptr) << device.failure();
  EXPECT_TRUE(device.map(range, 100 * kGiB)) << device.failure();
  EXPECT_TRUE(device.fill(block + 99 * kGiB, kMiB, 1, 0));
  EXPECT_TRUE(device.fill(range + 99 * kGiB, kMiB, 2, 0));
  EXPECT_EQ(device.count_other(block + 99 * kGiB, kMiB, 1, 0), 0);
}

TEST(HostDevice, UnmappingGivesThePagesBackToTheSystem) {
  HostDevice device(kPage);
  std::byte* const range = device.reserve(kPage);
  EXPECT_TRUE(device.map(range, kPage));
  EXPECT_TRUE(device.fill(range, kPage, 7, 0));
  EXPECT_TRUE(device.unmap(range, kPage));
  EXPECT_TRUE(device.map(range, kPage));
  EXPECT_EQ(device.count_other(range, kPage, 0, 0), 0);  // new pages are zero
}

TEST(HostDevice, FillsAndCountsItsOwnMemoryOnly) {
  HostDevice device(4 * kPage);
  std::byte* const block = device.allocate(kPage);
  std::byte* const range = device.reserve(4 * kPage);
  EXPECT_TRUE(device.map(range, kPage));
  alignas(4) std::byte foreign[64] = {};
  const auto refused = [&](std::byte* at, Bytes size) {
    EXPECT_FALSE(device.fill(at, size, 1, 0));
    expect_failure(device, "fill(");
    EXPECT_EQ(device.count_other(at, size, 1, 0), -1);
    expect_failure(device, "count_other(");
  };
  refused(foreign, sizeof(foreign));
  refused(nullptr, 4);
  refused(block, kPage + 4);
  refused(range + kPage, 4);
  refused(range + kPage - 4, 8);
  EXPECT_TRUE(device.free(block));
  refused(block, 4);
}

TEST(HostDevice, NeverGivesOutMoreThanItHasToManyThreads) {
  constexpr int kBlocks = 40;
  HostDevice device(kBlocks * kMiB);
  std::atomic<int> served = 0;
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      for (int i = 0; i < kBlocks; ++i) served += device.allocate(kMiB) != nullptr ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, kBlocks);
  EXPECT_EQ(device.memory().free, 0);
}

/// Whether the system has nothing at these addresses.
bool nothing_at(std::byte* at) {
  unsigned char resident = 0;
  return mincore(at, 1, &resident) != 0 && errno == ENOMEM;
}

TEST(HostDevice, GivesTheSystemBackWhatIsLeftWhenItGoes) {
  std::byte* block = nullptr;
  std::byte* range = nullptr;
  {
    HostDevice device(8 * kPage);
    block = device.allocate(kPage);
    range = device.reserve(2 * kPage);
    EXPECT_TRUE(device.map(range, kPage));
    EXPECT_FALSE(nothing_at(block) || nothing_at(range) || nothing_at(range + kPage));
  }
  EXPECT_TRUE(nothing_at(block));
  EXPECT_TRUE(nothing_at(range));
  EXPECT_TRUE(nothing_at(range + kPage));
}

TEST(HostDevice, GivesFreedMemoryAndReleasedAddressesBackToTheSystem) {
  HostDevice device(kPage);
  std::byte* const block = device.allocate(kMiB);
  EXPECT_TRUE(device.free(block));
  EXPECT_TRUE(nothing_at(block));
  std::byte* const range = device.reserve(2 * kPage);
  EXPECT_TRUE(device.release(range, 2 * kPage));
  EXPECT_TRUE(nothing_at(range));
}

class HostDeviceDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  /// Reads a byte in a way that the compiler cannot leave out.
  static void touch(const std::byte* at) { static_cast<void>(*static_cast<const volatile std::byte*>(at)); }
};

TEST_F(HostDeviceDeathTest, MemoryThatIsNotMappedCannotBeRead) {
  HostDevice device(kPage);
  std::byte* const range = device.reserve(2 * kPage);
  ASSERT_TRUE(device.map(range, kPage));
  touch(range);
  EXPECT_DEATH(touch(range + kPage), "");
  EXPECT_TRUE(device.unmap(range, kPage));
  EXPECT_DEATH(touch(range), "");
}

}  // namespace
}  // namespace stweaver
