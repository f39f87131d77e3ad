// What every constructor of placements must do, whatever the instance.
#include <array>
#include <chrono>
#include <numeric>

#include <gtest/gtest.h>

#include "plan/best_fit.h"
#include "plan/class_sweep.h"
#include "plan/homophase.h"
#include "plan/live_blocks.h"
#include "plan/portfolio.h"
#include "plan/skyline.h"
#include "plan/squeaky_wheel.h"
#include "support/checked.h"
#include "support/instances.h"

namespace stweaver {
namespace {

using Pack = std::function<std::optional<Placement>(const Instance&, const Budget&)>;

struct Constructor {
  std::string name;
  bool plain_only = true;
  Pack pack;
};

void add_sweeps(std::vector<Constructor>& constructors) {
  for (const double base : {1.3, 2.0, 4.0, 100.0}) {
    for (const Time tail : {1, 10}) {
      for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
        for (const bool mirrored : {false, true}) {
          constructors.push_back(
              {text("sweep ", base, ' ', tail, fit == Fit::kBest ? " best" : " first", mirrored), false,
               [=](const Instance& instance, const Budget& budget) {
                 return class_sweep(instance, duration_classes(instance, base, tail), {fit, mirrored},
                                    budget);
               }});
        }
      }
    }
  }
}

std::vector<Constructor> constructors() {
  std::vector<Constructor> all;
  add_sweeps(all);
  for (const bool mirrored : {false, true}) {
    all.push_back({text("sweep cut ", mirrored), false, [=](const Instance& instance, const Budget& budget) {
                     return class_sweep(instance, gap_classes(instance, 1), {Fit::kFirst, mirrored}, budget);
                   }});
  }
  for (const Order order : {Order::kSize, Order::kArea, Order::kDuration, Order::kBreadth}) {
    for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
      all.push_back({text("best fit ", static_cast<int>(order), static_cast<int>(fit)), true,
                     [=](const Instance& instance, const Budget& budget) {
                       return best_fit(instance, order, fit, budget);
                     }});
    }
  }
  for (const SkylineKey key : {SkylineKey::kArea, SkylineKey::kDuration, SkylineKey::kSize}) {
    all.push_back(
        {text("skyline ", static_cast<int>(key)), true,
         [=](const Instance& instance, const Budget& budget) { return skyline(instance, key, budget); }});
  }
  all.push_back({"homophase", true, homophase});
  return all;
}

template <typename Test>
void for_each_packing(const Test& test, unsigned seeds = 12) {
  for (const Constructor& constructor : constructors()) {
    SCOPED_TRACE(constructor.name);
    for_each_instance(
        constructor.plain_only ? plain_shapes() : all_shapes(),
        [&](const Instance& instance) { test(instance, constructor.pack); }, seeds);
  }
}

TEST(Constructors, PlaceEveryInstanceSoundly) {
  for_each_packing(
      [](const Instance& instance, const Pack& pack) { expect_sound(instance, pack(instance, Budget())); });
}

/// The most that an item without an echo and what stands above it reach: what a budget limits.
Bytes top_of(const Instance& instance, const Placement& placement) {
  Bytes top = 0;
  for (std::size_t i = 0; i < placement.size(); ++i) {
    const Item& item = instance.items[i];
    if (item.echo.empty()) top = std::max(top, placement[i] + item.size + item.above);
  }
  return top;
}

TEST(Constructors, GiveTheSamePlacementAgainAndStayBelowABudgetOrGiveUp) {
  const auto test = [](const Instance& instance, const Pack& pack) {
    const std::optional<Placement> unlimited = pack(instance, Budget());
    ASSERT_TRUE(unlimited);
    const Bytes top = top_of(instance, *unlimited);
    EXPECT_EQ(pack(instance, {.peak = top + 1}), unlimited);
    for (const Bytes limit : {top, lower_bound_of(instance), Bytes{1}}) {
      const std::optional<Placement> placement = pack(instance, {.peak = limit});
      if (!placement) continue;
      expect_sound(instance, *placement);
      EXPECT_LE(top_of(instance, *placement), std::max<Bytes>(limit - 1, 0));
    }
  };
  for_each_packing(test, 6);  // each is packed five times
}

TEST(Constructors, GiveUpOrFinishWhenTheDeadlineIsPast) {
  for_each_packing([](const Instance& instance, const Pack& pack) {
    const std::optional<Placement> placement =
        pack(instance, {.deadline = Clock::now() - std::chrono::seconds(1)});
    if (placement) expect_sound(instance, *placement);
  });
}

// ---- Each by itself
// --------------------------------------------------------------------------------------------

TEST(GapSearch, TakesTheFirstOrTheSmallestGap) {
  const auto search = [](Fit fit, Bytes size) {
    GapSearch gaps(size, fit);
    for (const auto& [offset, end] :
         std::vector<std::pair<Bytes, Bytes>>{{0, 10}, {20, 30}, {22, 25}, {34, 40}}) {
      if (gaps.show({offset, end})) break;
    }
    return gaps.offset();
  };
  EXPECT_EQ(search(Fit::kFirst, 3), 10);
  EXPECT_EQ(search(Fit::kBest, 3), 30);
  EXPECT_EQ(search(Fit::kBest, 4), 30);
  EXPECT_EQ(search(Fit::kBest, 5), 10);
  EXPECT_EQ(search(Fit::kFirst, 11), 40) << "no gap: on top";
}

TEST(GapSearch, UsesTheRoomBelowTheFirstBlock) {
  GapSearch gaps(5, Fit::kFirst);
  EXPECT_TRUE(gaps.show({5, 9}));
  EXPECT_EQ(gaps.offset(), 0);
}

/// What LiveBlocks shall say, the simple way.
std::vector<std::pair<Bytes, Bytes>> gaps_among(std::vector<Interval> blocks, Bytes size, Bytes& top) {
  std::ranges::sort(blocks, {}, &Interval::lower);
  std::vector<std::pair<Bytes, Bytes>> gaps;
  top = 0;
  for (const Interval& block : blocks) {
    if (block.lower - top >= size) gaps.emplace_back(top, block.lower);
    top = std::max(top, block.upper);
  }
  return gaps;
}

TEST(LiveBlocks, ShowEveryGapThatIsWideEnough) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const bool many = seed >= 18;  // thousands live at one time
    const int changes = many ? 24'000 : 3000;
    const Bytes spread =
        (seed % 2 == 0 ? Bytes{4000} : Bytes{100'000}) * (many ? 20 : 1);  // many blocks overlap, or few
    LiveBlocks live;
    std::vector<Interval> blocks;
    for (int change = 0; change < changes; ++change) {
      if (!blocks.empty() && pick(random, 0, 9) < (change < changes / 2 ? 3 : 6)) {
        const auto victim = static_cast<std::size_t>(pick(random, 0, static_cast<Bytes>(blocks.size()) - 1));
        live.erase(blocks[victim]);
        blocks[victim] = blocks.back();
        blocks.pop_back();
      } else {
        const Bytes offset = pick(random, 0, spread);
        blocks.push_back({offset, offset + pick(random, 1, 100)});
        live.insert(blocks.back());
      }
      if (change % (many ? 101 : 7) != 0) continue;
      const Bytes size = pick(random, 1, many ? 2000 : 200);
      Bytes top = 0;
      const auto expected = gaps_among(blocks, size, top);
      std::vector<std::pair<Bytes, Bytes>> gaps;
      const Bytes end = live.for_each_gap(size, [&gaps](Bytes lower, Bytes upper) {
        gaps.emplace_back(lower, upper);
        return false;
      });
      ASSERT_EQ(gaps, expected) << "seed " << seed << ", change " << change;
      ASSERT_EQ(end, top);
    }
    live.clear();
    EXPECT_EQ(live.for_each_gap(1, [](Bytes, Bytes) { return true; }), 0);
  }
}

TEST(BestFit, FillsTheGapOfItsSizeExactly) {
  Instance instance;
  instance.items = {{.size = 10, .life = {0, 10}},
                    {.size = 7, .life = {0, 5}},
                    {.size = 10, .life = {0, 10}},
                    {.size = 7, .life = {5, 10}}};
  const std::vector<ItemId> order = {0, 1, 2, 3};
  const std::optional<Placement> placement = place_in_order(instance, order, Fit::kBest, Budget());
  expect_sound(instance, placement);
  EXPECT_EQ(*placement, (Placement{0, 10, 17, 10}));
}

TEST(DurationClasses, PutTheLongestFirst) {
  Instance instance;
  for (const Time length : {1, 3, 4, 15, 16, 100}) instance.items.push_back({.size = 1, .life = {0, length}});
  EXPECT_EQ(duration_classes(instance, 4, 1), (Classes{3, 3, 2, 2, 1, 0}));
  EXPECT_EQ(duration_classes(instance, 4, 15), (Classes{3, 3, 3, 3, 1, 0}));
}

TEST(GapClasses, CutWhereDurationsLieFarthestApart) {
  Instance instance;
  for (const Time length : {1, 2, 9, 10, 1000, 1100, 9000, 20'000})
    instance.items.push_back({.size = 1, .life = {0, length}});
  EXPECT_EQ(gap_classes(instance, 0), (Classes{0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(gap_classes(instance, 1), (Classes{1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(gap_classes(instance, 2), (Classes{2, 2, 2, 2, 1, 1, 0, 0}));
  EXPECT_EQ(gap_classes(instance, 99).front(), 6) << "never more than there are gaps";
  EXPECT_TRUE(gap_classes(Instance(), 1).empty());
}

TEST(Skyline, StacksWhatLivesInsideWhatLivesLonger) {
  Instance instance;
  instance.items = {{.size = 1, .life = {4, 6}}, {.size = 1, .life = {0, 10}}, {.size = 1, .life = {2, 8}}};
  EXPECT_EQ(skyline(instance, SkylineKey::kDuration, Budget()), (Placement{2, 0, 1}));
}

TEST(Homophase, FillsTwoGroupsThatMeetLikeTwoStairs) {
  // Activations born one by one and freed in reverse, twice, the second while the first shrinks.
  Instance instance;
  for (Time i = 0; i < 6; ++i) {
    instance.items.push_back({.size = 10, .life = {i, 40 - i}, .group = 0});
    instance.items.push_back({.size = 10, .life = {40 - i, 80 + i}, .group = 1});
  }
  const std::optional<Placement> placement = homophase(instance, Budget());
  expect_sound(instance, placement);
  EXPECT_EQ(peak_of(instance, *placement), lower_bound_of(instance));
}

std::shared_ptr<const BirthOrder> order_of(const Instance& instance) {
  return std::make_shared<BirthOrder>(birth_order(instance, false));
}

TEST(SqueakyWheel, MendsWhatOneSweepCannot) {
  int mended = 0;
  for_each_instance(all_shapes(), [&](const Instance& instance) {
    const Bytes bound = lower_bound_of(instance);
    SqueakyWheel wheel(instance, order_of(instance), duration_classes(instance, 2, 1), {}, bound);
    Bytes first = -1;
    Bytes best = -1;
    for (int round = 0; round < 30; ++round) {
      const std::optional<Placement> placement = wheel.step(Budget());
      if (!placement) break;
      expect_sound(instance, *placement);
      const Bytes peak = peak_of(instance, *placement);
      if (first < 0) first = best = peak;
      best = std::min(best, peak);
    }
    EXPECT_GE(first, 0) << "the first sweep always gives a placement";
    mended += best < first ? 1 : 0;
  });
  EXPECT_GT(mended, 10);
}

TEST(SqueakyWheel, StopsWhenNothingSticksOut) {
  Instance instance;
  instance.items = {{.size = 1, .life = {0, 2}}, {.size = 1, .life = {1, 3}}};
  SqueakyWheel wheel(instance, order_of(instance), duration_classes(instance, 2, 1), {}, 2);
  expect_sound(instance, wheel.step(Budget()));
  EXPECT_EQ(wheel.step(Budget()), std::nullopt);
}

}  // namespace
}  // namespace stweaver
