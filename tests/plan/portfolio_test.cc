#include "plan/portfolio.h"

#include <limits>
#include <stop_token>

#include <gtest/gtest.h>

#include "support/checked.h"
#include "support/instances.h"

namespace stweaver {
namespace {

constexpr unsigned kSeeds = 3;
constexpr double kNoHurry = std::numeric_limits<double>::infinity();

TEST(Portfolio, PlacesEveryInstanceSoundly) {
  for_each_instance(
      all_shapes(),
      [](const Instance& instance) {
        const PortfolioResult result = run_portfolio(instance, {.threads = 2, .timeout = kNoHurry});
        expect_sound(instance, result.placement);
        EXPECT_EQ(result.peak, peak_of(instance, result.placement));
        EXPECT_EQ(result.lower_bound, lower_bound_of(instance));
        EXPECT_FALSE(result.winner.empty());
        EXPECT_EQ(result.threads, 2);
      },
      kSeeds);
}

TEST(Portfolio, FindsTheSamePlacementWithAnyNumberOfThreads) {
  for_each_instance(
      all_shapes(),
      [](const Instance& instance) {
        const PortfolioResult one = run_portfolio(instance, {.threads = 1, .timeout = kNoHurry});
        for (const int threads : {2, 4}) {
          const PortfolioResult other = run_portfolio(instance, {.threads = threads, .timeout = kNoHurry});
          EXPECT_EQ(other.placement, one.placement) << threads << " threads";
          EXPECT_EQ(other.winner, one.winner) << threads << " threads";
        }
      },
      kSeeds);
}

TEST(Portfolio, HasAPlacementWhateverTheTimeout) {
  for_each_instance(
      all_shapes(),
      [](const Instance& instance) {
        for (const double timeout : {0.0, -1.0, 1e-9, -std::numeric_limits<double>::infinity()}) {
          expect_sound(instance, run_portfolio(instance, {.threads = 2, .timeout = timeout}).placement);
        }
      },
      kSeeds);
}

TEST(Portfolio, HasAPlacementWhenItIsStopped) {
  std::stop_source stop;
  stop.request_stop();
  for_each_instance(
      all_shapes(),
      [&](const Instance& instance) {
        const PortfolioResult result =
            run_portfolio(instance, {.threads = 2, .timeout = kNoHurry, .stop = stop.get_token()});
        expect_sound(instance, result.placement);
        EXPECT_EQ(result.peak, peak_of(instance, result.placement));
      },
      kSeeds);
}

TEST(Portfolio, IsNoWorseThanAnyOfItsMembersFirstPlacements) {
  for_each_instance(
      all_shapes(),
      [](const Instance& instance) {
        const PortfolioResult result = run_portfolio(instance, {.threads = 2, .timeout = kNoHurry});
        if (result.peak == result.lower_bound) return;
        for (Member& member : portfolio_members(instance, result.lower_bound)) {
          const std::optional<Placement> placement = member.step(Budget());
          if (!placement || member.first_round > 0) continue;
          expect_sound(instance, *placement);
          EXPECT_LE(result.peak, peak_of(instance, *placement)) << member.name;
        }
      },
      kSeeds);
}

TEST(Portfolio, LeavesLanesAndEchoesToThoseWhoKnowThem) {
  Random random(1);
  const Instance plain = with_lanes(random, 0);
  Instance one_lane = plain;
  one_lane.lanes = 1;
  EXPECT_LT(portfolio_members(plain, 0).size(), portfolio_members(one_lane, 0).size());
}

TEST(Portfolio, LetsFewMembersBeginOnLargeInstances) {
  Random random(1);
  const Instance instance = random_items(random, 120'000, 1 << 20, 1'200'000, 6'000);
  int first = 0;
  for (const Member& member : portfolio_members(instance, 0)) {
    first += member.first_round == 0 ? 1 : 0;
    EXPECT_EQ(member.name.find("best fit by"), std::string::npos) << "it looks at every pair";
  }
  EXPECT_EQ(first, 10) << "eight of them, and rings and rows, of which there are none";
}

TEST(Portfolio, MeetsTheBoundOfATrainingStep) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const Instance instance = training(random);
    const PortfolioResult result = run_portfolio(instance, {.threads = 2, .timeout = kNoHurry});
    expect_sound(instance, result.placement);
    EXPECT_LE(static_cast<double>(result.peak), 1.01 * static_cast<double>(result.lower_bound))
        << "seed " << seed;
  }
}

TEST(Portfolio, MeetsTheBoundOfALongPipelineByARingOnAnyNumberOfThreads) {
  const Pipeline pipeline(8, 40);
  const Instance& instance = pipeline.instance();
  const PortfolioResult one = run_portfolio(instance, {.threads = 1, .timeout = kNoHurry});
  expect_sound(instance, one.placement);
  EXPECT_EQ(one.peak, one.lower_bound);
  EXPECT_EQ(one.winner, "ring");
  EXPECT_EQ(run_portfolio(instance, {.threads = 2, .timeout = kNoHurry}).placement, one.placement);
  const std::vector<Part> others{Part::kRings, Part::kRows, Part::kCore};
  EXPECT_GT(run_portfolio(instance, {.timeout = kNoHurry, .without = others}).peak, one.lower_bound);
}

TEST(Portfolio, MeetsTheBoundOfAnInterleavedPipelineByARowOnAnyNumberOfThreads) {
  const Pipeline pipeline(4, 12, 4);
  const Instance& instance = pipeline.instance();
  const PortfolioResult one = run_portfolio(instance, {.threads = 1, .timeout = kNoHurry});
  expect_sound(instance, one.placement);
  EXPECT_EQ(one.peak, one.lower_bound);
  EXPECT_EQ(one.winner, "row");
  EXPECT_EQ(run_portfolio(instance, {.threads = 2, .timeout = kNoHurry}).placement, one.placement);
  EXPECT_GT(run_portfolio(instance, {.timeout = kNoHurry, .without = {Part::kRows}}).peak, one.lower_bound);
}

TEST(Portfolio, PlacesLargeInstancesNearTheBoundAtOnce) {
  Random random(1);
  Instance instance;
  for (Time begin = 0; instance.items.size() < 30'000; begin += 1'000) {
    for (Item item : training(random).items) {
      item.life = {item.life.lower + begin, item.life.upper + begin};
      instance.items.push_back(item);
    }
  }
  const PortfolioResult result = run_portfolio(instance, {.threads = 2, .timeout = 0});
  expect_sound(instance, result.placement);
  EXPECT_LE(static_cast<double>(result.peak), 1.05 * static_cast<double>(result.lower_bound));
}

}  // namespace
}  // namespace stweaver
