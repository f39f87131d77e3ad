// Allocators that hand out the same memory twice are caught: by stamps alone, by ranges alone, and by both.
#include "simulate/witness.h"

#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/host_device.h"
#include "simulate/caching_allocator.h"
#include "simulate/replay.h"
#include "support/job.h"

namespace stweaver {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Hands out the places it is told to, of one piece of real memory.
class Scripted {
 public:
  explicit Scripted(std::vector<Bytes> offsets) : offsets_(std::move(offsets)) {}

  std::optional<Address> allocate(Bytes /*size*/, Stream /*stream*/, Pool /*pool*/) {
    return memory_ + static_cast<Address>(offsets_.at(served_++));
  }
  void free(Address /*address*/) {}
  [[nodiscard]] static AllocatorStatistics statistics() { return {}; }

 private:
  HostDevice device_{kGiB};
  Address memory_ = std::bit_cast<Address>(device_.allocate(kGiB));
  std::vector<Bytes> offsets_;
  std::size_t served_ = 0;
};

/// Blocks of these sizes, all alive at once, freed in their order.
Trace together(const std::vector<Bytes>& sizes) {
  Job job;
  std::vector<RequestId> requests;
  requests.reserve(sizes.size());
  for (const Bytes size : sizes) requests.push_back(job.allocate(size));
  job.free_all(requests);
  return job.trace();
}

const Watch kRanges = {.ranges = true};
const Watch kStamps = {.stamps = Stamps::on_host()};
const Watch kBoth = {.ranges = true, .stamps = Stamps::on_host()};

ReplayResult watched(const Watch& watch, const std::vector<Bytes>& sizes, std::vector<Bytes> offsets) {
  Scripted allocator(std::move(offsets));
  return replay(together(sizes), allocator, {.watch = watch});
}

class Sharing : public testing::TestWithParam<Bytes> {};

TEST_P(Sharing, OfTheLastUnitIsSeen) {
  const Bytes size = GetParam();
  const std::vector<Bytes> offsets = {0, align_up(size, kAlignment) - kAlignment};
  EXPECT_EQ(watched(kStamps, {size, size}, offsets).corrupt_blocks, 1) << "the one that was overwritten";
  EXPECT_EQ(watched(kRanges, {size, size}, offsets).corrupt_blocks, 2);
  EXPECT_EQ(watched(kBoth, {size, size}, offsets).corrupt_blocks, 2) << "each counts once";
}

TEST_P(Sharing, OfASingleByteIsSeen) {
  const Bytes size = GetParam();
  for (const std::vector<Bytes>& offsets : {std::vector<Bytes>{0, size - 1}, {size - 1, 0}}) {
    EXPECT_EQ(watched(kStamps, {size, size}, offsets).corrupt_blocks, 1);
    EXPECT_EQ(watched(kRanges, {size, size}, offsets).corrupt_blocks, 2);
  }
}

TEST_P(Sharing, OfEverythingIsSeen) {
  const Bytes size = GetParam();
  EXPECT_EQ(watched(kStamps, {size, size, size}, {512, 512, 512}).corrupt_blocks, 2);
  EXPECT_EQ(watched(kRanges, {size, size, size}, {512, 512, 512}).corrupt_blocks, 3);
}

TEST_P(Sharing, IsNotWhatNeighboursDo) {
  const Bytes size = GetParam();
  for (const Watch& watch : {kStamps, kRanges, kBoth}) {
    const ReplayResult result = watched(watch, {size, size, size}, {size, 0, 2 * size});
    EXPECT_EQ(result.corrupt_blocks, 0);
    EXPECT_THAT(result.corruption, IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Sharing,
                         ::testing::Values(1, 512, 1000, Stamps::kWhole, Stamps::kWhole + 1, kMiB,
                                           10 * kMiB + 12345),
                         [](const auto& size) { return std::to_string(size.param) + "Bytes"; });

TEST(Witness, SeesASmallBlockWhereALargeOneHasNoStamp) {
  const Bytes hole = 100 * kMiB + 4096;  // between two places, neither of them near
  EXPECT_EQ(watched(kRanges, {200 * kMiB, 512}, {0, hole}).corrupt_blocks, 2);
  EXPECT_EQ(watched(kRanges, {512, 200 * kMiB}, {hole, 0}).corrupt_blocks, 2);
}

TEST(Witness, SeesALargeBlockOverSeveralSmallOnes) {
  EXPECT_EQ(watched(kRanges, {512, 512, 512, 2048}, {0, 512, 1536, 0}).corrupt_blocks, 4);
}

TEST(Witness, SaysWhatItSawFirst) {
  EXPECT_THAT(watched(kBoth, {512, 1024}, {0, 0}).corruption,
              HasSubstr("request 1 (1024 bytes) was given memory of request 0 (512 bytes)"));
  EXPECT_THAT(watched(kStamps, {512, 1024}, {0, 0}).corruption,
              HasSubstr("the memory of request 0 (512 bytes) was overwritten"));
}

TEST(Witness, LooksAtWhatIsAliveAtTheEnd) {
  Job job;
  job.allocate(512);
  job.allocate(512);
  Scripted allocator({0, 0});
  EXPECT_EQ(replay(job.trace(), allocator, {.watch = kStamps}).corrupt_blocks, 1);
}

TEST(Witness, LetsMemoryGoFromOneToTheNext) {
  Job job;
  for (int i = 0; i < 3; ++i) job.touch(4096);
  Scripted allocator({0, 0, 0});
  EXPECT_EQ(replay(job.trace(), allocator, {.watch = kBoth}).corrupt_blocks, 0);
}

TEST(Witness, LeavesBlocksOfNoBytesAlone) {
  EXPECT_EQ(watched(kBoth, {0, 512, 0}, {0, 0, 0}).corrupt_blocks, 0);
}

TEST(Witness, CountsTheRangesOfNumbersToo) {
  CachingAllocator allocator({});
  Training training({});
  for (int step = 0; step < 3; ++step) training.step();
  EXPECT_EQ(replay(training.job.trace(), allocator, {.watch = kRanges}).corrupt_blocks, 0);
}

}  // namespace
}  // namespace stweaver
