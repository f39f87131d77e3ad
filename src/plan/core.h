// Core first: what lives where the load is near the bound is placed exactly, the rest around it.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/packer.h"

namespace stweaver {

struct CoreOptions {
  Bytes capacity = 0;      ///< to stay within, persistent requests included
  Bytes slack = 0;         ///< the core is what lives where the load is above the bound less this
  std::int64_t steps = 0;  ///< of exact search in all: nodes times items of the window
};

/// First the *core* is cut out: all that lives at a *summit*, a stretch of time where the load is near the
/// bound. Items that meet the same others are joined to one block; only one of each of the sizes that are
/// most of it stays loose, to fill what the blocks leave.
///
/// Then exact search places the blocks in windows of a few summits, each one summit further than the last.
/// What has been born before is fixed; a window without a solution sends the search back to the one before,
/// which tries another order. In a pipeline a micro-batch can spoil what comes several micro-batches later,
/// but hardly more than it lives itself, and so long is the window.
///
/// Last, what is not of the core is swept in around it; that may reach above the capacity.
///
/// Nothing when the steps or the budget ran out, or above kMostMemory. Wants a plain instance.
std::optional<Placement> core_first(const Instance& instance, const CoreOptions& options,
                                    const Budget& budget);

}  // namespace stweaver
