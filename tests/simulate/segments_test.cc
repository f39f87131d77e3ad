// The caching allocator on memory: the same decisions as on numbers, and a device that refuses.
#include "simulate/segments.h"

#include <deque>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/failing_device.h"
#include "device/host_device.h"
#include "simulate/caching_allocator.h"
#include "support/errors.h"
#include "support/streams.h"

namespace stweaver {
namespace {

using ::testing::HasSubstr;

Bytes used(const Device& device) {
  return device.memory().total - device.memory().free;
}

// ---- on memory as on numbers ----

/// Host memory that remembers where it put what.
class TellingDevice : public HostDevice {
 public:
  using HostDevice::HostDevice;

  std::byte* allocate(Bytes size) override {
    std::byte* memory = HostDevice::allocate(size);
    if (memory != nullptr) placed.push_back(std::bit_cast<Address>(memory));
    return memory;
  }

  std::deque<Address> placed;
};

class OnMemory : public ::testing::TestWithParam<std::string> {};

TEST_P(OnMemory, DecidesAsOnNumbers) {
  const AllocatorSettings settings = parse_settings(GetParam());
  TellingDevice device(2 * kGiB);
  CachingAllocator real(settings, device);
  CachingAllocator simulated(settings, 2 * kGiB, [&](Bytes) {
    const Address address = device.placed.front();  // the real one has just been asked the same
    device.placed.pop_front();
    return address;
  });
  struct Pair {
    Address real = 0;
    Address simulated = 0;
  };
  std::vector<Pair> live;
  std::mt19937_64 random(GetParam().size());
  const auto up_to = [&](std::uint64_t limit) { return random() % limit; };
  for (int call = 0; call < 20000; ++call) {
    SCOPED_TRACE(call);
    const std::uint64_t kind = up_to(1000);
    if (kind == 0) {
      real.empty_cache();
      simulated.empty_cache();
    } else if (kind < 480 && !live.empty()) {
      std::swap(live[up_to(live.size())], live.back());
      real.free(live.back().real);
      simulated.free(live.back().simulated);
      live.pop_back();
    } else {
      const auto size = static_cast<Bytes>(1 + up_to(std::uint64_t{1} << (1 + up_to(27))));
      const Stream stream = up_to(3);
      const std::optional<Address> block = real.allocate(size, stream);
      const std::optional<Address> same = simulated.allocate(size, stream);
      ASSERT_EQ(block.has_value(), same.has_value());
      if (block) live.push_back({*block, *same});
    }
    ASSERT_EQ(real.statistics().reserved, simulated.statistics().reserved);
    ASSERT_EQ(real.statistics().reserved, used(device));
  }
  EXPECT_GT(real.statistics().ooms, 0);
  EXPECT_EQ(real.statistics().ooms, simulated.statistics().ooms);
  EXPECT_EQ(real.statistics().retries, simulated.statistics().retries);
  EXPECT_EQ(real.statistics().segments, simulated.statistics().segments);
  EXPECT_EQ(real.statistics().allocated, simulated.statistics().allocated);
  EXPECT_EQ(real.statistics().reserved_peak, simulated.statistics().reserved_peak);
}

TEST_P(OnMemory, GivesEverythingBackAtItsEnd) {
  HostDevice host(kGiB);
  FailingDevice device(host);  // counts
  {
    CachingAllocator allocator(parse_settings(GetParam()), device);
    for (const Stream stream : {1U, 2U}) {
      EXPECT_TRUE(allocator.allocate(100, stream));
      allocator.free(allocator.allocate(30 * kMiB, stream).value());
      EXPECT_TRUE(allocator.allocate(5 * kMiB, stream));
    }
    EXPECT_EQ(used(host), allocator.statistics().reserved);
  }
  EXPECT_EQ(used(host), 0);
  EXPECT_EQ(device.calls(DeviceCall::kRelease), device.calls(DeviceCall::kReserve));
  EXPECT_EQ(device.failure(), "");
}

TEST_P(OnMemory, IsOutOfMemoryWhenTheDeviceIs) {
  HostDevice device(200 * kMiB);
  CachingAllocator allocator(parse_settings(GetParam()), device);
  std::byte* others = device.allocate(100 * kMiB);
  EXPECT_FALSE(allocator.allocate(120 * kMiB, 0));
  EXPECT_EQ(allocator.statistics().ooms, 1);
  EXPECT_TRUE(device.free(others));
  EXPECT_TRUE(allocator.allocate(120 * kMiB, 0));
}

TEST_P(OnMemory, FlushesItsCacheWhenTheDeviceIsOutOfMemory) {
  HostDevice device(200 * kMiB);
  CachingAllocator allocator(parse_settings(GetParam()), device);
  allocator.free(allocator.allocate(80 * kMiB, 1).value());
  ASSERT_NE(device.allocate(60 * kMiB), nullptr);
  EXPECT_TRUE(allocator.allocate(100 * kMiB, 2));
  EXPECT_EQ(allocator.statistics().retries, 1);
  EXPECT_EQ(allocator.statistics().reserved, used(device) - 60 * kMiB);
}

INSTANTIATE_TEST_SUITE_P(Settings, OnMemory,
                         ::testing::Values("", "max_split_size_mb:32",
                                           "garbage_collection_threshold:0.5,per_process_memory_fraction:0.8",
                                           "expandable_segments:True",
                                           "expandable_segments:True,large_segment_size_mb:14"),
                         [](const auto& settings) { return text("Case", settings.index); });

// ---- a device that refuses ----

class Refusing : public ::testing::Test {
 protected:
  HostDevice host_{kGiB};
  FailingDevice device_{host_};
};

TEST_F(Refusing, ToTakeASegmentLeavesItInTheCache) {
  CachingAllocator allocator({}, device_);
  const Address block = allocator.allocate(30 * kMiB, 0).value();
  allocator.free(block);
  device_.fail_every(DeviceCall::kFree);
  allocator.empty_cache();
  EXPECT_EQ(allocator.statistics().reserved, 30 * kMiB);
  EXPECT_EQ(allocator.statistics().segments, 1);
  EXPECT_EQ(allocator.allocate(30 * kMiB, 0), block);
  allocator.free(block);
  device_.heal();
  allocator.empty_cache();
  EXPECT_EQ(allocator.statistics().reserved, 0);
  EXPECT_EQ(used(host_), 0);
}

TEST_F(Refusing, ToWaitLeavesSegmentsAndPagesWhereTheyAre) {
  for (const AllocatorSettings& settings : {AllocatorSettings{}, expandable()}) {
    CachingAllocator allocator(settings, device_);
    allocator.free(allocator.allocate(40 * kMiB, 0).value());
    device_.fail_every(DeviceCall::kSynchronize);
    allocator.empty_cache();
    EXPECT_EQ(allocator.statistics().reserved, 40 * kMiB);
    EXPECT_TRUE(allocator.allocate(40 * kMiB, 0));
    EXPECT_EQ(used(host_), 40 * kMiB);
    device_.heal();
  }
}

TEST_F(Refusing, APageGivesBackThoseBeforeIt) {
  CachingAllocator allocator(expandable(), device_);
  device_.fail_nth(DeviceCall::kMap, 2);
  const Address block = allocator.allocate(60 * kMiB, 0).value();  // with the second attempt
  EXPECT_EQ(allocator.statistics().retries, 1);
  EXPECT_EQ(allocator.statistics().reserved, 60 * kMiB);
  allocator.free(block);
  allocator.empty_cache();
  device_.fail_every(DeviceCall::kMap);
  EXPECT_FALSE(allocator.allocate(60 * kMiB, 0));
  EXPECT_EQ(allocator.statistics().reserved, 0);
  EXPECT_EQ(used(host_), 0);
}

TEST_F(Refusing, AddressesIsOutOfMemory) {
  CachingAllocator allocator(expandable(), device_);
  device_.fail_every(DeviceCall::kReserve);
  EXPECT_FALSE(allocator.allocate(kMiB, 0));
  device_.heal();
  EXPECT_TRUE(allocator.allocate(kMiB, 0));
}

TEST_F(Refusing, ToTakeAPageLeavesItHeldUntilItIsMappedAgain) {
  CachingAllocator allocator(expandable(), device_);
  const Address kept = allocator.allocate(20 * kMiB, 0).value();
  const Address freed = allocator.allocate(40 * kMiB, 0).value();
  allocator.free(freed);
  device_.fail_nth(DeviceCall::kUnmap, 1);
  allocator.empty_cache();
  EXPECT_EQ(allocator.statistics().reserved, 40 * kMiB);
  EXPECT_EQ(used(host_), 40 * kMiB);
  EXPECT_EQ(allocator.allocate(40 * kMiB, 0), freed);
  EXPECT_EQ(allocator.statistics().reserved, 60 * kMiB);
  EXPECT_EQ(used(host_), 60 * kMiB);
  allocator.free(kept);
  allocator.free(freed);
  allocator.empty_cache();
  EXPECT_EQ(used(host_), 0);
}

TEST_F(Refusing, ToTakeTheLastPageLeavesTheAddressesReserved) {
  {
    CachingAllocator allocator(expandable(), device_);
    allocator.free(allocator.allocate(40 * kMiB, 0).value());
    device_.fail_every(DeviceCall::kUnmap);
    allocator.empty_cache();
    EXPECT_EQ(allocator.statistics().reserved, 40 * kMiB);
    EXPECT_EQ(device_.calls(DeviceCall::kRelease), 0);
    EXPECT_TRUE(allocator.allocate(40 * kMiB, 0));  // with those pages
    EXPECT_EQ(used(host_), 40 * kMiB);
    device_.heal();
  }
  EXPECT_EQ(used(host_), 0);
  EXPECT_EQ(device_.calls(DeviceCall::kRelease), device_.calls(DeviceCall::kReserve));
}

// ---- a device that cannot ----

TEST(DeviceSegments, NeedPagesThatTheDeviceCanMap) {
  HostDevice device(kGiB);  // pages of 2 MiB
  const AllocatorSettings odd = parse_settings("expandable_segments:True,large_segment_size_mb:15");
  EXPECT_THAT(refusal([&] { CachingAllocator(odd, device); }), HasSubstr("multiples of 2097152"));
}

TEST(DeviceSegments, NeedMemory) {
  HostDevice device(0);
  EXPECT_THAT(refusal([&] { CachingAllocator({}, device); }), HasSubstr("'host' has no memory"));
}

}  // namespace
}  // namespace stweaver
