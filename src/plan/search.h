// The whole search for a placement: constructors first, then exact search where it can help.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "plan/packer.h"
#include "plan/portfolio.h"

namespace stweaver {

/// What a search knows while it goes on.
struct SearchProgress {
  Bytes lower_bound = 0;
  Bytes peak = 0;
  double seconds = 0;  ///< since its beginning
};

using SearchWatch = std::function<void(const SearchProgress&)>;

struct SearchOptions {
  int threads = 0;         ///< 0: as many as the machine has
  double timeout = 1;      ///< seconds after which the best placement so far is returned; infinity is allowed
  bool anytime = false;    ///< go on until the peak is as low as it can be, or time is up
  Bytes capacity = 0;      ///< a peak that is good enough, if above the lower bound
  Bytes page = 1;          ///< memory comes in so many bytes: a peak is as good as the next multiple
  std::uint64_t seed = 1;  ///< of exact search
  std::stop_token stop = {};       ///< ends the search early: the best placement so far is returned
  std::vector<Part> without = {};  ///< what is left out, to see what it is good for
  SearchWatch improved = {};       ///< called by the thread that asked, at each better peak
};

struct SearchResult {
  Placement placement;
  Bytes lower_bound = 0;  ///< the max-load bound, or more if exact search proved more
  Bytes peak = 0;
  std::string winner;  ///< who found it
  double seconds = 0;
  int threads = 0;
};

/// First comes exact search for a moment, if the instance has one lane and is small enough: many hard ones
/// are easy for it. Then the portfolio of constructors. While its peak is above the bound (rounded up to
/// whole pages), or `capacity`, by more than the slack, exact search goes on there and, with a quarter of the
/// effort, half-way between what failed and what was found, with twice the effort each time; `anytime`, until
/// the peak is no higher.
///
/// The outcome depends on the instance, seed and threads alone, not on timing, unless the timeout strikes.
SearchResult search(const Instance& instance, const SearchOptions& options);

}  // namespace stweaver
