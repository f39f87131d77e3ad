#include "arena/free_space.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "arena/stream_order.h"
#include "device/device.h"

namespace stweaver {
namespace {

constexpr AnyStream kAnyone;

/// Accepts what any stream used last but one; of streams that share no group of a summary.
struct AllBut {
  StreamIndex refused = kNoStream;

  bool operator()(const LastUse& last) const { return last.stream != refused; }
  [[nodiscard]] bool may_use(std::size_t group, Tick) const { return group != GapSummary::group_of(refused); }
};

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
  [[nodiscard]] const LastUse& last(Bytes unit) const { return *cell(unit); }

  [[nodiscard]] Bytes idle() const {
    return std::count_if(cells_.begin(), cells_.end(), [](const auto& cell) { return cell.has_value(); });
  }

  /// Runs of idle units that the same stream freed.
  [[nodiscard]] std::vector<Interval> runs() const {
    std::vector<Interval> all;
    for (Bytes i = 0; i < size(); ++i) {
      if (!is_idle(i)) continue;
      if (!all.empty() && all.back().upper == i && last(i - 1).stream == last(i).stream) {
        all.back().upper = i + 1;
      } else {
        all.push_back({i, i + 1});
      }
    }
    return all;
  }

  /// The lowest of the smallest runs with room for `size` inside `within`.
  [[nodiscard]] std::optional<Bytes> best_fit(Bytes wanted, Interval within, AllBut allowed) const {
    std::optional<Interval> best;
    for (const Interval& run : runs()) {
      const Interval room = {std::max(run.lower, within.lower), std::min(run.upper, within.upper)};
      if (room.upper - room.lower < wanted || !allowed(last(run.lower))) continue;
      if (!best || room.length() < best->length()) best = room;
    }
    return best ? std::optional(best->lower) : std::nullopt;
  }

  /// The lowest run with room for `size` inside `within`.
  [[nodiscard]] std::optional<Bytes> first_fit(Bytes wanted, Interval within, AllBut allowed) const {
    for (const Interval& run : runs()) {
      const Interval room = {std::max(run.lower, within.lower), std::min(run.upper, within.upper)};
      if (room.upper - room.lower >= wanted && allowed(last(run.lower))) return room.lower;
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
class TwinSpaces {
 public:
  TwinSpaces(std::size_t units, StreamIndex streams, unsigned seed)
      : cells_(units), streams_(streams), random_(seed) {}

  void give(Bytes offset, Bytes size) {
    const LastUse last = {any<StreamIndex>(0, streams_ - 1), ++now_};
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
        EXPECT_EQ(gap.last.stream, cells_.last(i).stream);
        EXPECT_GE(gap.last.freed, cells_.last(i).freed)
            << "memory would be taken before its last user is done";
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
  AllBut any_but_one() {
    const auto refused = any<StreamIndex>(0, streams_);
    return {refused == streams_ ? kNoStream : refused};
  }

  bool chance() { return any<int>(0, 1) == 0; }

  void ask_for_range(Bytes offset, Bytes size) {
    const AllBut allowed = any_but_one();
    bool wanted = cells_.is_idle(offset, size);
    for (Bytes i = offset; wanted && i < offset + size; ++i) wanted = allowed(cells_.last(i));
    ASSERT_EQ(space_.take_if(offset, size, allowed), wanted);
    if (wanted) cells_.take(offset, size);
  }

  void ask_for_best(Bytes size) {
    const AllBut allowed = any_but_one();
    Interval within = {any<Bytes>(0, cells_.size()), any<Bytes>(0, cells_.size())};
    if (chance()) within = {0, cells_.size()};
    const std::optional<Bytes> wanted = cells_.best_fit(size, within, allowed);
    ASSERT_EQ(space_.best_fit(size, within, allowed), wanted);
    if (wanted) take(*wanted, size);
  }

  void ask_for_first(Bytes size) {
    const AllBut allowed = any_but_one();
    const Interval within = {any<Bytes>(0, cells_.size()), any<Bytes>(0, cells_.size())};
    const std::optional<Bytes> wanted = cells_.first_fit(size, within, allowed);
    ASSERT_EQ(space_.first_fit(size, within, allowed), wanted);
    if (wanted) take(*wanted, size);
  }

  FreeSpace space_;
  Cells cells_;
  StreamIndex streams_;
  std::mt19937 random_;
  Tick now_ = 0;
};

struct Shape {
  StreamIndex streams = 1;
  Bytes longest = 0;
};

class RandomCalls : public testing::TestWithParam<Shape> {};

TEST_P(RandomCalls, AreAnsweredAsByCountingUnits) {
  for (unsigned seed = 0; seed < 3; ++seed) {
    TwinSpaces twins(600, GetParam().streams, seed);
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
                           return text(shape.param.streams, "Streams", shape.param.longest, "Long");
                         });

TEST(FreeSpace, HoldsThousandsOfGapsAndLosesThemAgain) {
  constexpr std::size_t kUnits = 9000;
  TwinSpaces twins(kUnits, 2, 7);
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
  EXPECT_FALSE(space.take_if(0, 1, kAnyone));
  EXPECT_EQ(space.best_fit(1, {0, 100}, kAnyone), std::nullopt);
  EXPECT_EQ(space.first_fit(1, {0, 100}, kAnyone), std::nullopt);
}

TEST(FreeSpace, JoinsNeighboursOfOneStreamAndKeepsOthersApart) {
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
  EXPECT_FALSE(space.take_if(5, 10, [](const LastUse& last) { return last.stream == 1; }));
  EXPECT_EQ(space.idle(), 20);
  EXPECT_TRUE(space.take_if(5, 10, kAnyone));
  EXPECT_EQ(space.idle(), 10);
  EXPECT_FALSE(space.is_idle(4, 2));
  EXPECT_TRUE(space.is_idle(0, 5) && space.is_idle(15, 5));
}

TEST(FreeSpace, FitsInsideARangeByWhatOfAGapLiesInIt) {
  FreeSpace space;
  space.give(0, 100, {1, 1});
  space.give(200, 30, {1, 1});
  EXPECT_EQ(space.best_fit(20, {0, 300}, kAnyone), 200);
  EXPECT_EQ(space.best_fit(20, {75, 300}, kAnyone), 75) << "25 of the first gap are a closer fit than 30";
  EXPECT_EQ(space.best_fit(20, {0, 215}, kAnyone), 0);
  EXPECT_EQ(space.best_fit(20, {81, 219}, kAnyone), std::nullopt);
}

TEST(FreeSpace, TakesTheLowestOfGapsOfOneSize) {
  FreeSpace space;
  for (const Bytes at : {600, 200, 400}) space.give(at, 50, {1, 1});
  EXPECT_EQ(space.best_fit(50, {0, 1000}, kAnyone), 200);
}

// ---- tens of thousands of gaps of several streams ----

/// Places of 16 units with a unit between them that is never free: so no gaps join.
constexpr Bytes kPlace = 16;
constexpr std::size_t kPlaces = 30'000;

/// A gap or none for each place, and nothing else: every search looks at all of them.
class Naive {
 public:
  void give(const Gap& gap) { at(gap.offset) = gap; }
  void take(Bytes offset) { at(offset) = {}; }

  /// The parts inside `within` of usable gaps that are long enough, lowest first.
  template <typename Usable>
  [[nodiscard]] std::vector<Interval> fitting(Bytes size, Interval within, const Usable& usable) const {
    std::vector<Interval> all;
    for (const Gap& gap : gaps_) {
      const Interval inside = {std::max(gap.offset, within.lower), std::min(gap.end, within.upper)};
      if (inside.length() >= size && usable(gap.last)) all.push_back(inside);
    }
    return all;
  }
  [[nodiscard]] std::size_t gaps() const {
    return static_cast<std::size_t>(
        std::count_if(gaps_.begin(), gaps_.end(), [](const Gap& gap) { return gap.end > gap.offset; }));
  }

 private:
  Gap& at(Bytes offset) { return gaps_[static_cast<std::size_t>(offset / (kPlace + 1))]; }

  std::vector<Gap> gaps_ = std::vector<Gap>(kPlaces);
};

class ManyGaps : public testing::TestWithParam<unsigned> {
 protected:
  static constexpr StreamIndex kStreams = 6;  ///< more than a summary has groups for

  ManyGaps() {
    for (StreamIndex stream = 0; stream < kStreams; ++stream) order.index_of(stream);
    for (std::size_t i = 0; i < kPlaces; ++i) places[i] = static_cast<Bytes>(i) * (kPlace + 1);
  }

  Bytes any(Bytes low, Bytes high) { return std::uniform_int_distribution<Bytes>(low, high)(random); }
  StreamIndex any_stream() { return static_cast<StreamIndex>(any(0, kStreams - 1)); }
  void shuffle() { std::shuffle(places.begin(), places.end(), random); }

  void give(Bytes offset) {
    LastUse last = {any_stream(), ++now};
    if (any(0, 9) == 0) last = {};  // new memory
    const Bytes size = any(1, kPlace);
    space.give(offset, size, last);
    naive.give({offset, offset + size, last});
    sizes[offset] = size;
  }
  void take(Bytes offset) {
    space.take(offset, sizes[offset]);
    naive.take(offset);
  }
  /// Now and then a stream gets to know what another did.
  void learn() {
    if (any(0, 3) == 0) {
      order.settle(now / 2);
    } else {
      ASSERT_TRUE(order.order(any_stream(), {any_stream(), now}, now));
    }
  }

  void expect_alike() {
    ASSERT_EQ(space.gaps(), naive.gaps());
    const Bytes end = static_cast<Bytes>(kPlaces) * (kPlace + 1);
    for (const Bytes size : {Bytes{1}, any(1, kPlace), kPlace, kPlace + 1}) {
      Interval within = {any(0, end), any(0, end)};
      if (within.upper < within.lower) std::swap(within.lower, within.upper);
      if (any(0, 3) == 0) within = {0, end};
      const StreamOrder::Usable usable = order.usable_by(any_stream());
      const std::vector<Interval> wanted = naive.fitting(size, within, usable);
      std::vector<Interval> found;
      space.each_fitting(size, within, usable, [&](const Interval& gap) {
        found.push_back(gap);
        return true;
      });
      ASSERT_EQ(found, wanted);
      const auto first = space.first_fit(size, within, usable);
      const auto best = space.best_fit(size, within, usable);
      ASSERT_EQ(first.has_value(), !wanted.empty());
      ASSERT_EQ(best.has_value(), !wanted.empty());
      if (wanted.empty()) continue;
      const auto smallest =
          std::min_element(wanted.begin(), wanted.end(),
                           [](const Interval& a, const Interval& b) { return a.length() < b.length(); });
      ASSERT_EQ(*first, wanted.front().lower);
      ASSERT_EQ(*best, smallest->lower);
    }
  }

  HostDevice device{kGiB};
  StreamOrder order{device};
  FreeSpace space;
  Naive naive;
  std::mt19937 random{GetParam()};
  std::vector<Bytes> places = std::vector<Bytes>(kPlaces);
  std::map<Bytes, Bytes> sizes;
  Tick now = 0;
};

TEST_P(ManyGaps, AreSearchedAsByLookingAtEach) {
  for (int round = 0; round < 2; ++round) {
    shuffle();
    for (std::size_t i = 0; i < kPlaces && !HasFatalFailure(); ++i) {
      give(places[i]);
      if (i % 300 == 0) expect_alike();
      if (i % 1000 == 0) learn();
    }
    ASSERT_EQ(space.gaps(), kPlaces);
    // In order, so that whole branches get empty, or at random, so that leaves do.
    if (round == 0) std::sort(places.begin(), places.end());
    if (round == 1) shuffle();
    for (std::size_t i = 0; i < kPlaces && !HasFatalFailure(); ++i) {
      take(places[i]);
      if (i % 300 == 0) expect_alike();
    }
    ASSERT_EQ(space.gaps(), 0U);
    ASSERT_EQ(space.idle(), 0);
  }
}
INSTANTIATE_TEST_SUITE_P(FreeSpace, ManyGaps, testing::Range(0U, 2U));

TEST(FreeSpace, FitsBesideRangesThatAreTaken) {
  FreeSpace space;
  space.give(0, 100, {1, 1});
  space.give(200, 30, {1, 1});
  const std::vector<Interval> taken = {{20, 60}, {95, 210}};
  EXPECT_EQ(space.best_fit(20, {0, 300}, kAnyone, taken), 0) << "20 units, the same as behind the second";
  EXPECT_EQ(space.best_fit(21, {0, 300}, kAnyone, taken), 60);
  EXPECT_EQ(space.best_fit(20, {1, 300}, kAnyone, taken), 210);
  EXPECT_EQ(space.best_fit(36, {0, 300}, kAnyone, taken), std::nullopt);
}

}  // namespace
}  // namespace stweaver
