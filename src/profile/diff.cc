#include "profile/diff.h"

#include <algorithm>

namespace stweaver {
namespace {

using Index = std::ptrdiff_t;

/// How far each diagonal x - y = k got with a given number of differences: x per diagonal, k in [-d, d]
/// step 2.
using Frontier = std::vector<Index>;

Index& at(Frontier& frontier, Index d, Index diagonal) {
  return frontier[static_cast<std::size_t>((diagonal + d) / 2)];
}

/// Where diagonal k starts with d differences, before the snake: one step from the frontier of d - 1.
Index step_from(Frontier& previous, Index d, Index diagonal) {
  if (diagonal == -d) return at(previous, d - 1, diagonal + 1);
  if (diagonal == d) return at(previous, d - 1, diagonal - 1) + 1;
  return std::max(at(previous, d - 1, diagonal - 1) + 1, at(previous, d - 1, diagonal + 1));
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

  Index differences = 0;
  for (bool reached = false; !reached; ++differences) {
    if (differences > static_cast<Index>(most)) return std::nullopt;
    Frontier frontier(static_cast<std::size_t>(differences) + 1);
    for (Index k = -differences; k <= differences; k += 2) {
      Index x = differences == 0 ? 0 : step_from(frontiers.back(), differences, k);
      // A diagonal that left the grid stays outside: clamped, it can neither match nor reach the corner.
      x = std::min(x, n);
      if (x - k <= m && x - k >= 0) x = snake(x, k);
      at(frontier, differences, k) = x;
      reached = reached || (x >= n && x - k >= m);
    }
    frontiers.push_back(std::move(frontier));
  }
  --differences;

  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  Index x = n;
  Index k = n - m;
  for (Index d = differences; d >= 0; --d) {
    const Index start = d == 0 ? 0 : step_from(frontiers[static_cast<std::size_t>(d - 1)], d, k);
    for (; x > start; --x) pairs.emplace_back(x - 1, x - 1 - k);
    if (d == 0) break;
    Frontier& previous = frontiers[static_cast<std::size_t>(d - 1)];
    const bool inserted = k == -d || (k != d && at(previous, d - 1, k - 1) + 1 < at(previous, d - 1, k + 1));
    k = inserted ? k + 1 : k - 1;
    x = inserted ? start : start - 1;
  }
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

}  // namespace stweaver
