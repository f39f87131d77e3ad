// Items whose sizes have a given sum.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "base/size.h"

namespace stweaver {

using Counts = std::map<Bytes, std::size_t>;  ///< how many of each size

Bytes sum_of(const Counts& counts);

/// Chooses items whose sizes have a sum of `most`, or up to `slack` less; the largest first. Nothing when
/// there are none, or when none were found within some thousands of choices.
std::optional<Counts> exact_sum(const Counts& sizes, Bytes most, Bytes slack = 0);

}  // namespace stweaver
