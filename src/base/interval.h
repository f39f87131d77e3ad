// Half-open intervals [lower, upper).
#pragma once

#include <cstdint>

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

}  // namespace stweaver
