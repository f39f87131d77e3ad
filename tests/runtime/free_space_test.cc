#include "runtime/free_space.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace stweaver {
namespace {

const auto kAnybody = [](const LastUse&) { return true; };

/// The slow and obvious way: one cell per unit of the range, who used it last or nothing while it is taken.
class Cells {
 public:
  explicit Cells(std::size_t units) : cells_(units) {}

  void give(Bytes offset, Bytes size, LastUse last) {
    for (Bytes i = offset; i < offset + size; ++i) cell(i) = last;
  }
  void take(Bytes offset, Bytes size) {
    for (Bytes i = offset; i < offset + size; ++i) cell(i).reset();
  }

  [[nodiscard]] bool is_idle(Bytes offset, Bytes size) const {
    for (Bytes i = offset; i < offset + size; ++i) {
      if (!is_idle(i)) return false;
    }
    return true;
  }
  [[nodiscard]] bool is_taken(Bytes offset, Bytes size) const {
    for (Bytes i = offset; i < offset + size; ++i) {
      if (is_idle(i)) return false;
    }
    return true;
  }
  [[nodiscard]] bool is_idle(Bytes unit) const { return unit < size() && cell(unit).has_value(); }
  [[nodiscard]] LaneId lane(Bytes unit) const { return cell(unit)->lane; }
  /// When the unit was freed.
  [[nodiscard]] Tick freed(Bytes unit) const { return cell(unit)->freed; }

  [[nodiscard]] Bytes idle() const {
    return std::count_if(cells_.begin(), cells_.end(), [](const auto& cell) { return cell.has_value(); });
  }

  /// Runs of idle units that the same lane freed.
  [[nodiscard]] std::vector<Interval> runs() const {
    std::vector<Interval> all;
    for (Bytes i = 0; i < size(); ++i) {
      if (!is_idle(i)) continue;
      if (!all.empty() && all.back().upper == i && lane(i - 1) == lane(i)) {
        all.back().upper = i + 1;
      } else {
        all.push_back({i, i + 1});
      }
    }
    return all;
  }

  /// The lowest of the smallest runs with room for `size` inside `within`.
  template <typename Allowed>
  [[nodiscard]] std::optional<Bytes> best_fit(Bytes wanted, Interval within, Allowed allowed) const {
    std::optional<Interval> best;
    for (const Interval& run : runs()) {
      const Interval room = {std::max(run.lower, within.lower), std::min(run.upper, within.upper)};
      if (room.upper - room.lower < wanted || !allowed(lane(run.lower))) continue;
      if (!best || room.length() < best->length()) best = room;
    }
    return best ? std::optional(best->lower) : std::nullopt;
  }

  /// The lowest run with room for `size` inside `within`.
  template <typename Allowed>
  [[nodiscard]] std::optional<Bytes> first_fit(Bytes wanted, Interval within, Allowed allowed) const {
    for (const Interval& run : runs()) {
      const Interval room = {std::max(run.lower, within.lower), std::min(run.upper, within.upper)};
      if (room.upper - room.lower >= wanted && allowed(lane(run.lower))) return room.lower;
    }
    return std::nullopt;
  }

  [[nodiscard]] Bytes size() const { return static_cast<Bytes>(cells_.size()); }

 private:
  [[nodiscard]] const std::optional<LastUse>& cell(Bytes unit) const {
    return cells_[static_cast<std::size_t>(unit)];
  }
  std::optional<LastUse>& cell(Bytes unit) { return cells_[static_cast<std::size_t>(unit)]; }

  std::vector<std::optional<LastUse>> cells_;
};

/// A free space and the cells beside it, told the same.
class Twins {
 public:
  Twins(std::size_t units, LaneId lanes, unsigned seed) : cells_(units), lanes_(lanes), random_(seed) {}

  void give(Bytes offset, Bytes size) {
    const LastUse last = {any<LaneId>(0, lanes_ - 1), ++now_};
    space_.give(offset, size, last);
    cells_.give(offset, size, last);
  }
  void take(Bytes offset, Bytes size) {
    space_.take(offset, size);
    cells_.take(offset, size);
  }

  /// One call of each kind somewhere.
  void move(Bytes longest) {
    const auto size = any<Bytes>(1, longest);
    const auto offset = any<Bytes>(0, cells_.size() - size);
    ASSERT_EQ(space_.is_idle(offset, size), cells_.is_idle(offset, size));
    if (cells_.is_taken(offset, size)) return give(offset, size);
    if (chance()) return ask_for_range(offset, size);
    chance() ? ask_for_best(size) : ask_for_first(size);
  }

  void expect_alike() const {
    ASSERT_EQ(space_.idle(), cells_.idle());
    const std::vector<Interval> runs = cells_.runs();
    ASSERT_EQ(space_.gaps(), runs.size());
    std::vector<Interval> seen;
    const bool all = space_.visit(0, cells_.size(), [&](const Gap& gap) {
      seen.push_back({gap.offset, gap.end});
      for (Bytes i = gap.offset; i < gap.end; ++i) {
        EXPECT_EQ(gap.last.lane, cells_.lane(i));
        EXPECT_GE(gap.last.freed, cells_.freed(i)) << "memory would be taken before its last user is done";
      }
      return true;
    });
    EXPECT_TRUE(all);
    EXPECT_EQ(seen, runs);
  }

  [[nodiscard]] std::size_t gaps() const { return space_.gaps(); }
  [[nodiscard]] const Cells& cells() const { return cells_; }

  template <typename Number>
  Number any(Number low, Number high) {
    return std::uniform_int_distribution<Number>(low, high)(random_);
  }

 private:
  bool chance() { return any<int>(0, 1) == 0; }

  void ask_for_range(Bytes offset, Bytes size) {
    const auto refused = any<LaneId>(0, lanes_);
    bool wanted = cells_.is_idle(offset, size);
    for (Bytes i = offset; wanted && i < offset + size; ++i) wanted = cells_.lane(i) != refused;
    ASSERT_EQ(space_.take_if(offset, size, [&](const LastUse& last) { return last.lane != refused; }),
              wanted);
    if (wanted) cells_.take(offset, size);
  }

  void ask_for_best(Bytes size) {
    const auto refused = any<LaneId>(0, lanes_);
    Interval within = {any<Bytes>(0, cells_.size()), any<Bytes>(0, cells_.size())};
    if (chance()) within = {0, cells_.size()};
    const std::optional<Bytes> wanted =
        cells_.best_fit(size, within, [&](LaneId lane) { return lane != refused; });
    ASSERT_EQ(space_.best_fit(size, within, [&](const LastUse& last) { return last.lane != refused; }),
              wanted);
    if (wanted) take(*wanted, size);
  }

  void ask_for_first(Bytes size) {
    const auto refused = any<LaneId>(0, lanes_);
    const Interval within = {any<Bytes>(0, cells_.size()), any<Bytes>(0, cells_.size())};
    const std::optional<Bytes> wanted =
        cells_.first_fit(size, within, [&](LaneId lane) { return lane != refused; });
    ASSERT_EQ(space_.first_fit(size, within, [&](const LastUse& last) { return last.lane != refused; }),
              wanted);
    if (wanted) take(*wanted, size);
  }

  FreeSpace space_;
  Cells cells_;
  LaneId lanes_;
  std::mt19937 random_;
  Tick now_ = 0;
};

struct Shape {
  LaneId lanes = 1;
  Bytes longest = 0;
};

class RandomCalls : public testing::TestWithParam<Shape> {};

TEST_P(RandomCalls, AreAnsweredAsByCountingUnits) {
  for (unsigned seed = 0; seed < 3; ++seed) {
    Twins twins(600, GetParam().lanes, seed);
    twins.give(0, 600);
    for (int i = 0; i < 6000 && !HasFatalFailure(); ++i) {
      twins.move(GetParam().longest);
      if (i % 10 == 0) twins.expect_alike();
    }
    twins.expect_alike();
  }
}

INSTANTIATE_TEST_SUITE_P(FreeSpace, RandomCalls,
                         testing::Values(Shape{1, 40}, Shape{3, 40}, Shape{1, 3}, Shape{4, 3}),
                         [](const auto& shape) {
                           return text(shape.param.lanes, "Lanes", shape.param.longest, "Long");
                         });

TEST(FreeSpace, HoldsThousandsOfGapsAndLosesThemAgain) {
  constexpr std::size_t kUnits = 9000;
  Twins twins(kUnits, 2, 7);
  std::vector<Bytes> units(kUnits);
  for (std::size_t round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < kUnits; ++i) units[i] = static_cast<Bytes>(i);
    std::shuffle(units.begin(), units.end(), std::mt19937(round));
    std::size_t most = 0;
    for (std::size_t i = 0; i < kUnits; ++i) {
      twins.give(units[i], 1);
      most = std::max(most, twins.gaps());
      if (i % 500 == 0) twins.expect_alike();
    }
    EXPECT_GT(most, 2000U);
    std::shuffle(units.begin(), units.end(), std::mt19937(round + 100));
    for (std::size_t i = 0; i < kUnits; ++i) {
      twins.take(units[i], 1);
      if (i % 500 == 0) twins.expect_alike();
    }
    EXPECT_EQ(twins.gaps(), 0U);
    twins.expect_alike();
  }
}

TEST(FreeSpace, IsEmptyAtFirst) {
  FreeSpace space;
  EXPECT_EQ(space.idle(), 0);
  EXPECT_EQ(space.gaps(), 0U);
  EXPECT_FALSE(space.is_idle(0, 1));
  EXPECT_FALSE(space.take_if(0, 1, kAnybody));
  EXPECT_EQ(space.best_fit(1, {0, 100}, kAnybody), std::nullopt);
  EXPECT_EQ(space.first_fit(1, {0, 100}, kAnybody), std::nullopt);
}

TEST(FreeSpace, JoinsNeighboursOfOneLaneAndKeepsOthersApart) {
  FreeSpace space;
  space.give(0, 10, {1, 5});
  space.give(20, 10, {1, 3});
  space.give(30, 10, {2, 4});
  EXPECT_EQ(space.gaps(), 3U);
  space.give(10, 10, {1, 4});
  EXPECT_EQ(space.gaps(), 2U);
  std::vector<Tick> freed;
  EXPECT_TRUE(space.visit(0, 40, [&](const Gap& gap) {
    freed.push_back(gap.last.freed);
    return true;
  }));
  EXPECT_EQ(freed, (std::vector<Tick>{5, 4})) << "what was joined was freed when the last of it was";
}

TEST(FreeSpace, TakesARangeOfSeveralGapsOnlyIfAllAreAllowed) {
  FreeSpace space;
  space.give(0, 10, {1, 1});
  space.give(10, 10, {2, 1});
  EXPECT_FALSE(space.take_if(5, 10, [](const LastUse& last) { return last.lane == 1; }));
  EXPECT_EQ(space.idle(), 20);
  EXPECT_TRUE(space.take_if(5, 10, kAnybody));
  EXPECT_EQ(space.idle(), 10);
  EXPECT_FALSE(space.is_idle(4, 2));
  EXPECT_TRUE(space.is_idle(0, 5) && space.is_idle(15, 5));
}

TEST(FreeSpace, FitsInsideARangeByWhatOfAGapLiesInIt) {
  FreeSpace space;
  space.give(0, 100, {1, 1});
  space.give(200, 30, {1, 1});
  EXPECT_EQ(space.best_fit(20, {0, 300}, kAnybody), 200);
  EXPECT_EQ(space.best_fit(20, {75, 300}, kAnybody), 75) << "25 of the first gap are a closer fit than 30";
  EXPECT_EQ(space.best_fit(20, {0, 215}, kAnybody), 0);
  EXPECT_EQ(space.best_fit(20, {81, 219}, kAnybody), std::nullopt);
}

TEST(FreeSpace, TakesTheLowestOfGapsOfOneSize) {
  FreeSpace space;
  for (const Bytes at : {600, 200, 400}) space.give(at, 50, {1, 1});
  EXPECT_EQ(space.best_fit(50, {0, 1000}, kAnybody), 200);
}

}  // namespace
}  // namespace stweaver
