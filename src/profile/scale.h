// What sizes that follow hidden lengths come to, in longer batches than were recorded.
#pragma once

#include <cstddef>
#include <vector>

#include "base/base.h"
#include "profile/pattern.h"

namespace stweaver {

/// The sizes of a step follow no more lengths than that.
inline constexpr std::size_t kMostLengths = 16;

/// Whether one of the sizes is the other but for rounding: to multiples of a tile, to whole rows.
bool are_about_equal(double expected, double size);

/// Whether the one position's size is `ratio` times the other's, but for rounding: up to the same tile where
/// their sizes come in tiles.
bool are_in_ratio(double ratio, const Position& other, const Position& position);

/// Whether the lengths that fit_to_longest() found tell what sizes become in longer batches than were seen:
/// of sizes that follow none, what the largest has over the smallest comes, with what steps lack on average
/// (of several lengths: at all), to a 600th of all bytes that vary at most. And whether they go together:
/// where one is longer no other is shorter.
bool lengths_foretell_sizes(const Pattern& pattern);

/// Finds the lengths that sizes follow, and with which power of which each position grows, and lets each be
/// as large as the longest batch seen needs it, for a position may have met shorter ones alone. `batches` has
/// the positions of each micro-batch whose sizes vary; most of a batch's bytes tell its first length, or its
/// square, most of the bytes that do not follow that one its second, and so on, up to `lengths` of them.
///
/// A length (of a sequence) is never seen itself. But most tensors are proportional to it, so that what one
/// needs of the largest seen at its position is what others need of theirs. Against that share each
/// position's sizes are fitted, as share, share^2 (attention scores), share in whole tiles, a sum of two of
/// 1, share and share^2, or share up to a largest size, whichever first agrees with all steps.
void fit_to_longest(Pattern& pattern, const Trace& trace,
                    const std::vector<std::vector<std::size_t>>& batches, std::size_t lengths);

}  // namespace stweaver
