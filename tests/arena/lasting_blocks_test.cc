#include "arena/lasting_blocks.h"

#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/host_device.h"
#include "support/page.h"

namespace stweaver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LastingBlocksTest : public testing::Test {
 protected:
  void back(const Interval& range) {
    memory.hold(memory.mapped() + range.length());
    ASSERT_TRUE(memory.back(range, range, range.length(), range.length()));
  }
  void live(const Interval& range, Tick born, Source source = Source::kElsewhere) {
    blocks.insert({.address = memory.address_of(range.lower),
                   .size = range.length(),
                   .rounded = range.length(),
                   .born = born,
                   .source = source});
  }
  [[nodiscard]] LastingBlocks lasting(Tick born_by = 10) const { return {memory, blocks, born_by}; }

  HostDevice device{kGiB};
  ArenaPolicy policy;
  StreamOrder order{device};
  Memory memory{device, order, policy};
  BlockTable blocks;
  Interval everywhere{0, memory.addresses()};
};

TEST_F(LastingBlocksTest, WithoutAnyTheLowestPlaceIsTheRegions) {
  EXPECT_EQ(lasting().lowest_place(pages(3, 9), kPage), 3 * kPage);
  EXPECT_EQ(lasting().lowest_place(pages(3, 9), 6 * kPage), 3 * kPage);
  EXPECT_EQ(lasting().lowest_place(pages(3, 9), 7 * kPage), std::nullopt);
  EXPECT_EQ(lasting().lowest_place({}, kPage), std::nullopt);
  EXPECT_THAT(lasting().gaps_outside({}), IsEmpty());
}

TEST_F(LastingBlocksTest, TheLowestPlaceIsBehindWhatIsInTheWay) {
  live({kPage, kPage + 512}, 3);
  live({5 * kPage, 6 * kPage}, 10);
  live({8 * kPage, 9 * kPage}, 11);
  EXPECT_EQ(lasting().lowest_place(pages(0, 99), kPage), 0);
  EXPECT_EQ(lasting().lowest_place(pages(0, 99), 2 * kPage), 2 * kPage) << "at a page";
  EXPECT_EQ(lasting().lowest_place(pages(0, 99), 4 * kPage), 6 * kPage) << "the last was born too late";
  EXPECT_EQ(lasting().lowest_place(pages(0, 9), 4 * kPage), std::nullopt);
}

TEST_F(LastingBlocksTest, LeaveGapsInTheExtentsThatTheyKeepFromMoving) {
  back(pages(0, 4));
  back(pages(6, 8));
  back(pages(10, 12));
  live({kPage, kPage + 512}, 3);
  live({2 * kPage, 3 * kPage}, 20);
  live({6 * kPage, 7 * kPage}, 3);
  live({7 * kPage, 8 * kPage - 512}, 3);
  live({10 * kPage, 11 * kPage}, 20);
  EXPECT_THAT(lasting().gaps_outside({}), ElementsAre(Interval{0, kPage}, Interval{kPage + 512, 4 * kPage},
                                                      Interval{8 * kPage - 512, 8 * kPage}))
      << "what was born later is going to be gone, and with it what holds the last extent";
  EXPECT_THAT(lasting().gaps_outside(pages(0, 5)), ElementsAre(Interval{8 * kPage - 512, 8 * kPage}));
  EXPECT_THAT(lasting(2).gaps_outside({}), IsEmpty());
}

TEST_F(LastingBlocksTest, GapsReachAcrossExtentsSideBySide) {
  back(pages(0, 2));
  back(pages(2, 4));
  live({0, kPage}, 1);
  live({3 * kPage, 4 * kPage}, 1);
  EXPECT_THAT(lasting().gaps_outside({}), ElementsAre(pages(1, 3)));
}

TEST_F(LastingBlocksTest, OneBlockMayLieInSeveralExtents) {
  back(pages(0, 2));
  back(pages(2, 4));
  live({kPage, 3 * kPage}, 1);
  EXPECT_THAT(lasting().gaps_outside({}), ElementsAre(pages(0, 1), pages(3, 4)));
}

TEST_F(LastingBlocksTest, WhatIsUpstreamsIsNotInTheArena) {
  back(pages(0, 2));
  live({0, kPage}, 1, Source::kFallback);
  EXPECT_THAT(lasting().gaps_outside({}), IsEmpty());
}

}  // namespace
}  // namespace stweaver
