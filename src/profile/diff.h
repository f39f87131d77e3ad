// Diff of two sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace stweaver {

/// A longest common subsequence of `a` and `b` as pairs of indices, ascending (Myers 1986). Nothing when more
/// than `most` insertions and deletions are needed. O((|a|+|b|) * differences) time, O(differences^2) memory.
std::optional<std::vector<std::pair<std::size_t, std::size_t>>> common_subsequence(
    const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b, std::size_t most);

}  // namespace stweaver
