// The portfolio: every constructor takes part, the best placement wins.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "plan/members.h"

namespace stweaver {

struct PortfolioResult {
  Placement placement;
  Bytes lower_bound = 0;
  Bytes peak = 0;
  std::string winner;  ///< the member that found it
  double seconds = 0;
  int threads = 0;
};

struct PortfolioOptions {
  int threads = 0;     ///< 0: as many as the machine has
  double timeout = 1;  ///< seconds after which the best placement so far is returned; infinity is allowed
  Bytes page = 1;      ///< memory comes in so many bytes: a peak is as good as the next multiple
  std::stop_token stop = {};                 ///< returns the best placement so far, too
  std::vector<Part> without = {};            ///< members that are left out; somebody who can must stay
  std::function<void(Bytes)> improved = {};  ///< called by the thread that asked, at each better peak
};

/// Runs the members round by round, one step each, on several threads; stops when a placement meets the
/// bound rounded up to whole pages, when nobody has more to give, or at the timeout. What a round may use of
/// the others is fixed at its start, so the outcome depends on the instance alone, not on threads or timing,
/// unless the timeout strikes.
PortfolioResult run_portfolio(const Instance& instance, const PortfolioOptions& options);

}  // namespace stweaver
