#include "simulate/caching_allocator.h"

#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/streams.h"

namespace stweaver {
namespace {

TEST(CachingAllocator, PacksSmallRequestsIntoASegmentOfTwoMiB) {
  CachingAllocator allocator({});
  const Address first = allocator.allocate(100, kMain).value();
  EXPECT_EQ(allocator.allocate(1000, kMain), first + 512);
  EXPECT_EQ(allocator.allocate(kMiB, kMain), first + 512 + 1024);
  EXPECT_EQ(allocator.statistics().reserved, 2 * kMiB);
  EXPECT_EQ(allocator.statistics().segments, 1);
  EXPECT_EQ(allocator.statistics().allocated, kMiB + 1536);
  EXPECT_EQ(allocator.statistics().requested, kMiB + 1100);
}

TEST(CachingAllocator, GivesALargeRequestASegmentOfItsOwn) {
  CachingAllocator allocator({});
  allocator.allocate(10 * kMiB + 1, kMain);
  EXPECT_EQ(allocator.statistics().reserved, 12 * kMiB);
  allocator.allocate(3 * kMiB, kMain);
  EXPECT_EQ(allocator.statistics().reserved, 32 * kMiB);
}

TEST(CachingAllocator, LeavesARestOfUpToOneMiBWithALargeBlock) {
  CachingAllocator allocator({});
  const Address first = allocator.allocate(20 * kMiB, kMain).value();
  allocator.free(first);
  EXPECT_EQ(allocator.allocate(19 * kMiB, kMain), first);
  EXPECT_EQ(allocator.statistics().allocated, 20 * kMiB);
  allocator.free(first);
  EXPECT_EQ(allocator.allocate(19 * kMiB - 512, kMain), first);
  EXPECT_EQ(allocator.statistics().allocated, 19 * kMiB - 512);
}

TEST(CachingAllocator, TakesTheSmallestBlockThatFits) {
  CachingAllocator allocator({});
  const Address large = allocator.allocate(40 * kMiB, kMain).value();
  const Address medium = allocator.allocate(30 * kMiB, kMain).value();
  allocator.free(large);
  allocator.free(medium);
  EXPECT_EQ(allocator.allocate(25 * kMiB, kMain), medium);
  EXPECT_EQ(allocator.allocate(25 * kMiB, kMain), large);
}

TEST(CachingAllocator, TakesTheLowestOfEqualBlocks) {
  CachingAllocator allocator({});
  const Address first = allocator.allocate(30 * kMiB, kMain).value();
  const Address second = allocator.allocate(30 * kMiB, kMain).value();
  ASSERT_LT(second, first);  // segments are placed downwards
  allocator.free(first);
  allocator.free(second);
  EXPECT_EQ(allocator.allocate(30 * kMiB, kMain), second);
}

TEST(CachingAllocator, PlacesSegmentsWhereItIsTold) {
  Address next = 64 * kMiB;
  CachingAllocator allocator(
      {}, kAmpleCapacity, [&](Bytes size) { return std::exchange(next, next + static_cast<Address>(size)); });
  EXPECT_EQ(allocator.allocate(30 * kMiB, kMain), Address{64 * kMiB});
  EXPECT_EQ(allocator.allocate(30 * kMiB, kMain), Address{94 * kMiB});
}

TEST(CachingAllocator, MergesFreeNeighbours) {
  CachingAllocator allocator({});
  std::array<Address, 5> blocks{};
  for (Address& block : blocks) block = allocator.allocate(4 * kMiB, kMain).value();
  ASSERT_EQ(allocator.statistics().reserved, 20 * kMiB);
  for (const std::size_t i : {0U, 2U, 1U}) allocator.free(blocks.at(i));
  EXPECT_EQ(allocator.allocate(12 * kMiB, kMain), blocks[0]);
  EXPECT_EQ(allocator.statistics().reserved, 20 * kMiB);
}

TEST(CachingAllocator, KeepsStreamsApart) {
  CachingAllocator allocator({});
  const Address block = allocator.allocate(kMiB, kMain).value();
  allocator.free(block);
  EXPECT_NE(allocator.allocate(kMiB, kSide), block);
  EXPECT_EQ(allocator.statistics().reserved, 4 * kMiB);
}

TEST(CachingAllocator, KeepsPoolsApart) {
  CachingAllocator allocator({});
  const Address block = allocator.allocate(kMiB, kMain, 0).value();
  allocator.free(block);
  EXPECT_NE(allocator.allocate(kMiB, kMain, 3), block);
  EXPECT_EQ(allocator.statistics().reserved, 4 * kMiB);
}

TEST(CachingAllocator, GivesNothingForNothing) {
  CachingAllocator allocator({});
  EXPECT_EQ(allocator.allocate(0, kMain), Address{0});
  allocator.free(0);
  EXPECT_EQ(allocator.statistics().reserved, 0);
}

TEST(CachingAllocator, RefusesWhatMakesNoSense) {
  CachingAllocator allocator({});
  EXPECT_THROW(allocator.allocate(-1, kMain), Error);
  EXPECT_THROW(CachingAllocator({}, 0), Error);
  EXPECT_THROW(CachingAllocator({}, kAmpleCapacity + 1), Error);
}

TEST(CachingAllocator, RefusesAnAddressThatIsNotAllocated) {
  CachingAllocator allocator({});
  const Address block = allocator.allocate(kMiB, kMain).value();
  EXPECT_THROW(allocator.free(block + 512), Error);
  allocator.free(block);
  EXPECT_THROW(allocator.free(block), Error);
  EXPECT_EQ(allocator.statistics().allocated, 0);
}

TEST(CachingAllocator, RunsOutOfMemoryAfterFlushingItsCache) {
  CachingAllocator allocator({}, 100 * kMiB);
  const Address cached = allocator.allocate(40 * kMiB, kMain).value();
  const Address kept = allocator.allocate(40 * kMiB, kMain).value();
  allocator.free(cached);
  EXPECT_TRUE(allocator.allocate(50 * kMiB, kMain));  // in place of the cached segment
  EXPECT_EQ(allocator.statistics().retries, 1);
  EXPECT_EQ(allocator.statistics().reserved, 90 * kMiB);
  EXPECT_FALSE(allocator.allocate(20 * kMiB, kMain));
  EXPECT_EQ(allocator.statistics().retries, 2);
  EXPECT_EQ(allocator.statistics().ooms, 1);
  allocator.free(kept);
  EXPECT_EQ(allocator.allocate(20 * kMiB, kMain), kept);
}

TEST(CachingAllocator, CallsAnAbsurdSizeOutOfMemory) {
  for (const AllocatorSettings& settings : {AllocatorSettings{}, expandable()}) {
    CachingAllocator allocator(settings);
    EXPECT_FALSE(allocator.allocate(std::numeric_limits<Bytes>::max(), kMain));
    EXPECT_FALSE(allocator.allocate((Bytes{1} << 60U) - 1, kMain));
    EXPECT_EQ(allocator.statistics().ooms, 2);
    EXPECT_EQ(allocator.statistics().reserved, 0);
  }
}

TEST(CachingAllocator, StaysWithinItsShareOfTheDevice) {
  CachingAllocator allocator(parse_settings("per_process_memory_fraction:0.5"), 100 * kMiB);
  EXPECT_TRUE(allocator.allocate(50 * kMiB, kMain));
  EXPECT_FALSE(allocator.allocate(1, kMain));
}

TEST(CachingAllocator, EmptiesItsCacheOfWholeSegmentsOnly) {
  CachingAllocator allocator({});
  const Address half = allocator.allocate(8 * kMiB, kMain).value();
  const Address rest = allocator.allocate(8 * kMiB, kMain).value();
  const Address whole = allocator.allocate(30 * kMiB, kMain).value();
  allocator.free(half);
  allocator.free(whole);
  allocator.empty_cache();
  EXPECT_EQ(allocator.statistics().reserved, 20 * kMiB);
  EXPECT_EQ(allocator.statistics().segments, 1);
  allocator.free(rest);
  allocator.empty_cache();
  EXPECT_EQ(allocator.statistics().reserved, 0);
  EXPECT_EQ(allocator.statistics().reserved_peak, 50 * kMiB);
}

TEST(CachingAllocator, KeepsThePoolOfAGraphUntilItIsReleased) {
  CachingAllocator allocator({});
  allocator.free(allocator.allocate(30 * kMiB, kMain, 1).value());
  allocator.empty_cache();
  EXPECT_EQ(allocator.statistics().reserved, 30 * kMiB);
  allocator.release_pool(1);
  allocator.empty_cache();
  EXPECT_EQ(allocator.statistics().reserved, 0);
}

TEST(MaxSplitSize, KeepsOversizeBlocksForOversizeRequests) {
  CachingAllocator allocator(parse_settings("max_split_size_mb:64"));
  const Address oversize = allocator.allocate(80 * kMiB, kMain).value();
  allocator.free(oversize);
  EXPECT_NE(allocator.allocate(62 * kMiB, kMain), oversize);
  EXPECT_EQ(allocator.allocate(64 * kMiB, kMain), oversize);
  EXPECT_EQ(allocator.statistics().allocated, (62 + 80) * kMiB);  // not split
}

TEST(MaxSplitSize, LimitsHowMuchLargerABlockMayBe) {
  CachingAllocator allocator(parse_settings("max_split_size_mb:64"));
  const Address oversize = allocator.allocate(100 * kMiB, kMain).value();
  allocator.free(oversize);
  EXPECT_NE(allocator.allocate(80 * kMiB, kMain), oversize);  // 20 MiB larger
  EXPECT_EQ(allocator.allocate(82 * kMiB, kMain), oversize);
}

TEST(MaxSplitSize, GivesBackOneOversizeBlockBeforeItFlushesTheCache) {
  CachingAllocator allocator(parse_settings("max_split_size_mb:64"), 300 * kMiB);
  const Address first = allocator.allocate(100 * kMiB, kMain).value();
  const Address second = allocator.allocate(130 * kMiB, kMain).value();
  const Address small = allocator.allocate(30 * kMiB, kMain).value();
  for (const Address block : {first, second, small}) allocator.free(block);
  EXPECT_TRUE(
      allocator.allocate(70 * kMiB, kMain));  // in place of `first`, the smallest that is large enough
  EXPECT_EQ(allocator.statistics().reserved, (130 + 30 + 70) * kMiB);
  EXPECT_EQ(allocator.statistics().retries, 0);
}

TEST(MaxSplitSize, GivesBackSeveralOversizeBlocksFromTheLargestDown) {
  CachingAllocator allocator(parse_settings("max_split_size_mb:64"), 300 * kMiB);
  std::vector<Address> blocks;
  for (const Bytes size : {70, 80, 90, 40}) blocks.push_back(allocator.allocate(size * kMiB, kMain).value());
  for (const Address block : blocks) allocator.free(block);
  EXPECT_TRUE(allocator.allocate(160 * kMiB, kMain));  // 90 + 80
  EXPECT_EQ(allocator.statistics().reserved, (70 + 40 + 160) * kMiB);
  EXPECT_EQ(allocator.statistics().retries, 0);
}

TEST(GarbageCollection, FreesTheSegmentsUnusedForLongest) {
  AllocatorSettings settings = parse_settings("garbage_collection_threshold:0.5");
  settings.memory_fraction = 0.5;
  CachingAllocator allocator(settings, 400 * kMiB);  // 200 MiB allowed, collects above 100 MiB
  const auto use_side = [&] { allocator.free(allocator.allocate(2 * kMiB, kSide).value()); };
  use_side();
  const Address old = allocator.allocate(40 * kMiB, kMain).value();
  const Address recent = allocator.allocate(70 * kMiB, kMain).value();
  allocator.free(old);
  for (int i = 0; i < 5; ++i) use_side();
  allocator.free(recent);
  ASSERT_EQ(allocator.statistics().reserved, (20 + 40 + 70) * kMiB);
  EXPECT_TRUE(allocator.allocate(80 * kMiB, kMain));
  EXPECT_EQ(allocator.statistics().reserved, (20 + 70 + 80) * kMiB);
  EXPECT_EQ(allocator.statistics().retries, 0);
}

TEST(GarbageCollection, NeedsAMemoryFraction) {
  CachingAllocator allocator(parse_settings("garbage_collection_threshold:0.1"), 400 * kMiB);
  allocator.free(allocator.allocate(100 * kMiB, kMain).value());
  allocator.allocate(110 * kMiB, kMain);
  EXPECT_EQ(allocator.statistics().reserved, 210 * kMiB);
}

TEST(ExpandableSegments, GrowByPages) {
  CachingAllocator allocator(expandable());
  const Address first = allocator.allocate(15 * kMiB, kMain).value();
  EXPECT_EQ(allocator.statistics().reserved, 20 * kMiB);
  EXPECT_EQ(allocator.allocate(15 * kMiB, kMain), first + 15 * kMiB);  // uses what is left of the page
  EXPECT_EQ(allocator.statistics().reserved, 40 * kMiB);
  EXPECT_EQ(allocator.allocate(100, kMain, 0).has_value(), true);
  EXPECT_EQ(allocator.statistics().reserved, 42 * kMiB);  // small pages are 2 MiB
  EXPECT_EQ(allocator.statistics().segments, 0);
}

TEST(ExpandableSegments, UsePagesOfTheSizeThatWasSet) {
  CachingAllocator allocator(parse_settings("expandable_segments:True,large_segment_size_mb:32"));
  allocator.allocate(33 * kMiB, kMain);
  EXPECT_EQ(allocator.statistics().reserved, 64 * kMiB);
}

TEST(ExpandableSegments, SplitDownTo512Bytes) {
  CachingAllocator allocator(expandable());
  const Address first = allocator.allocate(20 * kMiB - 512, kMain).value();
  EXPECT_EQ(allocator.statistics().allocated, 20 * kMiB - 512);
  EXPECT_EQ(allocator.allocate(5 * kMiB, kMain), first + 20 * kMiB - 512);
}

TEST(ExpandableSegments, KeepTheBlockThatCanGrowForLast) {
  CachingAllocator allocator(expandable());
  const Address hole = allocator.allocate(30 * kMiB, kMain).value();
  allocator.allocate(kMiB + 512, kMain);
  allocator.allocate(29 * kMiB - 512, kMain);  // ends at a page
  const Address last = allocator.allocate(25 * kMiB, kMain).value();
  allocator.free(hole);
  allocator.free(last);
  // The block at the end is 40 MiB and what follows; the hole has 30.
  EXPECT_EQ(allocator.allocate(24 * kMiB, kMain), hole);
}

TEST(ExpandableSegments, GiveBackThePagesInsideAFreeBlock) {
  CachingAllocator allocator(expandable());
  const Address first = allocator.allocate(10 * kMiB, kMain).value();
  const Address middle = allocator.allocate(60 * kMiB, kMain).value();
  const Address last = allocator.allocate(10 * kMiB, kMain).value();
  ASSERT_EQ(allocator.statistics().reserved, 80 * kMiB);
  allocator.free(middle);
  allocator.empty_cache();  // [10, 70) holds the pages [20, 60)
  EXPECT_EQ(allocator.statistics().reserved, 40 * kMiB);
  EXPECT_EQ(allocator.allocate(60 * kMiB, kMain), middle);  // the hole again: free, unmapped, free
  EXPECT_EQ(allocator.statistics().reserved, 80 * kMiB);
  for (const Address block : {first, middle, last}) allocator.free(block);
  allocator.empty_cache();
  EXPECT_EQ(allocator.statistics().reserved, 0);
}

TEST(ExpandableSegments, PassOverAHoleThatIsTooSmall) {
  CachingAllocator allocator(expandable());
  const Address hole = allocator.allocate(40 * kMiB, kMain).value();
  const Address after = allocator.allocate(20 * kMiB, kMain).value();
  allocator.free(hole);
  allocator.empty_cache();
  ASSERT_EQ(allocator.statistics().reserved, 20 * kMiB);
  EXPECT_EQ(allocator.allocate(50 * kMiB, kMain), after + 20 * kMiB);
  EXPECT_EQ(allocator.allocate(35 * kMiB, kMain), hole);
}

TEST(ExpandableSegments, MapAllPagesOrNone) {
  CachingAllocator allocator(expandable(), 100 * kMiB);
  const Address first = allocator.allocate(70 * kMiB, kMain).value();
  EXPECT_FALSE(allocator.allocate(50 * kMiB, kMain));
  EXPECT_EQ(allocator.statistics().reserved, 80 * kMiB);
  EXPECT_EQ(allocator.statistics().retries, 1);
  EXPECT_EQ(allocator.allocate(30 * kMiB, kMain), first + 70 * kMiB);
  EXPECT_EQ(allocator.statistics().reserved, 100 * kMiB);
}

TEST(ExpandableSegments, TakePagesFromAnotherStreamWhenMemoryIsShort) {
  CachingAllocator allocator(expandable(), 100 * kMiB);
  allocator.free(allocator.allocate(80 * kMiB, kSide).value());
  EXPECT_TRUE(allocator.allocate(60 * kMiB, kMain));
  EXPECT_EQ(allocator.statistics().reserved, 60 * kMiB);
  EXPECT_EQ(allocator.statistics().retries, 1);
}

// ---- whatever is asked for ----

class AnySettings : public ::testing::TestWithParam<std::string> {};

/// Live blocks by address; refuses one that overlaps another.
class LiveBlocks {
 public:
  void add(Address address, Bytes size) {
    const auto after = live_.lower_bound(address);
    if (after != live_.end()) {
      EXPECT_LE(address + static_cast<Address>(size), after->first);
    }
    if (after != live_.begin()) {
      const auto& [before, length] = *std::prev(after);
      EXPECT_LE(before + static_cast<Address>(length), address);
    }
    live_.emplace(address, size);
    requested_ += size;
  }

  Address remove(std::size_t number) {
    const auto block = std::next(live_.begin(), static_cast<std::ptrdiff_t>(number % live_.size()));
    const Address address = block->first;
    requested_ -= block->second;
    live_.erase(block);
    return address;
  }

  [[nodiscard]] bool empty() const { return live_.empty(); }
  [[nodiscard]] Bytes requested() const { return requested_; }

 private:
  std::map<Address, Bytes> live_;
  Bytes requested_ = 0;
};

TEST_P(AnySettings, NeverOverlapsAndAddsUp) {
  const Bytes capacity = 2 * kGiB;
  CachingAllocator allocator(parse_settings(GetParam()), capacity);
  std::mt19937_64 random(GetParam().size());
  const auto up_to = [&](std::uint64_t limit) { return random() % limit; };
  LiveBlocks live;
  for (int call = 0; call < 20000; ++call) {
    const std::uint64_t kind = up_to(1000);
    if (kind == 0) {
      allocator.empty_cache();
    } else if (kind < 480 && !live.empty()) {
      allocator.free(live.remove(up_to(1000)));
    } else {
      const auto size = static_cast<Bytes>(1 + up_to(std::uint64_t{1} << (1 + up_to(27))));
      const auto block = allocator.allocate(size, up_to(3), static_cast<Pool>(up_to(2)));
      if (block) live.add(*block, size);
    }
    const AllocatorStatistics& now = allocator.statistics();
    ASSERT_EQ(now.requested, live.requested());
    ASSERT_GE(now.allocated, now.requested);
    ASSERT_GE(now.reserved, now.allocated);
    ASSERT_LE(now.reserved, capacity);
  }
  EXPECT_GT(allocator.statistics().ooms, 0);  // else the capacity was too large to test anything
  while (!live.empty()) allocator.free(live.remove(0));
  allocator.release_pool(1);
  allocator.empty_cache();
  EXPECT_EQ(allocator.statistics().allocated, 0);
  EXPECT_EQ(allocator.statistics().requested, 0);
  EXPECT_EQ(allocator.statistics().reserved, 0);
  EXPECT_EQ(allocator.statistics().segments, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, AnySettings,
    ::testing::Values("", "max_split_size_mb:32", "roundup_power2_divisions:[4:2,>:8]",
                      "garbage_collection_threshold:0.5,per_process_memory_fraction:0.8",
                      "expandable_segments:True", "expandable_segments:True,large_segment_size_mb:15",
                      "expandable_segments:True,max_split_size_mb:40,garbage_collection_threshold:0.3,"
                      "per_process_memory_fraction:0.9"),
    [](const auto& settings) { return text("Case", settings.index); });

// ---- looking at it ----

TEST(CachingAllocatorSegments, ShowBlocksInTheOrderOfAddresses) {
  CachingAllocator allocator({});
  const Address small = allocator.allocate(100, kMain).value();
  allocator.allocate(1000, kMain);
  allocator.allocate(30 * kMiB, kSide, 3);
  allocator.free(small);
  const std::vector<CachedSegment> segments = allocator.segments();
  ASSERT_EQ(segments.size(), 2);
  EXPECT_LT(segments[0].address, segments[1].address);
  const CachedSegment& large = segments[0];  // later segments lie lower
  EXPECT_EQ(std::tuple(large.size, large.stream, large.pool, large.small),
            std::tuple(30 * kMiB, kSide, 3, false));
  ASSERT_EQ(large.blocks.size(), 1);
  EXPECT_TRUE(large.blocks[0].in_use);
  const std::vector<CachedBlock>& blocks = segments[1].blocks;
  ASSERT_EQ(blocks.size(), 3);
  EXPECT_EQ(std::tuple(blocks[0].address, blocks[0].size, blocks[0].in_use), std::tuple(small, 512, false));
  EXPECT_EQ(std::tuple(blocks[1].address, blocks[1].size, blocks[1].requested),
            std::tuple(small + 512, 1024, 1000));
  EXPECT_EQ(blocks[2].size, 2 * kMiB - 1536);
}

TEST(CachingAllocatorSegments, SumUpToWhatIsReserved) {
  for (const bool pages : {false, true}) {
    CachingAllocator allocator(pages ? expandable() : AllocatorSettings());
    std::mt19937 random(3);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in every run
    std::vector<Address> live;
    for (int i = 0; i < 2000; ++i) {
      if (i % 500 == 499) allocator.empty_cache();
      if (live.size() > 20) {
        const std::size_t which = random() % live.size();
        allocator.free(live[which]);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      }
      live.push_back(
          allocator.allocate(1 + static_cast<Bytes>(random() % (40 * kMiB)), random() % 2).value());
    }
    Bytes reserved = 0;
    Bytes allocated = 0;
    for (const CachedSegment& segment : allocator.segments()) {
      reserved += segment.size;
      Address next = segment.address;
      for (const CachedBlock& block : segment.blocks) {
        EXPECT_EQ(block.address, next);
        next += static_cast<Address>(block.size);
        if (block.in_use) allocated += block.size;
      }
      EXPECT_EQ(next, segment.address + static_cast<Address>(segment.size));
    }
    EXPECT_EQ(reserved, allocator.statistics().reserved);
    EXPECT_EQ(allocated, allocator.statistics().allocated);
  }
}

}  // namespace
}  // namespace stweaver
