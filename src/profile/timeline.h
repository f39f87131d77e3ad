// Time counted in requests instead of events.
//
// Whether two requests ever live together is decided at births alone: b, born after a, meets a exactly if a
// is freed after b's birth. Counting births therefore loses nothing and halves the time axis; and the numbers
// of two steps can be compared position by position.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/model.h"

namespace stweaver {

/// For each time t in [0, trace.end]: how many requests were born before t. The request with that number is
/// the first one born at t or later.
std::vector<RequestId> births_before(const Trace& trace);

/// A request's death counted in requests: the first request born after its memory was free (requests.size()
/// if none). Wants a request that was freed.
inline RequestId death_of(const Request& request, const std::vector<RequestId>& births) {
  return births[static_cast<std::size_t>(request.life.upper)];
}

/// One token per request: what it looks like.
using Tokens = std::vector<std::uint64_t>;

/// What a request looks like in a diff whatever its size: stream, pool and how long until the program lets go
/// of it.
Tokens structure_tokens(const Trace& trace);

/// What a request looks like in a diff whatever its lifetime: stream, pool and size.
Tokens size_tokens(const Trace& trace);

/// The trace as it stood when `end` events had been recorded: what is freed later is never freed in it.
Trace prefix_of(const Trace& trace, Time end);

}  // namespace stweaver
