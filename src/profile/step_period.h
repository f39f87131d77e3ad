// Steps by repetition, first half: how many requests a step has, and one place in each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "profile/timeline.h"
#include "trace/model.h"

namespace stweaver {

/// The occurrences of one string of requests, ascending.
using Occurrences = std::vector<RequestId>;

/// How far distances between a string's occurrences may differ: the longest by the shortest.
inline constexpr double kEven = 1.3;

/// A hash of `count` tokens from `first` on, as far as there are so many.
std::uint64_t hash_range(const Tokens& tokens, std::size_t first, std::size_t count);

/// What the period of two or more occurrences is, in requests: the mean of their distances without those that
/// something interrupted.
double period_of(const Occurrences& occurrences);

/// One occurrence per step of a string that a step holds once. Micro-batches and layers repeat too, but
/// oftener, so the slowest rhythm is that of steps. Two kinds of step that happen to alternate make a slower
/// one still; but theirs shows only in the structure or only in the sizes, so a rhythm must show in both (if
/// sizes have any).
std::optional<Occurrences> find_anchors(const Tokens& structure, const Tokens& sizes);

}  // namespace stweaver
