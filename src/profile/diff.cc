#include "profile/diff.h"

#include <algorithm>
#include <cstdlib>

namespace stweaver {
namespace {

using Index = std::ptrdiff_t;

constexpr Index kNever = -1;

/// How far each diagonal x - y = k got with a given number of differences: x for every other diagonal.
class Frontier {
 public:
  Frontier(Index lowest, Index highest)
      : lowest_(lowest), reached_(static_cast<std::size_t>((highest - lowest) / 2 + 1), kNever) {}

  Index& at(Index diagonal) { return reached_[static_cast<std::size_t>((diagonal - lowest_) / 2)]; }
  [[nodiscard]] Index reached(Index diagonal) const {
    const Index number = (diagonal - lowest_) / 2;
    const bool has = diagonal >= lowest_ && number < static_cast<Index>(reached_.size());
    return has ? reached_[static_cast<std::size_t>(number)] : kNever;
  }

 private:
  Index lowest_ = 0;
  std::vector<Index> reached_;
};

/// One step from the frontier before onto a diagonal: over an element of `a`, or of `b`.
Index over_a(const Frontier& before, Index diagonal) {
  const Index x = before.reached(diagonal - 1);
  return x == kNever ? kNever : x + 1;
}
Index over_b(const Frontier& before, Index diagonal) {
  return before.reached(diagonal + 1);
}

}  // namespace

std::optional<std::vector<std::pair<std::size_t, std::size_t>>> common_subsequence(
    const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b, std::size_t most) {
  const auto n = static_cast<Index>(a.size());
  const auto m = static_cast<Index>(b.size());
  std::vector<Frontier> frontiers;
  const auto snake = [&](Index x, Index diagonal) {
    while (x < n && x - diagonal < m &&
           a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(x - diagonal)])
      ++x;
    return x;
  };

  const Index last = n - m;
  const auto allowed = static_cast<Index>(std::min(most, a.size() + b.size()));
  if (std::abs(last) > allowed) return std::nullopt;
  Index differences = 0;
  for (bool reached = false; !reached; ++differences) {
    if (differences > allowed) return std::nullopt;
    // Of other diagonals the last one is too far for what is left.
    const Index left = allowed - differences;
    const Index odd = std::abs(last - left - differences) % 2;
    const Index lowest = std::max(-differences, last - left + odd);
    const Index highest = std::min(differences, last + left - odd);
    if (lowest > highest) return std::nullopt;
    Frontier frontier(lowest, highest);
    for (Index k = lowest; k <= highest; k += 2) {
      Index x = 0;
      if (differences > 0) x = std::max(over_a(frontiers.back(), k), over_b(frontiers.back(), k));
      // A diagonal that left the grid stays outside: clamped, it can neither match nor reach the corner.
      x = std::min(x, n);
      if (x - k <= m && x - k >= 0) x = snake(x, k);
      frontier.at(k) = x;
      reached = reached || (x >= n && x - k >= m);
    }
    frontiers.push_back(std::move(frontier));
  }
  --differences;

  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  Index x = n;
  Index k = last;
  for (Index d = differences; d > 0; --d) {
    const Frontier& before = frontiers[static_cast<std::size_t>(d - 1)];
    const bool inserted = over_a(before, k) < over_b(before, k);
    const Index start = inserted ? over_b(before, k) : over_a(before, k);
    for (; x > start; --x) pairs.emplace_back(x - 1, x - 1 - k);
    k = inserted ? k + 1 : k - 1;
    x = inserted ? start : start - 1;
  }
  for (; x > 0; --x) pairs.emplace_back(x - 1, x - 1 - k);
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

}  // namespace stweaver
