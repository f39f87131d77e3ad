// The rules of memory: every number by which the arena trades one thing for another.
#pragma once

#include <algorithm>

#include "base/base.h"

namespace stweaver {

/// The part of Policy (runtime/policy.h) that needs no plan.
struct ArenaPolicy {
  /// The idle memory that a job may hold.
  [[nodiscard]] Bytes slack(Bytes most_in_use) const {
    return std::max(most_in_use / slack_share, least_slack);
  }

  // Memory (memory.h).
  /// Addresses reserved for the arena, in sizes of the device's memory: in the region of large requests free
  /// ones must remain that no extent interrupts for as long as the largest request is.
  Bytes addresses = 64;
  /// Memory may be mapped beyond the most ever in use by this share of it,
  Bytes slack_share = kSlackShare;
  /// and in small jobs by this: a block.
  Bytes least_slack = kLeastSlack;
  /// An extent is never larger: one block pins no more than that.
  Bytes most_extent = 256 * kMiB;
  /// Memory for small and medium requests, and for planned ones before a step was as planned, is mapped in
  /// blocks of this size while there is slack.
  Bytes block = 8 * kMiB;

  // Where unplanned requests go (placer.h).
  /// Requests up to this have addresses of their own, as in PyTorch.
  Bytes small = kSmallSize;
  /// Requests from this on have extents of their own.
  Bytes large = 16 * kMiB;
  /// A large request keeps so much more memory from moving where that saves a driver call.
  Bytes pinned_per_call = kMiB / 2;
};

}  // namespace stweaver
