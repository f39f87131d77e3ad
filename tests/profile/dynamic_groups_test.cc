#include "profile/dynamic_groups.h"

#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/job.h"
#include "profile/profile.h"

namespace stweaver {
namespace {

constexpr std::size_t kExperts = 12;
constexpr Bytes kTokens = 6000;

/// How many tokens each expert gets: other numbers in every step and layer, the same sum.
std::vector<Bytes> route(int step, int layer) {
  std::vector<Bytes> tokens;
  for (std::size_t e = 0; e < kExperts; ++e) {
    const std::uint64_t hash =
        mix_hash(static_cast<std::uint64_t>(step) * 100 + static_cast<std::uint64_t>(layer), e);
    tokens.push_back(300 + static_cast<Bytes>(hash % 100));
  }
  tokens.back() += kTokens - std::accumulate(tokens.begin(), tokens.end(), Bytes{0});
  return tokens;
}

/// Layers of experts: what each keeps for the backward and what it needs for the layer alone, 512 bytes and
/// 1024 bytes per token. Dense tensors between the layers.
Trace experts_job(int layers) {
  Job job;
  for (int step = 0; step < 6; ++step) {
    job.mark(text("step ", step));
    std::vector<std::vector<RequestId>> kept(static_cast<std::size_t>(layers));
    for (int layer = 0; layer < layers; ++layer) {
      for (int i = 0; i < 40; ++i) job.touch(70'000 + 1000 * i);
      std::vector<RequestId> layers_own;
      for (const Bytes tokens : route(step, layer)) {
        kept[static_cast<std::size_t>(layer)].push_back(job.allocate(512 * tokens));
        layers_own.push_back(job.allocate(1024 * tokens));
      }
      job.touch(90'000);
      job.free_all(layers_own);
    }
    for (int layer = layers; layer-- > 0;) {
      for (int i = 0; i < 80; ++i) job.touch(50'000 + 1000 * i);
      std::vector<RequestId>& own = kept[static_cast<std::size_t>(layer)];
      for (; !own.empty(); own.pop_back()) {
        job.free(own.back());
        job.touch(80'000);
      }
    }
  }
  job.mark("end");
  return job.trace();
}

std::vector<DynamicGroup> groups_of(const Trace& trace, Bytes alignment = 1) {
  return find_dynamic_groups(profile_of(trace).pattern, trace, alignment);
}

TEST(DynamicGroups, AreWhatIsBornInARowAndDiesInARow) {
  const Trace trace = experts_job(2);
  const Pattern pattern = profile_of(trace).pattern;
  const std::vector<DynamicGroup> groups = find_dynamic_groups(pattern, trace, 1);
  ASSERT_THAT(groups, testing::SizeIs(4)) << "of each layer, what is kept and what is not";
  for (const DynamicGroup& group : groups) {
    EXPECT_GE(group.members.size(), kExperts - 2) << "a few may not have moved by chance";
    EXPECT_EQ(group.life.lower, group.members.front());
    for (const std::uint32_t p : group.members) EXPECT_LE(pattern.positions[p].death, group.life.upper);
  }
}

TEST(DynamicGroups, NeedTheSumThatStaysAndNotTheSumOfTheLargest) {
  const Trace trace = experts_job(1);
  const Pattern pattern = profile_of(trace).pattern;
  for (const DynamicGroup& group : find_dynamic_groups(pattern, trace, 1)) {
    Bytes largest = 0;
    for (const std::uint32_t p : group.members) largest += pattern.positions[p].size;
    EXPECT_LT(group.size, largest);
    EXPECT_LE(group.size, 1024 * kTokens);
  }
}

TEST(DynamicGroups, CountRoundedSizes) {
  for (const DynamicGroup& group : groups_of(experts_job(1), 1 << 20)) {
    EXPECT_EQ(group.size, static_cast<Bytes>(group.members.size()) << 20) << "every tensor is below 1 MiB";
  }
}

/// Experts of which one has had the same tokens in every step, and a weight's gradient behind each.
Trace job_with_a_chance() {
  Job job;
  for (int step = 0; step < 6; ++step) {
    job.mark(text("step ", step));
    for (int i = 0; i < 40; ++i) job.touch(70'000 + 1000 * i);
    std::vector<RequestId> kept;
    for (std::uint64_t e = 0; e < 40; ++e) {
      const std::uint64_t hash = mix_hash(static_cast<std::uint64_t>(step), e);
      kept.push_back(job.allocate(512 * (e == 17 ? 347 : 300 + static_cast<Bytes>(hash % 100))));
      job.touch(180'000);
    }
    for (; !kept.empty(); kept.pop_back()) {
      job.free(kept.back());
      job.touch(80'000);
    }
  }
  job.mark("end");
  return job.trace();
}

TEST(DynamicGroups, HoldWhatHadOneSizeByChanceButNotWhatHasItForAReason) {
  const Pattern pattern = profile_of(job_with_a_chance()).pattern;
  std::size_t by_chance = 0;
  for (const Position& position : pattern.positions) {
    if (position.kind == PositionKind::kDynamic && position.size == Bytes{512} * 347) ++by_chance;
    if (position.size == 180'000 || position.size == 80'000) {
      EXPECT_NE(position.kind, PositionKind::kDynamic);
    }
  }
  EXPECT_EQ(by_chance, 1);
}

TEST(DynamicGroups, AreNoneWhereNothingMovesOnItsOwn) {
  Job job;
  for (int step = 0; step < 6; ++step) {
    job.mark(text("step ", step));
    for (int i = 0; i < 40; ++i) job.touch(Bytes{100} * (step + 1) * (i + 1));
  }
  job.mark("end");
  EXPECT_THAT(groups_of(job.trace()), testing::IsEmpty());
}

TEST(DynamicGroups, RefuseSizesWhoseSumIsOutOfRange) {
  Trace trace = experts_job(1);
  const Pattern pattern = profile_of(trace).pattern;
  for (Request& request : trace.requests) request.size = Bytes{1} << 61U;
  EXPECT_THROW(find_dynamic_groups(pattern, trace, 1), Error);
}

}  // namespace
}  // namespace stweaver
