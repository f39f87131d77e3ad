// Numbers that a file may hold to make hash tables slow.
#pragma once

#include <cstdint>
#include <ctime>

#include <gtest/gtest.h>

namespace stweaver {

/// A number of buckets that the standard library's tables grow to, which take a number for its own hash: from
/// half of it on, its multiples all go into one bucket.
constexpr std::int64_t kBuckets = 172933;
constexpr std::int64_t kColliding = 100'000;

/// Calls read(step) for kColliding numbers, each larger by `step` than the one before. Failure when multiples
/// of kBuckets take far longer than others.
template <typename Read>
void expect_no_collisions(const Read& read) {
  const auto seconds = [&](std::int64_t step) {
    const std::clock_t begin = std::clock();
    read(step);
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const double others = seconds(kBuckets + 1);
  EXPECT_LE(seconds(kBuckets), 5 * others + 0.1);
}

}  // namespace stweaver
