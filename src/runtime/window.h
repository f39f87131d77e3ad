// Places that are partly idle memory and partly addresses without memory.
#pragma once

#include <functional>
#include <optional>

#include "runtime/arena.h"

namespace stweaver {

/// Where nobody lives; it can be given to somebody once there is memory behind all of it.
struct Window {
  Interval range;
  Bytes missing = 0;  ///< what map() will put there, in whole pages
};

/// The window of `room` bytes in `region` that lacks the least memory, the lowest of equals: a request that
/// is a little larger than the largest gap grows that gap into the addresses beside it, where it can, and
/// nothing has to move. Nothing when the region is too small or lived in everywhere. `usable` says of idle
/// memory, by who used it last, whether it may be part of a window. O(extents + gaps * log gaps).
std::optional<Window> find_window(const Arena& arena, Bytes room, const Interval& region,
                                  const std::function<bool(const LastUse&)>& usable);

}  // namespace stweaver
