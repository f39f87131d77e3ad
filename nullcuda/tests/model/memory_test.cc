#include "model/memory.h"

#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/helpers.h"

namespace nullcuda {
namespace {

/// Memory as its users see it: what must succeed, does.
class MemoryTest : public testing::Test {
 protected:
  explicit MemoryTest(Settings settings = small_gpu()) : settings_(std::move(settings)), memory_(settings_) {}

  Memory& memory() { return memory_; }
  std::uint64_t allocate(std::uint64_t size, int device = 0) {
    std::uint64_t address = 0;
    EXPECT_EQ(memory_.allocate(device, size, address), Outcome::kOk) << size;
    return address;
  }
  Outcome try_to_allocate(std::uint64_t size) {
    std::uint64_t address = 0;
    return memory_.allocate(0, size, address);
  }
  std::uint64_t reserve(std::uint64_t size, std::uint64_t alignment = 0, std::uint64_t wish = 0) {
    std::uint64_t address = 0;
    EXPECT_EQ(memory_.reserve(size, alignment, wish, address), Outcome::kOk) << size;
    return address;
  }
  Outcome try_to_reserve(std::uint64_t size, std::uint64_t alignment = 0) {
    std::uint64_t address = 0;
    return memory_.reserve(size, alignment, 0, address);
  }
  Chunk* create(std::uint64_t size) {
    Chunk* handle = nullptr;
    EXPECT_EQ(memory_.create(0, size, false, handle), Outcome::kOk) << size;
    return handle;
  }
  Outcome try_to_create(std::uint64_t size) {
    Chunk* handle = nullptr;
    return memory_.create(0, size, false, handle);
  }
  /// What is in use besides the context.
  std::uint64_t used() { return memory_.used(0) - settings_.context; }

 private:
  Settings settings_;
  Memory memory_;
};

/// Its bytes exist.
class PhysicalMemoryTest : public MemoryTest {
 protected:
  PhysicalMemoryTest() : MemoryTest(checking()) {}

  std::uint64_t mapped(Chunk* handle) {
    const std::uint64_t address = reserve(handle->size);
    EXPECT_EQ(memory().map(address, handle->size, 0, handle), Outcome::kOk);
    EXPECT_EQ(memory().set_access(address, handle->size, 0, true), Outcome::kOk);
    return address;
  }
  static void write(std::uint64_t address, int value) {
    std::memcpy(std::bit_cast<void*>(address), &value, sizeof value);
  }
  static int read(std::uint64_t address) {
    int value = 0;
    std::memcpy(&value, std::bit_cast<const void*>(address), sizeof value);
    return value;
  }
};

// ---- cudaMalloc ----

TEST_F(MemoryTest, IsInUseInPages) {
  allocate(kPage + 1);
  EXPECT_EQ(used(), 2 * kPage);
  allocate(kPage);
  EXPECT_EQ(used(), 3 * kPage);
  allocate(kMiB + 1);
  EXPECT_EQ(used(), 4 * kPage);
}

TEST_F(MemoryTest, IsInUseByTheContextOnceTheDeviceIs) {
  EXPECT_EQ(memory().used(0), 0U);
  memory().touch(0);
  EXPECT_EQ(memory().used(0), 4 * kMiB);
  EXPECT_EQ(memory().used(1), 0U);
}

TEST_F(MemoryTest, LetsSmallAllocationsShareAPage) {
  const std::uint64_t first = allocate(1);
  EXPECT_EQ(allocate(513), first + 512);
  EXPECT_EQ(allocate(512), first + 1536);
  EXPECT_EQ(used(), kPage);
  EXPECT_EQ(allocate(kMiB), first + 2048);
  EXPECT_NE(allocate(kMiB) / kPage, first / kPage);
  EXPECT_EQ(used(), 2 * kPage);
}

TEST_F(MemoryTest, FillsTheGapThatASmallAllocationLeft) {
  const std::uint64_t first = allocate(1024);
  const std::uint64_t second = allocate(512);
  allocate(512);
  EXPECT_EQ(memory().free(second), Outcome::kOk);
  EXPECT_EQ(allocate(1024), first + 2048);
  EXPECT_EQ(allocate(1), second);
}

TEST_F(MemoryTest, GivesAPageBackWhenNothingOfItIsInUse) {
  const std::uint64_t first = allocate(1);
  const std::uint64_t second = allocate(1);
  EXPECT_EQ(memory().free(first), Outcome::kOk);
  EXPECT_EQ(used(), kPage);
  EXPECT_EQ(memory().free(second), Outcome::kOk);
  EXPECT_EQ(used(), 0U);
}

TEST_F(MemoryTest, RunsOutExactlyAtItsSize) {
  const std::uint64_t all = 60 * kMiB;
  EXPECT_EQ(try_to_allocate(all + 1), Outcome::kOutOfMemory);
  const std::uint64_t whole = allocate(all);
  EXPECT_EQ(try_to_allocate(1), Outcome::kOutOfMemory);
  EXPECT_EQ(try_to_create(kPage), Outcome::kOutOfMemory);
  EXPECT_EQ(memory().free(whole), Outcome::kOk);
  std::vector<std::uint64_t> pages;
  for (std::uint64_t taken = 0; taken < all; taken += kPage) pages.push_back(allocate(kPage));
  EXPECT_EQ(try_to_allocate(1), Outcome::kOutOfMemory);
  EXPECT_EQ(memory().free(pages[7]), Outcome::kOk);
  allocate(kPage);
  EXPECT_EQ(memory().peak(0), 64 * kMiB);
}

TEST_F(MemoryTest, RunsOutAtSizesThatNoGpuHas) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t size : {kMost, kMost - kPage, kMost / 2, 64 * kMiB + 1})
    EXPECT_EQ(try_to_allocate(size), Outcome::kOutOfMemory) << size;
  for (const std::uint64_t size : {kMost - kPage + 1, std::uint64_t{1} << 60, std::uint64_t{kSpace}})
    EXPECT_EQ(try_to_reserve(size), Outcome::kOutOfMemory) << size;
  EXPECT_EQ(try_to_create(kMost - kPage + 1), Outcome::kOutOfMemory);
  EXPECT_EQ(used(), 0U);
}

TEST_F(MemoryTest, ComesBackAlthoughSomebodyStillLooksAtIt) {
  const std::uint64_t big = allocate(kPage);
  const std::uint64_t small = allocate(1);
  const auto seen_big = memory().find(big);
  const auto seen_small = memory().find(small);
  EXPECT_EQ(memory().free(big), Outcome::kOk);
  EXPECT_EQ(memory().free(small), Outcome::kOk);
  EXPECT_EQ(used(), 0U);
}

TEST_F(MemoryTest, IsFreedOnceAndAsItWasMade) {
  const std::uint64_t address = allocate(2 * kPage);
  EXPECT_EQ(memory().free(address + kPage), Outcome::kInvalid);
  EXPECT_EQ(memory().free(0x1000), Outcome::kInvalid);
  EXPECT_EQ(memory().free(address), Outcome::kOk);
  EXPECT_EQ(memory().free(address), Outcome::kInvalid);
}

TEST_F(MemoryTest, OfADeviceIsItsOwn) {
  const std::uint64_t here = allocate(kPage, 0);
  const std::uint64_t there = allocate(60 * kMiB, 3);
  EXPECT_EQ(memory().find(here)->chunk->device, 0);
  EXPECT_EQ(memory().find(there)->chunk->device, 3);
  EXPECT_EQ(used(), kPage);
  EXPECT_EQ(memory().used(3), 64 * kMiB);
}

TEST_F(MemoryTest, TellsWhatHoldsAnAddress) {
  const std::uint64_t address = allocate(2 * kPage);
  const auto found = memory().find(address + kPage + 5);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->begin, address);
  EXPECT_EQ(found->size, 2 * kPage);
  EXPECT_EQ(memory().find(address + 2 * kPage), nullptr);
  EXPECT_EQ(memory().find(address - 1), nullptr);
}

TEST_F(MemoryTest, IsUsableWhereAllOfItIs) {
  const std::uint64_t address = allocate(kPage);
  EXPECT_TRUE(memory().usable(address, kPage));
  EXPECT_TRUE(memory().usable(address + 5, kPage - 5));
  EXPECT_FALSE(memory().usable(address, kPage + 1));
  EXPECT_FALSE(memory().usable(address - 1, 2));
  EXPECT_FALSE(memory().usable(address, std::numeric_limits<std::uint64_t>::max()));
}

// ---- addresses ----

TEST_F(MemoryTest, AddressesGoDownAndThoseThatWereGivenBackComeFirst) {
  const std::uint64_t first = allocate(4 * kPage);
  const std::uint64_t second = allocate(kPage);
  EXPECT_EQ(second, first - kPage);
  EXPECT_EQ(memory().free(first), Outcome::kOk);
  EXPECT_EQ(allocate(kPage), first + 3 * kPage);
  EXPECT_EQ(allocate(4 * kPage), second - 4 * kPage);
}

TEST_F(MemoryTest, AddressesNeverOverlap) {
  std::uint64_t below = kFirstAddress + kSpace;
  for (const std::uint64_t size : {kPage, kMiB, 3 * kPage, kPage + 1}) {
    const std::uint64_t address = allocate(size);
    EXPECT_LE(address + size, below);
    below = address;
  }
}

TEST_F(MemoryTest, AddressesAreFoundFastAmongMany) {
  std::vector<std::uint64_t> ranges;
  constexpr std::uint64_t kRanges = 100000;
  for (std::uint64_t made = 0; made < kRanges; ++made) ranges.push_back(reserve(2 * kPage));
  for (std::size_t place = 0; place < ranges.size(); place += 2) memory().unreserve(ranges[place], 2 * kPage);
  reserve(kSpace - kRanges * 2 * kPage - kPage);  // all that is left below: the next ones go into the gaps
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t made = 0; made < kRanges / 2; ++made) reserve(2 * kPage);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(try_to_reserve(2 * kPage), Outcome::kOutOfMemory);
}

TEST_F(MemoryTest, AddressesAreWhereTheyAreWishedIfThatIsFree) {
  const std::uint64_t wish = kFirstAddress + kSpace / 2;
  EXPECT_EQ(reserve(4 * kPage, 0, wish), wish);
  EXPECT_NE(reserve(4 * kPage, 0, wish + kPage), wish + kPage);
  EXPECT_NE(reserve(kPage, 0, wish + 5 * kPage + 4096), wish + 5 * kPage + 4096);
  EXPECT_TRUE(is_device(reserve(kPage, 0, 0x7000)));
}

TEST_F(MemoryTest, AddressesSufficeForManySegmentsThatCanGrow) {
  constexpr std::uint64_t kSegment = 192ULL << 30;  // nine eighths of what an H200 has, as PyTorch reserves
  for (int streams = 0; streams < 100; ++streams) {
    reserve(kSegment);  // for small blocks
    reserve(kSegment);  // for large ones
  }
}

TEST_F(MemoryTest, AddressesAreAligned) {
  constexpr std::uint64_t kAlignment = 1ULL << 30;
  EXPECT_EQ(reserve(kPage, kAlignment) % kAlignment, 0U);
  EXPECT_EQ(reserve(kPage, 4096) % kPage, 0U);
}

TEST_F(MemoryTest, AddressesAreReservedInPages) {
  EXPECT_EQ(try_to_reserve(0), Outcome::kInvalid);
  EXPECT_EQ(try_to_reserve(kPage + 1), Outcome::kInvalid);
  EXPECT_EQ(try_to_reserve(65536), Outcome::kInvalid);
  EXPECT_EQ(try_to_reserve(kPage, 3), Outcome::kInvalid);
}

TEST_F(MemoryTest, AddressesGoBackAsTheyWereReserved) {
  const std::uint64_t range = reserve(4 * kPage);
  EXPECT_EQ(memory().unreserve(range, 2 * kPage), Outcome::kInvalid);
  EXPECT_EQ(memory().unreserve(range + kPage, kPage), Outcome::kInvalid);
  EXPECT_EQ(memory().unreserve(0x1000, kPage), Outcome::kInvalid);
  EXPECT_EQ(memory().unreserve(range, 4 * kPage), Outcome::kOk);
  EXPECT_EQ(memory().unreserve(range, 4 * kPage), Outcome::kInvalid);
}

// ---- cuMem...: what driver 580 answered on an H100 ----

TEST_F(MemoryTest, HandlesAreMadeInPages) {
  EXPECT_EQ(try_to_create(0), Outcome::kInvalid);
  EXPECT_EQ(try_to_create(kPage + 1), Outcome::kInvalid);
  create(2 * kPage);
  EXPECT_EQ(used(), 2 * kPage);
}

TEST_F(MemoryTest, HandlesOfHostMemoryTakeNothing) {
  Chunk* handle = nullptr;
  EXPECT_EQ(memory().create(0, 512 * kMiB, true, handle), Outcome::kOk);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(memory().release(handle), Outcome::kOk);
  EXPECT_EQ(used(), 0U);
}

TEST_F(MemoryTest, HandlesAreMappedWholeIntoReservedAddresses) {
  Chunk* handle = create(2 * kPage);
  const std::uint64_t range = reserve(4 * kPage);
  EXPECT_EQ(memory().map(range, kPage, 0, handle), Outcome::kUnsupported);
  EXPECT_EQ(memory().map(range, kPage, kPage, handle), Outcome::kUnsupported);
  EXPECT_EQ(memory().map(range, 4 * kPage, 0, handle), Outcome::kUnsupported);
  EXPECT_EQ(memory().map(range, 0, 0, handle), Outcome::kInvalid);
  EXPECT_EQ(memory().map(range + 4096, 2 * kPage, 0, handle), Outcome::kInvalid);
  EXPECT_EQ(memory().map(range - 2 * kPage, 2 * kPage, 0, handle), Outcome::kInvalid);
  EXPECT_EQ(memory().map(0x7000000000, 2 * kPage, 0, handle), Outcome::kInvalid);
  EXPECT_EQ(memory().map(range, 2 * kPage, 0, nullptr), Outcome::kInvalid);
  EXPECT_EQ(memory().map(range, 2 * kPage, 0, handle), Outcome::kOk);
}

TEST_F(MemoryTest, HandlesAreNotMappedOverOthersButManyTimes) {
  Chunk* handle = create(2 * kPage);
  Chunk* other = create(2 * kPage);
  const std::uint64_t range = reserve(8 * kPage);
  EXPECT_EQ(memory().map(range + kPage, 2 * kPage, 0, handle), Outcome::kOk);
  for (const std::uint64_t place : {range, range + kPage, range + 2 * kPage})
    EXPECT_EQ(memory().map(place, 2 * kPage, 0, other), Outcome::kInvalid);
  EXPECT_EQ(memory().map(range + 3 * kPage, 2 * kPage, 0, other), Outcome::kOk);
  EXPECT_EQ(memory().map(range + 5 * kPage, 2 * kPage, 0, handle), Outcome::kOk);
  EXPECT_EQ(used(), 4 * kPage);
}

TEST_F(MemoryTest, MappingsAreTakenAwayWholeAndHolesDoNotMatter) {
  const std::uint64_t range = reserve(8 * kPage);
  for (const std::uint64_t place : {range, range + 4 * kPage})
    memory().map(place, 2 * kPage, 0, create(2 * kPage));
  EXPECT_EQ(memory().unmap(range, kPage), Outcome::kInvalid);
  EXPECT_EQ(memory().unmap(range + kPage, kPage), Outcome::kInvalid);
  EXPECT_EQ(memory().unmap(range + kPage, 5 * kPage), Outcome::kInvalid);
  EXPECT_EQ(memory().unmap(range, 0), Outcome::kInvalid);
  EXPECT_EQ(memory().unmap(0x7000000000, 2 * kPage), Outcome::kInvalid);
  EXPECT_NE(memory().find(range), nullptr);
  EXPECT_EQ(memory().unmap(range, 8 * kPage), Outcome::kOk);
  EXPECT_EQ(memory().find(range), nullptr);
  EXPECT_EQ(memory().find(range + 4 * kPage), nullptr);
  EXPECT_EQ(memory().unmap(range, 8 * kPage), Outcome::kOk);
}

TEST_F(MemoryTest, MappingsAreUsableOnceAccessIsSet) {
  const std::uint64_t range = reserve(8 * kPage);
  memory().map(range, 2 * kPage, 0, create(2 * kPage));
  memory().map(range + 2 * kPage, 2 * kPage, 0, create(2 * kPage));
  EXPECT_FALSE(memory().usable(range, kPage));
  EXPECT_EQ(memory().set_access(range, kPage, 0, true), Outcome::kInvalid);
  EXPECT_EQ(memory().set_access(range, 6 * kPage, 0, true), Outcome::kInvalid);
  EXPECT_EQ(memory().set_access(range + kPage, 2 * kPage, 0, true), Outcome::kInvalid);
  EXPECT_EQ(memory().set_access(range, 0, 0, true), Outcome::kInvalid);
  EXPECT_EQ(memory().set_access(range + 6 * kPage, kPage, 0, true), Outcome::kInvalid);
  EXPECT_EQ(memory().set_access(range, 4 * kPage, 0, true), Outcome::kOk);
  EXPECT_TRUE(memory().usable(range + kPage, 2 * kPage));
  EXPECT_EQ(memory().set_access(range, 2 * kPage, 0, false), Outcome::kOk);
  EXPECT_FALSE(memory().usable(range + kPage, 2 * kPage));
}

TEST_F(MemoryTest, MappingsAreUsableAsLongAsADeviceMayUseThem) {
  const std::uint64_t range = reserve(kPage);
  memory().map(range, kPage, 0, create(kPage));
  EXPECT_EQ(memory().set_access(range, kPage, 1, true), Outcome::kOk);
  EXPECT_EQ(memory().set_access(range, kPage, 0, false), Outcome::kOk);
  EXPECT_TRUE(memory().usable(range, kPage));
  EXPECT_EQ(memory().find(range)->access, Devices(0b10));
}

TEST_F(MemoryTest, AddressesStayReservedWhileSomethingIsMapped) {
  const std::uint64_t range = reserve(4 * kPage);
  memory().map(range + 2 * kPage, kPage, 0, create(kPage));
  EXPECT_EQ(memory().unreserve(range, 4 * kPage), Outcome::kInvalid);
  EXPECT_EQ(memory().unmap(range + 2 * kPage, kPage), Outcome::kOk);
  EXPECT_EQ(memory().unreserve(range, 4 * kPage), Outcome::kOk);
}

TEST_F(MemoryTest, StaysInUseUntilItsHandleAndItsMappingsAreGone) {
  Chunk* handle = create(2 * kPage);
  const std::uint64_t range = reserve(4 * kPage);
  memory().map(range, 2 * kPage, 0, handle);
  memory().map(range + 2 * kPage, 2 * kPage, 0, handle);
  EXPECT_EQ(memory().release(handle), Outcome::kOk);
  EXPECT_EQ(used(), 2 * kPage);
  EXPECT_EQ(memory().unmap(range, 2 * kPage), Outcome::kOk);
  EXPECT_EQ(used(), 2 * kPage);
  EXPECT_EQ(memory().unmap(range + 2 * kPage, 2 * kPage), Outcome::kOk);
  EXPECT_EQ(used(), 0U);
}

TEST_F(MemoryTest, StaysInUseByAHandleAlone) {
  Chunk* handle = create(2 * kPage);
  const std::uint64_t range = reserve(2 * kPage);
  memory().map(range, 2 * kPage, 0, handle);
  EXPECT_EQ(memory().unmap(range, 2 * kPage), Outcome::kOk);
  EXPECT_EQ(used(), 2 * kPage);
  EXPECT_EQ(memory().release(handle), Outcome::kOk);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(memory().release(handle), Outcome::kInvalid);
  EXPECT_EQ(memory().map(range, 2 * kPage, 0, handle), Outcome::kInvalid);
}

TEST_F(MemoryTest, HandlesAreRetainedAsOftenAsTheyAreReleased) {
  Chunk* handle = create(2 * kPage);
  const std::uint64_t range = reserve(2 * kPage);
  memory().map(range, 2 * kPage, 0, handle);
  Chunk* again = nullptr;
  EXPECT_EQ(memory().retain(range + kPage, again), Outcome::kOk);
  EXPECT_EQ(again, handle);
  EXPECT_EQ(memory().release(handle), Outcome::kOk);
  EXPECT_EQ(memory().release(handle), Outcome::kOk);
  EXPECT_EQ(memory().release(handle), Outcome::kInvalid);
  EXPECT_EQ(memory().retain(range, again), Outcome::kOk);  // of the mapping alone
  EXPECT_EQ(memory().unmap(range, 2 * kPage), Outcome::kOk);
  EXPECT_EQ(used(), 2 * kPage);
  EXPECT_EQ(memory().release(again), Outcome::kOk);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(memory().retain(range, again), Outcome::kInvalid);
}

TEST_F(MemoryTest, AllocationsAreNoMappingsAndMappingsNoAllocations) {
  const std::uint64_t allocation = allocate(2 * kPage);
  Chunk* handle = nullptr;
  EXPECT_EQ(memory().retain(allocation, handle), Outcome::kInvalid);
  EXPECT_EQ(memory().unmap(allocation, 2 * kPage), Outcome::kInvalid);
  EXPECT_EQ(memory().set_access(allocation, 2 * kPage, 0, false), Outcome::kInvalid);
  EXPECT_EQ(memory().unreserve(allocation, 2 * kPage), Outcome::kInvalid);
  const std::uint64_t range = reserve(2 * kPage);
  memory().map(range, 2 * kPage, 0, create(2 * kPage));
  EXPECT_EQ(memory().free(range), Outcome::kInvalid);
}

// ---- bytes ----

TEST_F(PhysicalMemoryTest, CarriesItsBytesFromMappingToMapping) {
  Chunk* handle = create(2 * kPage);
  const std::uint64_t first = mapped(handle);
  write(first, 17);
  write(first + kPage, 18);
  const std::uint64_t second = mapped(handle);
  EXPECT_EQ(read(second), 17);
  EXPECT_EQ(memory().unmap(first, 2 * kPage), Outcome::kOk);
  EXPECT_EQ(read(second + kPage), 18);
}

TEST_F(PhysicalMemoryTest, AddressesGoDownAndAreNotUsedAgain) {
  std::uint64_t last = kFirstAddress + kSpace;
  for (int round = 0; round < 100; ++round) {
    const std::uint64_t address = allocate(kPage);
    EXPECT_EQ(address, last - kPage);
    last = address;
    EXPECT_EQ(memory().free(address), Outcome::kOk);
  }
}

TEST_F(PhysicalMemoryTest, AddressesAreUsedAgainOnceAllWere) {
  const std::uint64_t lasting = reserve(kSpace / 4);
  const std::uint64_t first = reserve(kSpace / 4);
  EXPECT_EQ(memory().unreserve(first, kSpace / 4), Outcome::kOk);
  const std::uint64_t second = reserve(kSpace / 4);
  EXPECT_EQ(second, first - kSpace / 4);
  EXPECT_EQ(reserve(kSpace / 8), second - kSpace / 8);
  EXPECT_EQ(reserve(kSpace / 4), lasting - kSpace / 4);  // not enough was left below
  EXPECT_EQ(reserve(kSpace / 16), second - kSpace / 8 - kSpace / 16);
}

TEST_F(PhysicalMemoryTest, IsZeroWhenItIsNew) {
  const std::uint64_t address = allocate(kPage);
  write(address, 17);
  EXPECT_EQ(memory().free(address), Outcome::kOk);
  EXPECT_EQ(read(allocate(kPage)), 0);
}

using PhysicalMemoryDeathTest = PhysicalMemoryTest;

TEST_F(PhysicalMemoryDeathTest, CannotBeTouchedWhereItIsNot) {
  const std::uint64_t address = allocate(kPage);
  EXPECT_EQ(memory().free(address), Outcome::kOk);
  EXPECT_DEATH(write(address, 17), "");
  Chunk* handle = create(kPage);
  const std::uint64_t range = mapped(handle);
  EXPECT_EQ(memory().set_access(range, kPage, 0, false), Outcome::kOk);
  EXPECT_DEATH(write(range, 17), "");
}

TEST_F(PhysicalMemoryTest, OfSmallAllocationsIsEachOnesOwn) {
  const std::uint64_t first = allocate(512);
  const std::uint64_t second = allocate(512);
  write(first, 1);
  write(second, 2);
  EXPECT_EQ(memory().free(first), Outcome::kOk);
  EXPECT_EQ(read(second), 2);
}

TEST_F(PhysicalMemoryTest, IsSharedWithItsBytesAndWhatIsWrittenLater) {
  Chunk* handle = create(3 * kPage);
  const std::uint64_t here = mapped(handle);
  write(here, 17);
  write(here + 2 * kPage + 4096, 18);
  const int file = memory().share(handle);
  EXPECT_EQ(read(here), 17);
  Chunk* other = nullptr;
  ASSERT_EQ(memory().adopt(0, dup(file), 3 * kPage, other), Outcome::kOk);
  EXPECT_EQ(used(), 3 * kPage);  // the other process's
  const std::uint64_t there = mapped(other);
  EXPECT_EQ(read(there), 17);
  EXPECT_EQ(read(there + kPage), 0);
  EXPECT_EQ(read(there + 2 * kPage + 4096), 18);
  write(there, 19);
  EXPECT_EQ(read(here), 19);
  EXPECT_EQ(memory().share(handle), file);
}

TEST_F(PhysicalMemoryTest, IsSharedThoughItIsAPartOfAPage) {
  allocate(512);
  const std::uint64_t here = allocate(512);
  write(here, 17);
  const auto mapping = memory().find(here);
  const int file = memory().share(mapping->chunk.get());
  EXPECT_EQ(read(here), 17);
  Chunk* other = nullptr;
  ASSERT_EQ(memory().adopt(0, dup(file), mapping->chunk->size, other), Outcome::kOk);
  std::uint64_t there = 0;
  ASSERT_EQ(memory().open(other, there), Outcome::kOk);
  EXPECT_EQ(memory().release(other), Outcome::kOk);
  EXPECT_EQ(read(there + mapping->offset), 17);
  EXPECT_EQ(memory().free(there), Outcome::kOk);
  EXPECT_EQ(read(here), 17);
}

TEST_F(MemoryTest, WithoutBytesIsSharedByItsSize) {
  const int file = memory().share(create(3 * kPage));
  EXPECT_EQ(lseek(file, 0, SEEK_END), 3 * kPage);
}

TEST(FlatMemory, IsThereEverywhereAndZeroAfterItWasFreed) {
  Settings settings = small_gpu();
  settings.values = true;
  Memory memory(settings);
  ASSERT_EQ(memory.backing(), Backing::kFlat);
  std::uint64_t address = 0;
  ASSERT_EQ(memory.allocate(0, kPage, address), Outcome::kOk);
  auto* bytes = std::bit_cast<volatile char*>(address);
  bytes[0] = 17;
  EXPECT_EQ(bytes[0], 17);
  ASSERT_EQ(memory.free(address), Outcome::kOk);
  EXPECT_EQ(bytes[0], 0);
}

}  // namespace
}  // namespace nullcuda
