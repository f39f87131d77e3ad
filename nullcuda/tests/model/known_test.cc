#include "model/known.h"

#include <cstdint>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace nullcuda {
namespace {

TEST(KnownBytes, HoldNothingAtFirstAndNoBytesAlways) {
  const KnownBytes known;
  EXPECT_TRUE(known.empty());
  EXPECT_FALSE(known.holds(0, 1));
  EXPECT_TRUE(known.holds(5, 0));
}

TEST(KnownBytes, HoldWhatTouchesAsOne) {
  KnownBytes known;
  known.add(10, 10);
  known.add(30, 10);
  EXPECT_FALSE(known.holds(10, 30));
  known.add(20, 10);
  EXPECT_TRUE(known.holds(10, 30));
  EXPECT_FALSE(known.holds(9, 2));
  EXPECT_FALSE(known.holds(39, 2));
}

TEST(KnownBytes, AreCutInTwo) {
  KnownBytes known;
  known.add(10, 30);
  known.remove(20, 10);
  EXPECT_TRUE(known.holds(10, 10));
  EXPECT_FALSE(known.holds(20, 1));
  EXPECT_FALSE(known.holds(29, 1));
  EXPECT_TRUE(known.holds(30, 10));
  known.remove(0, 100);
  EXPECT_TRUE(known.empty());
}

TEST(KnownBytes, AreASet) {
  constexpr std::uint64_t kBytes = 64;
  constexpr int kSteps = 20000;
  std::mt19937_64 random(1);
  const auto below = [&](std::uint64_t most) { return random() % most; };
  KnownBytes known;
  std::set<std::uint64_t> naive;
  for (int step = 0; step < kSteps; ++step) {
    const std::uint64_t begin = below(kBytes);
    const std::uint64_t size = below(below(4) == 0 ? kBytes : 8);
    if (below(2) == 0) {
      known.add(begin, size);
      for (std::uint64_t byte = begin; byte < begin + size; ++byte) naive.insert(byte);
    } else {
      known.remove(begin, size);
      naive.erase(naive.lower_bound(begin), naive.lower_bound(begin + size));
    }
    const std::uint64_t from = below(kBytes);
    const std::uint64_t length = below(12);
    bool all = true;
    for (std::uint64_t byte = from; byte < from + length; ++byte) all = all && naive.contains(byte);
    ASSERT_EQ(known.holds(from, length), all) << "step " << step;
    ASSERT_EQ(known.empty(), naive.empty()) << "step " << step;
  }
}

}  // namespace
}  // namespace nullcuda
