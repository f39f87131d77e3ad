#include "profile/micro_batches.h"

#include <cstddef>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/profile.h"
#include "support/job.h"

namespace stweaver {
namespace {

using testing::Each;

constexpr std::size_t kLayers = 20;

/// One micro-batch: its activations pile up and go again.
void micro_batch(Job& job, Bytes length, Bytes width = 4096) {
  std::vector<RequestId> activations;
  for (std::size_t layer = 0; layer < kLayers; ++layer) activations.push_back(job.allocate(length * width));
  job.free_all(activations);
}

/// Two micro-batches a step, of these lengths.
Trace job_of(const std::vector<std::pair<Bytes, Bytes>>& lengths, Bytes width_of_second = 4096) {
  Job job;
  for (std::size_t step = 0; step < lengths.size(); ++step) {
    job.mark(text("step ", step));
    micro_batch(job, lengths[step].first);
    micro_batch(job, lengths[step].second, width_of_second);
  }
  job.mark("end");
  return job.trace();
}

std::vector<Bytes> sizes_of(const Pattern& pattern) {
  std::vector<Bytes> sizes;
  for (const Position& position : pattern.positions) sizes.push_back(position.size);
  return sizes;
}

TEST(MicroBatches, ThatAreAlikeGetTheSizesOfTheLongest) {
  const Pattern pattern = profile_of(job_of({{30, 40}, {20, 25}, {37, 21}, {22, 48}, {31, 28}})).pattern;
  ASSERT_EQ(pattern.positions.size(), 2 * kLayers);
  EXPECT_THAT(sizes_of(pattern), Each(Bytes{48} * 4096)) << "though the first never had so long a batch";
}

TEST(MicroBatches, AreAlikeThoughKernelsRoundSizesUpToTiles) {
  const auto micro_batch_in_tiles = [](Job& job, Bytes length) {
    std::vector<RequestId> activations;
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      for (int i = 0; i < 3; ++i) activations.push_back(job.allocate(length * 4096));
      activations.push_back(job.allocate(align_up(length, 64) * 4096));
    }
    job.free_all(activations);
  };
  const std::vector<std::pair<Bytes, Bytes>> lengths = {
      {520, 640}, {600, 930}, {460, 800}, {580, 700}, {490, 860}};
  Job job;
  for (std::size_t step = 0; step < lengths.size(); ++step) {
    job.mark(text("step ", step));
    micro_batch_in_tiles(job, lengths[step].first);
    micro_batch_in_tiles(job, lengths[step].second);
  }
  job.mark("end");
  const std::vector<Bytes> sizes = sizes_of(profile_of(job.trace()).pattern);
  ASSERT_EQ(sizes.size(), 8 * kLayers);
  EXPECT_EQ(sizes[0], 930 * 4096) << "though the first never had so long a batch";
  EXPECT_EQ(sizes[3], 960 * 4096);
}

TEST(MicroBatches, MayBeThousands) {
  Job job;
  for (const Bytes length : {20, 60, 30, 50, 40}) {
    job.mark(text("step ", length));
    for (Bytes batch = 0; batch < 2000; ++batch) micro_batch(job, 10 * length + batch * 7 % 40);
  }
  job.mark("end");
  EXPECT_THAT(sizes_of(profile_of(job.trace()).pattern), Each(Bytes{639} * 4096));
}

TEST(MicroBatches, LetWhatIsAloneGrowWithTheLongest) {
  Job job;
  const std::vector<std::pair<Bytes, Bytes>> lengths = {{30, 40}, {20, 25}, {37, 21}, {22, 48}, {31, 28}};
  for (std::size_t step = 0; step < lengths.size(); ++step) {
    const auto [first, second] = lengths[step];
    job.mark(text("step ", step));
    const RequestId input = job.allocate(first * 8192);  // the second has none
    const RequestId mask = job.allocate(first * first * 64);
    micro_batch(job, first);
    job.free(input);
    job.free(mask);
    micro_batch(job, second);
  }
  job.mark("end");
  const std::vector<Position> positions = profile_of(job.trace()).pattern.positions;
  ASSERT_EQ(positions.size(), 2 * kLayers + 2);
  EXPECT_EQ(positions[0].size, 48 * 8192) << "though it never was so long";
  EXPECT_EQ(positions[0].power, 1);
  EXPECT_EQ(positions[1].size, 48 * 48 * 64);
  EXPECT_EQ(positions[1].power, 2);
  EXPECT_EQ(positions[2].power, 1);
}

TEST(MicroBatches, ThatAreNotAlikeKeepTheirSizes) {
  Job job;
  for (const Bytes length : {30, 20, 37, 22, 31}) {
    job.mark(text("step ", length));
    micro_batch(job, length);
    for (std::size_t i = 0; i < 2 * kLayers; ++i) job.touch(length * 512 * static_cast<Bytes>(i + 1));
  }
  job.mark("end");
  const Pattern pattern = profile_of(job.trace()).pattern;
  ASSERT_EQ(pattern.positions.size(), 3 * kLayers);
  EXPECT_EQ(pattern.positions.front().size, 37 * 4096);
  EXPECT_EQ(pattern.positions[kLayers].size, 37 * 512);
}

TEST(MicroBatches, OfStepsThatAreAlikeStayAsTheyAre) {
  const Pattern pattern = profile_of(job_of({{30, 40}, {30, 40}, {30, 40}, {30, 40}})).pattern;
  ASSERT_EQ(pattern.positions.size(), 2 * kLayers);
  EXPECT_EQ(pattern.positions.front().size, 30 * 4096);
  EXPECT_EQ(pattern.positions.back().size, 40 * 4096);
}

}  // namespace
}  // namespace stweaver
