#include "plan/exact.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "plan/portfolio.h"
#include "support/checked.h"
#include "support/instances.h"

namespace stweaver {
namespace {

Puzzle puzzle_of(const Instance& instance) {
  return {.items = instance.items, .obstacles = {}, .persistent = instance.persistent};
}

constexpr Bytes kTiled = 1 << 20;

Instance tiles(unsigned seed, std::size_t count) {
  Random random(seed);
  return tiling(random, count, kTiled);
}

/// Offsets in `capacity` bytes that nobody shares, found by placing the items in every order as low as they
/// go: an order in which they lie in some solution finds one.
bool fits_by_force(const Puzzle& puzzle, Bytes capacity) {
  std::vector<std::size_t> order(puzzle.items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    std::vector<Obstacle> taken = puzzle.obstacles;
    bool fits = true;
    for (const std::size_t i : order) {
      const Item& item = puzzle.items[i];
      Bytes offset = 0;
      const auto is_taken = [&](const Obstacle& by) {
        return (overlaps(by.life, item.life) || (!item.echo.empty() && overlaps(by.life, item.echo))) &&
               overlaps(by.bytes, {offset, offset + item.size});
      };
      while (std::any_of(taken.begin(), taken.end(), is_taken)) ++offset;
      fits = fits && offset + item.size + item.above <= capacity;
      for (const Lifespan& life : {item.life, item.echo})
        taken.push_back({life, {offset, offset + item.size}});
    }
    if (fits) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

/// As fits_by_force; what is found is checked.
bool fits(const Puzzle& puzzle, Bytes capacity, int threads = 1) {
  const ExactResult result = exact_search(puzzle, capacity, {.threads = threads});
  EXPECT_NE(result.verdict, Verdict::kUndecided);
  if (result.verdict != Verdict::kFound) return false;
  std::vector<Lifespan> lives;
  std::vector<Bytes> sizes;
  std::vector<Bytes> offsets;
  for (std::size_t i = 0; i < puzzle.items.size(); ++i) {
    const Item& item = puzzle.items[i];
    const Interval bytes = {result.placement[i], result.placement[i] + item.size};
    EXPECT_LE(bytes.upper + item.above, capacity);
    for (const Lifespan& life : {item.life, item.echo}) {
      if (life.empty()) continue;
      lives.push_back(life);
      sizes.push_back(item.size);
      offsets.push_back(bytes.lower);
      for (const Obstacle& obstacle : puzzle.obstacles)  // which may meet each other
        EXPECT_FALSE(overlaps(life, obstacle.life) && overlaps(bytes, obstacle.bytes)) << "item " << i;
    }
  }
  EXPECT_TRUE(check_placement(lives, sizes, offsets).empty());
  return true;
}

/// The least capacity that is enough, by force; exact search is to say the same of it and of one byte less.
void expect_exact(const Puzzle& puzzle) {
  Bytes capacity = 1;
  while (!fits_by_force(puzzle, capacity)) ++capacity;
  EXPECT_TRUE(fits(puzzle, capacity));
  EXPECT_TRUE(fits(puzzle, capacity + 3, 2));
  EXPECT_FALSE(fits(puzzle, capacity - 1));
  EXPECT_FALSE(fits(puzzle, capacity - 1, 2));
}

TEST(Exact, AgreesWithTryingAllOrders) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    expect_exact(puzzle_of(random_items(random, pick(random, 1, 6), 5, 8, 5)));
  }
}

TEST(Exact, AgreesWithTryingAllOrdersAroundObstacles) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Puzzle puzzle = puzzle_of(random_items(random, pick(random, 1, 5), 5, 8, 5));
    for (std::int64_t i = pick(random, 1, 4); i > 0; --i) {
      const Time birth = pick(random, 0, 9);
      const Bytes offset = pick(random, 0, 12);
      puzzle.obstacles.push_back(
          {{birth, birth + pick(random, 1, 6)}, {offset, offset + pick(random, 1, 5)}});
    }
    expect_exact(puzzle);
  }
}

TEST(Exact, AgreesWithTryingAllOrdersBelowPersistentRequests) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Instance instance = random_items(random, pick(random, 1, 6), 5, 8, 5);
    for (Time birth = pick(random, 0, 3); birth < 12; birth += pick(random, 1, 5))
      instance.persistent.push_back({birth, pick(random, 1, 4)});
    stack_persistent(instance);
    expect_exact(puzzle_of(instance));
  }
}

TEST(Exact, AgreesWithTryingAllOrdersOfItemsWithEchoes) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Puzzle puzzle = puzzle_of(random_items(random, pick(random, 1, 6), 5, 8, 5));
    for (Item& item : puzzle.items) {
      if (pick(random, 0, 1) == 0) continue;
      const Time end = pick(random, -7, item.life.lower);
      item.echo = {end - pick(random, 1, 4), end};
    }
    if (pick(random, 0, 1) == 0)
      puzzle.obstacles.push_back({{-3, pick(random, -2, 9)}, {1, pick(random, 2, 4)}});
    expect_exact(puzzle);
  }
}

TEST(Exact, PlacesWhatConstructorsCannot) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const Instance instance = tiles(seed, 200 + std::size_t{50} * seed);
    EXPECT_GT(run_portfolio(instance, {.threads = 2, .timeout = 0, .without = {Part::kCore}}).peak, kTiled);
    const ExactResult result = exact_search(puzzle_of(instance), kTiled, {.threads = 2, .nodes = 500'000});
    ASSERT_EQ(result.verdict, Verdict::kFound) << seed;
    expect_sound(instance, result.placement);
    EXPECT_EQ(peak_of(instance, result.placement), kTiled) << seed;
  }
}

TEST(Exact, FindsTheSameEachTime) {
  const Instance instance = tiles(1, 300);
  for (const int threads : {1, 2, 3}) {
    const ExactOptions options{.threads = threads, .nodes = 500'000};
    const ExactResult once = exact_search(puzzle_of(instance), kTiled, options);
    ASSERT_EQ(once.verdict, Verdict::kFound);
    expect_sound(instance, once.placement);
    EXPECT_EQ(exact_search(puzzle_of(instance), kTiled, options).placement, once.placement);
  }
}

TEST(Exact, GoesOnWhereItStopped) {
  const Instance instance = tiles(1, 300);
  const Puzzle puzzle = puzzle_of(instance);
  for (const int threads : {1, 2}) {
    const auto in_short_runs = [&] {
      ExactSearch search(puzzle, kTiled, {.threads = threads});
      ExactResult result;
      for (int runs = 0; runs < 1000 && result.verdict == Verdict::kUndecided; ++runs) {
        const std::int64_t before = result.nodes;
        result = search.run(700);
        EXPECT_LE(result.nodes, before + std::int64_t{700} * threads);
      }
      return result;
    };
    const ExactResult result = in_short_runs();
    ASSERT_EQ(result.verdict, Verdict::kFound);
    expect_sound(instance, result.placement);
    EXPECT_EQ(in_short_runs().placement, result.placement);
  }
}

TEST(Exact, IsUndecidedWhenItMayNotGoOn) {
  const Instance hard = tiles(2, 450);
  const Puzzle puzzle = puzzle_of(hard);
  const auto verdict = [&](const ExactOptions& options) {
    return exact_search(puzzle, kTiled, options).verdict;
  };
  EXPECT_EQ(verdict({.nodes = 0}), Verdict::kUndecided);
  EXPECT_EQ(verdict({.nodes = 100}), Verdict::kUndecided);
  EXPECT_EQ(verdict({.threads = 2, .deadline = Clock::now()}), Verdict::kUndecided);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(verdict({.stop = stop.get_token()}), Verdict::kUndecided);
}

TEST(Exact, RefusesMoreItemsThanItIsMadeFor) {
  Random random(1);
  const Instance large = random_items(random, static_cast<std::int64_t>(kExactItems) + 1, 9, 99, 9);
  EXPECT_EQ(exact_search(puzzle_of(large), Bytes{1} << 40, {}).verdict, Verdict::kUndecided);
}

TEST(Exact, RefusesHeightsThatCouldOverflow) {
  const Puzzle puzzle = {.items = {{.size = 1, .life = {0, 1}}}, .obstacles = {}, .persistent = {}};
  EXPECT_EQ(exact_search(puzzle, kMostMemory, {}).verdict, Verdict::kFound);
  EXPECT_EQ(exact_search(puzzle, kMostMemory + 1, {}).verdict, Verdict::kUndecided);
}

TEST(Exact, PlacesNothing) {
  const ExactResult result = exact_search({}, 0, {});
  EXPECT_EQ(result.verdict, Verdict::kFound);
  EXPECT_TRUE(result.placement.empty());
}

TEST(Sections, KeepWhatMeetsTogetherAndWhatDoesNotApart) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const Instance instance = random_items(random, 60, 9, 100, 30);
    const Sections sections = sections_of(puzzle_of(instance));
    for (std::size_t i = 0; i < instance.items.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        EXPECT_EQ(overlaps(instance.items[i].life, instance.items[j].life),
                  overlaps(sections.spans[i], sections.spans[j]));
      }
    }
    EXPECT_LT(sections.count(), instance.items.size());
  }
}

}  // namespace
}  // namespace stweaver
