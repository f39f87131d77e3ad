// Half-open intervals [lower, upper).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stweaver {

/// [lower, upper). Empty when lower >= upper.
struct Interval {
  std::int64_t lower = 0;
  std::int64_t upper = 0;

  [[nodiscard]] constexpr bool empty() const { return lower >= upper; }
  [[nodiscard]] constexpr std::int64_t length() const { return empty() ? 0 : upper - lower; }
  [[nodiscard]] constexpr bool contains(std::int64_t point) const { return lower <= point && point < upper; }
  friend constexpr bool operator==(const Interval&, const Interval&) = default;
};

constexpr bool overlaps(const Interval& a, const Interval& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

/// What lies in both; empty where nothing does.
constexpr Interval common(const Interval& a, const Interval& b) {
  return {std::max(a.lower, b.lower), std::min(a.upper, b.upper)};
}

/// Sorts them, and joins those that overlap or touch.
inline void join(std::vector<Interval>& intervals) {
  std::ranges::sort(intervals, {}, &Interval::lower);
  std::size_t kept = 0;
  for (const Interval& interval : intervals) {
    if (kept > 0 && interval.lower <= intervals[kept - 1].upper) {
      intervals[kept - 1].upper = std::max(intervals[kept - 1].upper, interval.upper);
    } else {
      intervals[kept++] = interval;
    }
  }
  intervals.resize(kept);
}

}  // namespace stweaver
