#include "plan/search.h"

#include <algorithm>
#include <stop_token>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/checked.h"
#include "support/instances.h"

namespace stweaver {
namespace {

TEST(Search, PlacesEveryInstanceSoundly) {
  for_each_instance(
      all_shapes(),
      [](const Instance& instance) {
        const SearchResult result = search(instance, {.threads = 2, .timeout = 0.05, .anytime = true});
        expect_sound(instance, result.placement);
        EXPECT_EQ(result.peak, peak_of(instance, result.placement));
        EXPECT_GE(result.lower_bound, lower_bound_of(instance));
        EXPECT_GE(result.peak, result.lower_bound);
        EXPECT_FALSE(result.winner.empty());
        EXPECT_EQ(result.threads, 2);
      },
      3);
}

TEST(Search, FindsTheSameEachTimeWhenNobodyHurries) {
  for_each_instance(
      all_shapes(),
      [](const Instance& instance) {
        const SearchOptions options{.threads = 2, .timeout = 600};
        const SearchResult once = search(instance, options);
        expect_sound(instance, once.placement);
        EXPECT_EQ(search(instance, options).placement, once.placement);
      },
      2);
}

TEST(Search, HasAPlacementWhateverTheTimeout) {
  for_each_instance(
      all_shapes(),
      [](const Instance& instance) {
        for (const double timeout : {0.0, -1.0, 1e-9}) {
          expect_sound(instance, search(instance, {.threads = 2, .timeout = timeout}).placement);
        }
      },
      3);
}

/// Seven bytes that are always all in use: whoever dies makes room for others of the same size in all.
Instance crowded(Random& random) {
  Instance instance;
  std::vector<std::size_t> alive;
  Bytes idle = 7;
  for (Time now = 0; now < 40; ++now) {
    for (; idle > 0; idle -= instance.items.back().size) {
      alive.push_back(instance.items.size());
      instance.items.push_back({.size = pick(random, 1, std::min<Bytes>(idle, 4)), .life = {now, 41}});
    }
    for (int i = 0; i < 2; ++i) {
      const auto which =
          static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(alive.size()) - 1));
      Item& item = instance.items[alive[which]];
      if (item.life.upper == now + 1) continue;
      item.life.upper = now + 1;
      idle += item.size;
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(which));
      if (alive.empty()) break;
    }
  }
  return instance;
}

TEST(Search, ProvesABoundAboveTheLoad) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Instance instance = crowded(random);
    const SearchResult result = search(instance, {.threads = 1, .timeout = 20, .anytime = true});
    if (result.lower_bound == lower_bound_of(instance)) continue;
    expect_sound(instance, result.placement);
    EXPECT_EQ(result.peak, result.lower_bound);
    return;
  }
  FAIL() << "no instance has a gap";
}

TEST(Search, GoesOnWhileItIsMoreThanTheSlackAboveTheBound) {
  Random random(43);
  const Instance instance = tiling(random, 659, 1'000'000);
  const SearchResult result = search(instance, {.threads = 1, .timeout = 120});
  expect_sound(instance, result.placement);
  EXPECT_LE(result.peak - result.lower_bound, result.lower_bound / kSlackShare);
}

TEST(Search, StopsAtACapacityThatIsGoodEnough) {
  Random random(1);
  const Instance instance = crowd(random);
  const Bytes capacity = lower_bound_of(instance) * 103 / 100;
  const SearchResult result =
      search(instance, {.threads = 2, .timeout = 120, .anytime = true, .capacity = capacity});
  expect_sound(instance, result.placement);
  EXPECT_LE(result.peak, capacity);
  EXPECT_LT(result.seconds, 60);
}

TEST(Search, IsDoneWhereItTakesNoMorePagesThanTheBound) {
  Random random(1);
  const Instance instance = crowd(random);
  const Bytes page = lower_bound_of(instance) * 103 / 100;
  const SearchResult result = search(instance, {.threads = 2, .timeout = 120, .anytime = true, .page = page});
  expect_sound(instance, result.placement);
  EXPECT_LE(result.peak, page);
  EXPECT_LT(result.seconds, 60);
}

TEST(Search, TellsOfEachBetterPeak) {
  Random random(1);
  const Instance instance = crowd(random);
  std::vector<Bytes> peaks;
  const SearchResult result = search(
      instance, {.threads = 2, .timeout = 0.3, .anytime = true, .improved = [&](const SearchProgress& state) {
                   peaks.push_back(state.peak);
                   EXPECT_EQ(state.lower_bound, lower_bound_of(instance));
                 }});
  ASSERT_FALSE(peaks.empty());
  EXPECT_EQ(peaks.back(), result.peak);
  EXPECT_TRUE(std::is_sorted(peaks.rbegin(), peaks.rend()));
}

TEST(Search, TellsOfPeaksWhileConstructorsGoOn) {
  Random random(1);
  const Instance instance = crowd(random);
  std::vector<Bytes> peaks;
  const SearchResult result =
      search(instance, {.threads = 2,
                        .without = {Part::kExact, Part::kCore},
                        .improved = [&](const SearchProgress& state) { peaks.push_back(state.peak); }});
  EXPECT_GT(peaks.size(), 1U);
  EXPECT_EQ(peaks.back(), result.peak);
  EXPECT_TRUE(std::is_sorted(peaks.rbegin(), peaks.rend()));
}

TEST(Search, IsSoundWithoutAnyOfItsParts) {
  for_each_instance(
      plain_shapes(),
      [](const Instance& instance) {
        for (const Part part :
             {Part::kSweeps, Part::kSkylines, Part::kCore, Part::kHomophase, Part::kBestFits, Part::kExact}) {
          expect_sound(instance, search(instance, {.threads = 2, .without = {part}}).placement);
        }
      },
      1);
}

TEST(Search, ReturnsTheBestSoFarWhenStopped) {
  std::stop_source stop;
  stop.request_stop();
  Random random(1);
  const Instance instance = crowd(random);
  const SearchResult result =
      search(instance, {.threads = 2, .timeout = 1e12, .anytime = true, .stop = stop.get_token()});
  expect_sound(instance, result.placement);
}

TEST(Search, MeetsTheBoundOfAThousandRequests) {
  Random random(1);
  const Instance instance = tiling(random, 1000, Bytes{1} << 30);
  const SearchResult result = search(instance, {.threads = 2, .timeout = 120, .anytime = true});
  expect_sound(instance, result.placement);
  EXPECT_EQ(result.peak, result.lower_bound);
  EXPECT_EQ(result.lower_bound, lower_bound_of(instance));
}

}  // namespace
}  // namespace stweaver
