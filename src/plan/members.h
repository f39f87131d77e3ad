// The members of the portfolio: who takes part, in which order, and from which round on.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/packer.h"

namespace stweaver {

/// What a search is made of.
enum class Part : unsigned char { kSweeps, kSkylines, kRings, kRows, kCore, kHomophase, kBestFits, kExact };

/// A constructor in the portfolio. `step` returns its next placement, or nothing when it has no more to give.
struct Member {
  std::string name;
  Part part = Part::kSweeps;
  int first_round = 0;  ///< the costly ones join late: most instances are solved before
  std::function<std::optional<Placement>(const Budget&)> step;
};

/// The members for an instance, which must outlive them; the first of several that meet `bound` wins. Those
/// that know neither lanes nor echoes are left out when it has some.
std::vector<Member> portfolio_members(const Instance& instance, Bytes bound);

}  // namespace stweaver
