#include "profile/scale.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "profile/profile.h"
#include "support/job.h"

namespace stweaver {
namespace {

using SizeOf = std::function<Bytes(Bytes length)>;

/// Steps of one batch each. Of every six requests, four are proportional to the length.
Trace job_of(const std::vector<Bytes>& lengths, const std::vector<SizeOf>& others) {
  Job job;
  for (std::size_t step = 0; step < lengths.size(); ++step) {
    job.mark(text("step ", step));
    for (int i = 0; i < 30; ++i) {
      for (const Bytes width : {4096, 8192, 16384, 1024}) job.touch(width * lengths[step]);
      for (const SizeOf& size : others) job.touch(size(lengths[step]));
    }
  }
  job.mark("end");
  return job.trace();
}

bool is_foretold(const Trace& trace) {
  return lengths_foretell_sizes(profile_of(trace).pattern);
}

TEST(Scale, TellsThePowerOfTheLengthThatSizesGrowWith) {
  const std::vector<SizeOf> forms = {[](Bytes length) { return 300 * length * length; },
                                     [](Bytes length) { return 20'000 * length + 100 * length * length; },
                                     [](Bytes length) { return 2'000'000 + 5000 * length; },
                                     [](Bytes) { return Bytes{12'345}; }};
  const Pattern pattern = profile_of(job_of({300, 200, 240, 400, 310, 280}, forms)).pattern;
  // What grows less than in proportion has a length of its own.
  const std::vector<int> powers = {2, 2, 1, 0};
  const std::size_t first = pattern.positions.size() - forms.size();
  for (std::size_t i = 0; i < forms.size(); ++i) {
    EXPECT_EQ(pattern.positions[first + i].power, powers[i]) << "form " << i;
    EXPECT_EQ(pattern.positions[first + i].is_foretold, powers[i] > 0) << "form " << i;
    EXPECT_EQ(pattern.positions[first + i].size, forms[i](400)) << "the largest seen";
  }
  EXPECT_EQ(pattern.positions[first + 2].length, 1);
}

/// The same with one request more in each step.
Trace job_with_odd(const std::vector<Bytes>& lengths, const SizeOf& odd) {
  Job job;
  for (std::size_t step = 0; step < lengths.size(); ++step) {
    job.mark(text("step ", step));
    for (int i = 0; i < 120; ++i) job.touch(8192 * lengths[step]);
    job.touch(odd(lengths[step]));
  }
  job.mark("end");
  return job.trace();
}

TEST(Scale, AllButATinyShareHasToFollowTheLength) {
  const std::vector<Bytes> lengths = {300, 200, 240, 400, 310, 280};
  const auto odd = [](Bytes unit) { return [unit](Bytes length) { return length * 7919 % 97 * unit; }; };
  EXPECT_TRUE(is_foretold(job_with_odd(lengths, odd(5'000)))) << "400 KB of 393 MB follow nothing";
  EXPECT_FALSE(is_foretold(job_with_odd(lengths, odd(50'000)))) << "a hundredth";
  const SizeOf workspace = [](Bytes length) { return length == 200 ? 13'000'000 : 13'500'000; };
  EXPECT_TRUE(is_foretold(job_with_odd(lengths, workspace))) << "hardly anything of it lies idle";
}

TEST(Scale, SizesMayGrowUpToALargest) {
  const Bytes largest = 132 * Bytes{65'536};
  const SizeOf partial_sums = [largest](Bytes length) { return std::min(30'000 * length, largest); };
  const std::vector<Bytes> lengths = {300, 200, 240, 400, 310, 280};
  EXPECT_TRUE(is_foretold(job_of(lengths, {partial_sums})));
  const SizeOf smaller_in_longest = [](Bytes length) { return (length == 400 ? 20'000 : 30'000) * length; };
  EXPECT_FALSE(is_foretold(job_of(lengths, {smaller_in_longest})));
}

TEST(Scale, WhatHasComeToItsLargestIsForetoldAndGrowsNoMore) {
  Job job;
  for (const Bytes length : {300, 200, 240, 400, 310, 280}) {
    job.mark(text("step ", job.now()));
    const RequestId batch = job.allocate(1000 * length);
    for (int i = 0; i < 40; ++i) job.touch((1000 + 8 * i) * length);
    job.touch(std::min<Bytes>(30'000 * length, 9'000'000));
    job.free(batch);
  }
  job.mark("end");
  const Pattern pattern = profile_of(job.trace()).pattern;
  EXPECT_TRUE(lengths_foretell_sizes(pattern));
  EXPECT_EQ(pattern.positions.front().power, 1);
  EXPECT_TRUE(pattern.positions.back().is_foretold);
  EXPECT_EQ(pattern.positions.back().power, 0);
}

struct TwoLengths {
  std::vector<Bytes> first = {300, 200, 240, 400, 310, 280};
  std::vector<Bytes> second;            ///< of the last layers
  bool keeps_second = true;             ///< until the step ends
  std::optional<std::size_t> odd = {};  ///< a step that makes one request more, of 0.2 % of its bytes
  Bytes odd_size = 900'000;
};

/// Steps of one batch each.
Trace job_of(const TwoLengths& lengths) {
  Job job;
  for (std::size_t step = 0; step < lengths.first.size(); ++step) {
    job.mark(text("step ", step));
    std::vector<RequestId> kept;
    for (int i = 0; i < 120; ++i) kept.push_back(job.allocate(8192 * lengths.first[step]));
    for (int i = 0; i < 60; ++i) {
      const RequestId id = job.allocate(4096 * lengths.second[step]);
      if (lengths.keeps_second) {
        kept.push_back(id);
      } else {
        job.free(id);
      }
    }
    job.free_all(kept);
    if (step == lengths.odd) job.touch(lengths.odd_size);
  }
  job.mark("end");
  return job.trace();
}

/// Longer where the first length is, but not in proportion; and another.
const std::vector<Bytes> kAlong = {252, 200, 230, 290, 260, 236};
const std::vector<Bytes> kApart = {210, 300, 200, 330, 290, 400};

TEST(Scale, PartOfABatchMayHaveALengthOfItsOwn) {
  const Trace trace = job_of({.second = kAlong});
  const Pattern pattern = profile_of(trace).pattern;
  EXPECT_TRUE(lengths_foretell_sizes(pattern));
  ASSERT_EQ(pattern.lengths.size(), 2);
  for (std::size_t p = 0; p < pattern.positions.size(); ++p) {
    EXPECT_EQ(pattern.positions[p].length, p < 120 ? 0 : 1) << "position " << p;
    EXPECT_EQ(pattern.positions[p].power, 1) << "position " << p;
  }
  EXPECT_NEAR(pattern.lengths[1].front(), 200.0 / 290, 0.001) << "of the longest of its own";
}

TEST(Scale, LengthsHaveToGoTogetherWhereTheyMatter) {
  EXPECT_FALSE(is_foretold(job_of({.second = kApart}))) << "a plan for the longest of both is for no step";
  EXPECT_TRUE(is_foretold(job_of({.second = kApart, .keeps_second = false}))) << "they add next to nothing";
}

TEST(Scale, WhereSizesFollowSeveralLengthsAllStepsMakeTheSameRequests) {
  EXPECT_TRUE(is_foretold(job_of({.second = TwoLengths().first, .odd = 3}))) << "one length tells them apart";
  EXPECT_FALSE(is_foretold(job_of({.second = kAlong, .odd = 3})));
}

TEST(Scale, WhatStepsLackLiesIdle) {
  const TwoLengths much = {.second = TwoLengths().first, .odd = 3, .odd_size = 4'000'000};
  EXPECT_FALSE(is_foretold(job_of(much))) << "five of six steps lack 0.8 % of what the sixth asks for";
}

/// The length in whole tiles of so many rows.
SizeOf in_tiles(Bytes rows) {
  return [rows](Bytes length) { return align_up(length, rows) * 20'480; };
}

TEST(Scale, SizesMayBeRoundedUpToTilesOfManyRows) {
  const std::vector<Bytes> lengths = {3000, 1840, 2400, 4096, 3100, 2800};
  const Trace trace = job_of(lengths, {in_tiles(128)});
  EXPECT_TRUE(is_foretold(trace));
  EXPECT_TRUE(lengths_foretell_sizes(profile_of(trace).pattern));
  EXPECT_EQ(profile_of(trace).pattern.positions.back().tile, in_tiles(128)(1));
  EXPECT_EQ(profile_of(trace).pattern.lengths.size(), 1);
  EXPECT_EQ(profile_of(job_of(lengths, {in_tiles(1024)})).pattern.lengths.size(), 2)
      << "four tiles may be anything";
  const SizeOf any = [](Bytes length) { return length * 7919 % 32 * 128 * 20'480; };
  EXPECT_FALSE(is_foretold(job_of(lengths, {any}))) << "multiples of a tile, but of no length";
}

TEST(Scale, TwoLengthsAreEnoughToTellTilesFromAConstant) {
  const Trace trace = job_of({4096, 1840, 4096, 1840, 4096, 1840}, {in_tiles(128)});
  EXPECT_TRUE(lengths_foretell_sizes(profile_of(trace).pattern));
}

TEST(Scale, TellsTheLengthWhereMostBytesGrowWithItsSquare) {
  Job job;
  for (const Bytes length : {300, 200, 240, 400, 310, 280}) {
    job.mark(text("step ", length));
    std::vector<RequestId> kept;
    for (int i = 0; i < 30; ++i) {
      for (const Bytes width : {4096, 8192, 16384, 1024}) kept.push_back(job.allocate(width * length));
      kept.push_back(job.allocate(4096 * length * length));  // attention scores
    }
    job.free_all(kept);
  }
  job.mark("end");
  const Pattern pattern = profile_of(job.trace()).pattern;
  ASSERT_EQ(pattern.positions.size(), 150);
  for (std::size_t p = 0; p < pattern.positions.size(); ++p)
    EXPECT_EQ(pattern.positions[p].power, p % 5 == 4 ? 2 : 1) << "position " << p;
}

TEST(Scale, KnowsWhetherSizesFollowOneLength) {
  const std::vector<Bytes> lengths = {300, 200, 240, 400, 310, 280};
  const SizeOf same = [](Bytes) { return Bytes{12'345}; };
  EXPECT_TRUE(is_foretold(job_of(lengths, {same})));
  EXPECT_TRUE(is_foretold(job_of(lengths, {[](Bytes length) { return 300 * length * length; }})))
      << "attention scores grow with the square";
  EXPECT_FALSE(is_foretold(job_of(lengths, {[](Bytes length) { return length * 7919 % 97 * 400'000; }})))
      << "experts";
  EXPECT_FALSE(is_foretold(job_of({300, 300, 300, 300}, {same}))) << "nothing varies";
}

}  // namespace
}  // namespace stweaver
