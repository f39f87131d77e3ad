// Groups of dynamic requests: what an MoE layer's experts hold.
#pragma once

#include <vector>

#include "profile/pattern.h"

namespace stweaver {

/// Dynamic positions of one stream that are born in a row and die in a row. Their sizes move one against the
/// other (tokens spread over experts), so all together need hardly more in one step than in another.
struct DynamicGroup {
  std::vector<std::uint32_t> members;  ///< positions, ascending
  Lifespan life;                       ///< of all members, in positions
  Stream stream = 0;
  Bytes size = 0;  ///< the most that the members alive at one time had in any step, each rounded up
};

/// All groups of the pattern. What outlives a step or belongs to a private pool is in none of them.
std::vector<DynamicGroup> find_dynamic_groups(const Pattern& pattern, const Trace& trace, Bytes alignment);

}  // namespace stweaver
