#include "report/address_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job.h"

namespace stweaver {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(MapAddresses, LeavesOutPagesThatNothingTouches) {
  Job job;
  for (int i = 0; i < 3; ++i) job.allocate(kMiB);
  const Address far = Address{1} << 46U;
  const AddressMap map = map_addresses(job.trace(), {far + 512, Address{0}, far + 2 * kMiB});
  EXPECT_EQ(map.extent, 6 * kMiB);
  EXPECT_THAT(map.offsets, ElementsAre(Optional(2 * kMiB + 512), Optional(Bytes{0}), Optional(4 * kMiB)));
}

TEST(MapAddresses, KeepsNeighboursNeighbours) {
  Job job;
  job.allocate(3 * kMiB);
  job.allocate(100);
  const AddressMap map = map_addresses(job.trace(), {Address{7 * kMiB}, Address{10 * kMiB}});
  EXPECT_EQ(*map.offsets[1] - *map.offsets[0], 3 * kMiB);
  EXPECT_EQ(map.extent, 6 * kMiB) << "pages 3, 4 and 5";
}

TEST(MapAddresses, HasNoPlaceForWhatWasNotServedOrHasNoBytes) {
  Job job;
  job.allocate(100);
  job.allocate(0);
  const AddressMap map = map_addresses(job.trace(), {std::nullopt, Address{0}});
  EXPECT_EQ(map.extent, 0);
  EXPECT_THAT(map.offsets, ElementsAre(std::nullopt, std::nullopt));
}

TEST(LargestRequests, AreThoseThatOccupyTheMost) {
  Job job;
  const RequestId small_and_long = job.allocate(10);
  job.touch(50);
  job.touch(0);
  job.allocate(40);
  job.free(small_and_long);
  const Trace trace = job.trace();
  EXPECT_THAT(largest_requests(trace, 100), ElementsAre(0, 1, 3));
  EXPECT_THAT(largest_requests(trace, 2), ElementsAre(0, 3)) << "10 x 6 and 40 x 2, not 50 x 1";
  EXPECT_THAT(largest_requests(trace, 0), IsEmpty());
}

TEST(AreaOf, CountsOnlyWhatWasRecorded) {
  Job job;
  const RequestId before = job.before(7);
  job.touch(1);
  EXPECT_EQ(area_of(job.trace(), before), 14);
}

}  // namespace
}  // namespace stweaver
