#include "runtime/arena.h"

#include <cstddef>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "device/device.h"

namespace stweaver {
namespace {

constexpr Bytes kPage = 2 * kMiB;
constexpr Bytes kExtent = 256 * kMiB;
const auto kAnybody = [](const LastUse&) { return true; };

Bytes used(const Device& device) {
  return device.memory().total - device.memory().free;
}

std::byte* at(const Arena& arena, Bytes offset) {
  return reinterpret_cast<std::byte*>(arena.address_of(offset));  // NOLINT(performance-no-int-to-ptr)
}

TEST(Arena, HoldsNothingAtFirst) {
  HostDevice device(kGiB);
  const Arena arena(device);
  EXPECT_EQ(arena.mapped(), 0);
  EXPECT_EQ(arena.free_space.idle(), 0);
  EXPECT_FALSE(arena.contains(0));
  EXPECT_FALSE(arena.contains(~std::uintptr_t{0}));
  EXPECT_EQ(used(device), 0);
}

TEST(Arena, MapsWholePagesAndAllOfItIsIdle) {
  HostDevice device(kGiB);
  Arena arena(device);
  ASSERT_TRUE(arena.map({kPage / 2, 3 * kPage + 1}));
  EXPECT_EQ(arena.mapped(), 4 * kPage);
  EXPECT_EQ(arena.free_space.idle(), 4 * kPage);
  EXPECT_TRUE(arena.free_space.is_idle(0, 4 * kPage));
  EXPECT_EQ(used(device), 4 * kPage);
  *at(arena, 0) = std::byte{1};
  *at(arena, 4 * kPage - 1) = std::byte{2};
  EXPECT_EQ(*at(arena, 0), std::byte{1});
}

TEST(Arena, MapsNothingForARangeOfNoBytes) {
  HostDevice device(kGiB);
  Arena arena(device);
  EXPECT_TRUE(arena.map({}));
  EXPECT_TRUE(arena.map({kPage, kPage}));
  EXPECT_EQ(arena.mapped(), 0);
}

TEST(Arena, MapsOnlyWhatIsMissing) {
  HostDevice device(kGiB);
  Arena arena(device);
  ASSERT_TRUE(arena.map({2 * kPage, 4 * kPage}));
  ASSERT_TRUE(arena.map({6 * kPage, 8 * kPage}));
  arena.free_space.take(3 * kPage, kPage);  // somebody moves in
  *at(arena, 3 * kPage) = std::byte{9};
  ASSERT_TRUE(arena.map({0, 10 * kPage}));
  EXPECT_EQ(arena.mapped(), 10 * kPage);
  EXPECT_EQ(arena.free_space.idle(), 9 * kPage);
  EXPECT_FALSE(arena.free_space.is_idle(3 * kPage, kPage));
  EXPECT_EQ(*at(arena, 3 * kPage), std::byte{9}) << "stayed where it was";
  ASSERT_TRUE(arena.map({0, 10 * kPage}));
  EXPECT_EQ(used(device), 10 * kPage);
}

TEST(Arena, ChangesNothingWhenTheDeviceHasNotEnough) {
  HostDevice device(3 * kExtent);
  Arena arena(device);
  ASSERT_TRUE(arena.map({kExtent, kExtent + 4 * kPage}));
  arena.free_space.take(kExtent, kPage);
  EXPECT_FALSE(arena.map({0, 4 * kExtent}));
  EXPECT_EQ(arena.mapped(), 4 * kPage);
  EXPECT_EQ(arena.free_space.idle(), 3 * kPage);
  EXPECT_EQ(used(device), 4 * kPage);
  EXPECT_TRUE(arena.map({0, 3 * kExtent})) << "all there is";
  EXPECT_EQ(used(device), 3 * kExtent);
}

TEST(Arena, ChangesNothingWhicheverCallFails) {
  for (int call = 1; call <= 4; ++call) {
    HostDevice host(8 * kExtent);
    FailingDevice device(host);
    Arena arena(device);
    device.fail_nth(DeviceCall::kMap, call);
    EXPECT_FALSE(arena.map({0, 4 * kExtent}));
    EXPECT_EQ(arena.mapped(), 0);
    EXPECT_EQ(arena.free_space.idle(), 0);
    EXPECT_EQ(used(host), 0);
    EXPECT_TRUE(arena.map({0, 4 * kExtent}));
  }
}

TEST(Arena, DoesWithoutAddressesUntilThereAreSome) {
  HostDevice host(kGiB);
  FailingDevice device(host);
  Arena arena(device);
  device.fail_nth(DeviceCall::kReserve, 1);
  EXPECT_FALSE(arena.map({0, kPage}));
  EXPECT_EQ(arena.mapped(), 0);
  EXPECT_TRUE(arena.map({0, kPage}));
}

TEST(Arena, RefusesRangesBeyondItsAddresses) {
  HostDevice device(kGiB);
  Arena arena(device);
  EXPECT_FALSE(arena.map({100 * kGiB, 100 * kGiB + kPage}));
  EXPECT_EQ(arena.mapped(), 0);
  EXPECT_TRUE(arena.map({2 * kGiB, 2 * kGiB + kPage})) << "far more addresses than memory";
}

TEST(Arena, GivesBackIdleExtentsAndKeepsTheOthers) {
  HostDevice device(8 * kExtent);
  Arena arena(device);
  ASSERT_TRUE(arena.map({0, 4 * kExtent}));
  arena.free_space.take(kExtent + 512, 512);  // lives in the second
  arena.unmap_idle({3 * kExtent, 3 * kExtent + 1});
  EXPECT_EQ(arena.mapped(), 2 * kExtent);
  EXPECT_EQ(used(device), 2 * kExtent);
  EXPECT_EQ(arena.free_space.idle(), 2 * kExtent - 512);
  EXPECT_FALSE(arena.free_space.is_idle(0, 512));
  EXPECT_TRUE(arena.free_space.is_idle(3 * kExtent, kExtent));
  arena.free_space.give(kExtent + 512, 512, {0, 1});
  arena.unmap_idle({});
  EXPECT_EQ(arena.mapped(), 0);
  EXPECT_EQ(used(device), 0);
}

TEST(Arena, WaitsForAllWorkBeforeItGivesBack) {
  HostDevice host(8 * kExtent);
  FailingDevice device(host);
  Arena arena(device);
  ASSERT_TRUE(arena.map({0, 2 * kExtent}));
  device.fail_every(DeviceCall::kSynchronize);
  arena.unmap_idle({});
  EXPECT_EQ(arena.mapped(), 2 * kExtent) << "work may still use it";
  device.heal();
  arena.unmap_idle({});
  EXPECT_EQ(arena.mapped(), 0);
  EXPECT_EQ(device.calls(DeviceCall::kSynchronize), 2);
}

TEST(Arena, CountsWhatTheDeviceDidForIt) {
  HostDevice device(8 * kExtent);
  Arena arena(device);
  ASSERT_TRUE(arena.map({0, 3 * kExtent}));
  arena.free_space.take(0, 512);
  arena.unmap_idle({});
  EXPECT_EQ(arena.mapping().maps, 3);
  EXPECT_EQ(arena.mapping().unmaps, 2);
  EXPECT_EQ(arena.mapping().idle_waits, 1);
  EXPECT_GT(arena.mapping().nanoseconds, 0);
}

TEST(Arena, MapsInPiecesOfTheSizeAskedFor) {
  HostDevice host(kGiB);
  FailingDevice device(host);
  Arena arena(device);
  ASSERT_TRUE(arena.map({0, 5 * kPage}, 2 * kPage));
  EXPECT_EQ(device.calls(DeviceCall::kMap), 3);
  arena.free_space.take(0, 512);
  arena.free_space.take(4 * kPage, 512);
  arena.unmap_idle({});
  EXPECT_EQ(arena.mapped(), 3 * kPage);
  EXPECT_TRUE(arena.map({0, 5 * kPage}, 2 * kPage)) << "only what is missing";
  EXPECT_EQ(device.calls(DeviceCall::kMap), 4);
}

TEST(Arena, GivesBackNoMoreThanIsEnough) {
  HostDevice device(kGiB);
  Arena arena(device);
  ASSERT_TRUE(arena.map({0, 8 * kPage}, kPage));
  arena.unmap_idle({}, 2 * kPage);
  EXPECT_EQ(arena.mapped(), 6 * kPage);
  arena.unmap_idle({}, kPage + 1);
  EXPECT_EQ(arena.mapped(), 4 * kPage) << "in whole extents";
  EXPECT_EQ(used(device), 4 * kPage);
}

TEST(Arena, KnowsWhereItsMemoryEndsBelowALimit) {
  HostDevice device(kGiB);
  Arena arena(device);
  EXPECT_EQ(arena.mapped_end(kGiB), 0);
  ASSERT_TRUE(arena.map({kPage, 3 * kPage}));
  ASSERT_TRUE(arena.map({6 * kPage, 8 * kPage}));
  EXPECT_EQ(arena.mapped_end(kPage), 0);
  EXPECT_EQ(arena.mapped_end(6 * kPage), 3 * kPage);
  EXPECT_EQ(arena.mapped_end(kGiB), 8 * kPage);
}

TEST(Arena, KnowsHowMuchOfARangeHasNoMemory) {
  HostDevice device(kGiB);
  Arena arena(device);
  EXPECT_EQ(arena.missing({0, 5 * kPage}), 5 * kPage);
  ASSERT_TRUE(arena.map({kPage, 3 * kPage}));
  ASSERT_TRUE(arena.map({6 * kPage, 8 * kPage}));
  EXPECT_EQ(arena.missing({0, 9 * kPage}), 5 * kPage);
  EXPECT_EQ(arena.missing({2 * kPage, 7 * kPage}), 3 * kPage);
  EXPECT_EQ(arena.missing({kPage + 512, 3 * kPage}), 0);
  EXPECT_EQ(arena.missing({}), 0);
}

TEST(Arena, AsksOnceWhetherTheDeviceIsStill) {
  HostDevice host(kGiB);
  FailingDevice device(host);
  Arena arena(device);
  ASSERT_TRUE(arena.map({0, 4 * kPage}, kPage));
  device.fail_every(DeviceCall::kSynchronize);
  arena.unmap_idle({});
  EXPECT_EQ(arena.mapped(), 4 * kPage);
  EXPECT_EQ(device.calls(DeviceCall::kSynchronize), 1);
}

TEST(Arena, KeepsWhatTheDeviceDoesNotTakeBack) {
  HostDevice host(8 * kExtent);
  FailingDevice device(host);
  Arena arena(device);
  ASSERT_TRUE(arena.map({0, 2 * kExtent}));
  device.fail_nth(DeviceCall::kUnmap, 1);
  arena.unmap_idle({});
  EXPECT_EQ(arena.mapped(), kExtent);
  EXPECT_EQ(arena.free_space.idle(), kExtent);
  EXPECT_EQ(used(host), kExtent);
}

TEST(Arena, GivesAllBackAtItsEnd) {
  HostDevice device(kGiB);
  {
    Arena arena(device);
    ASSERT_TRUE(arena.map({0, 5 * kPage}));
    ASSERT_TRUE(arena.map({kGiB, kGiB + kPage}));
    ASSERT_TRUE(arena.free_space.take_if(0, kPage, kAnybody));
  }
  EXPECT_EQ(used(device), 0);
}

TEST(Arena, NeverHoldsMoreThanTheDeviceHas) {
  constexpr Bytes kCapacity = 20 * kPage;
  for (unsigned seed = 0; seed < 5; ++seed) {
    std::mt19937 random(seed);
    const auto any = [&](Bytes most) { return std::uniform_int_distribution<Bytes>(0, most)(random); };
    HostDevice device(kCapacity);
    Arena arena(device);
    std::vector<Interval> tenants;
    Bytes living = 0;
    for (int i = 0; i < 2000; ++i) {
      const Bytes lower = any(60 * kPage);
      const Interval range = {lower, lower + any(12 * kPage)};
      const Bytes before = arena.mapped();
      if (any(2) == 0) {
        if (!arena.map(range)) {
          ASSERT_EQ(arena.mapped(), before);
        } else if (!range.empty() && arena.free_space.take_if(range.lower, range.length(), kAnybody)) {
          tenants.push_back(range);
          living += range.length();
        }
      } else if (any(1) == 0) {
        arena.unmap_idle(range);
      } else if (!tenants.empty()) {
        arena.free_space.give(tenants.back().lower, tenants.back().length(), {0, 1});
        living -= tenants.back().length();
        tenants.pop_back();
      }
      ASSERT_LE(arena.mapped(), kCapacity);
      ASSERT_EQ(arena.mapped(), used(device));
      ASSERT_EQ(arena.free_space.idle(), arena.mapped() - living);
    }
  }
}

TEST(Arena, SmallExtentsAreWholePagesAndSomeThousandForWhateverIsHeld) {
  HostDevice device(kGiB);
  const Arena arena(device);
  EXPECT_EQ(arena.small_extent(0), kPage);
  EXPECT_EQ(arena.small_extent(kGiB), kPage);
  EXPECT_EQ(arena.small_extent(10 * kGiB), 4 * kMiB) << "a 2048th would be 5 MiB";
  EXPECT_EQ(arena.small_extent(32 * kGiB), 16 * kMiB);
  EXPECT_EQ(arena.small_extent(140 * kGiB), 24 * kMiB);
}

}  // namespace
}  // namespace stweaver
