#include "profile/diff.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace stweaver {
namespace {

using Sequence = std::vector<std::uint64_t>;

/// The length of a longest common subsequence by the textbook's table.
std::size_t naive_length(const Sequence& a, const Sequence& b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      table[i + 1][j + 1] = a[i] == b[j] ? table[i][j] + 1 : std::max(table[i][j + 1], table[i + 1][j]);
    }
  }
  return table[a.size()][b.size()];
}

Sequence random_sequence(std::mt19937& random, std::size_t longest, std::uint64_t symbols) {
  Sequence sequence(random() % (longest + 1));
  for (std::uint64_t& symbol : sequence) symbol = random() % symbols;
  return sequence;
}

TEST(Diff, FindsALongestCommonSubsequence) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const Sequence a = random_sequence(random, 30, 1 + random() % 6);
    const Sequence b = random_sequence(random, 30, 1 + random() % 6);
    const auto pairs = common_subsequence(a, b, 1000);
    ASSERT_TRUE(pairs.has_value());
    EXPECT_EQ(pairs->size(), naive_length(a, b));
    for (std::size_t i = 0; i < pairs->size(); ++i) {
      const auto& [x, y] = (*pairs)[i];
      ASSERT_LT(x, a.size());
      ASSERT_LT(y, b.size());
      EXPECT_EQ(a[x], b[y]);
      if (i == 0) continue;
      EXPECT_GT(x, (*pairs)[i - 1].first);
      EXPECT_GT(y, (*pairs)[i - 1].second);
    }
  }
}

TEST(Diff, GivesUpAfterSoManyDifferences) {
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    const Sequence a = random_sequence(random, 20, 4);
    const Sequence b = random_sequence(random, 20, 4);
    const std::size_t differences = a.size() + b.size() - 2 * naive_length(a, b);
    EXPECT_TRUE(common_subsequence(a, b, differences).has_value());
    if (differences > 0) {
      EXPECT_FALSE(common_subsequence(a, b, differences - 1).has_value());
    }
  }
}

TEST(Diff, LooksOnlyAtWhatMayStillReachTheEnd) {
  Sequence longer(1990);
  for (std::size_t i = 0; i < longer.size(); ++i) longer[i] = i;
  for (const std::uint64_t symbol : {0U, 1000U, 1989U}) {
    const auto pairs = common_subsequence(longer, {symbol}, 1989);
    ASSERT_TRUE(pairs.has_value());
    EXPECT_EQ(pairs->size(), 1);
    EXPECT_EQ((*pairs)[0].first, symbol);
  }
  EXPECT_FALSE(common_subsequence(longer, {5}, 1988).has_value());
  EXPECT_FALSE(common_subsequence({5}, longer, 1988).has_value());
  EXPECT_FALSE(common_subsequence(longer, {1990}, 1990).has_value()) << "one more has to go";
}

TEST(Diff, KnowsEmptySequences) {
  EXPECT_EQ(common_subsequence({}, {}, 0)->size(), 0);
  EXPECT_EQ(common_subsequence({1, 2}, {}, 2)->size(), 0);
  EXPECT_EQ(common_subsequence({}, {1, 2}, 2)->size(), 0);
}

}  // namespace
}  // namespace stweaver
