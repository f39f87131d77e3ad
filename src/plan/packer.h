// What every constructor of placements has in common.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <stop_token>
#include <string>

#include "plan/instance.h"

namespace stweaver {

using Clock = std::chrono::steady_clock;

/// How far a packer may go before it gives up.
struct Budget {
  Bytes peak = std::numeric_limits<Bytes>::max();  ///< a placement that reaches this is of no use
  Clock::time_point deadline = Clock::time_point::max();
  std::stop_token stop = {};  ///< somebody else no longer needs the answer

  [[nodiscard]] bool exceeded_by(Bytes top) const { return top >= peak; }
  [[nodiscard]] bool over() const { return stop.stop_requested() || Clock::now() >= deadline; }
};

/// `seconds` after `begin`; never, if that is more than some decades. Negative ones count as 0.
inline Clock::time_point deadline_after(Clock::time_point begin, double seconds) {
  constexpr double kForeverSeconds = 1e9;
  if (!(seconds < kForeverSeconds)) return Clock::time_point::max();
  return begin +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::max(seconds, 0.0)));
}

}  // namespace stweaver
