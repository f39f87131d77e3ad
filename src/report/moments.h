// Two moments of a job: when it asks for the most, and when the default allocator's reserve grows for the
// last time although memory of it is idle.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "profile/profile.h"
#include "simulate/caching_allocator.h"

namespace stweaver {

/// Requests alike: made at one line of code where the trace knows that, else of one size; of one class and
/// stream.
struct AliveGroup {
  std::uint32_t site = 0;  ///< index into Trace::sites; 0 where it is not known
  LifeClass life = LifeClass::kPersistent;
  Stream stream = 0;
  std::size_t requests = 0;
  Bytes bytes = 0;     ///< of all of them
  Bytes largest = 0;   ///< of one
  Bytes smallest = 0;  ///< of one
};

/// The first moment at which the requests that live are the most.
struct PeakMoment {
  Time time = 0;  ///< of the event that reaches the peak
  Bytes bytes = 0;
  std::size_t requests = 0;        ///< alive
  std::vector<AliveGroup> groups;  ///< of them, the largest first
};
PeakMoment peak_moment(const Trace& trace, const std::vector<LifeClass>& classes);

/// PyTorch's default allocator just before its reserve reached its peak: it had no free block that a request
/// could take, whatever else was free.
struct StrandedMoment {
  Time time = 0;                   ///< of the request's event
  std::optional<Request> request;  ///< the one that made the reserve grow; none if that was before recording
  Bytes reserved = 0;
  Bytes allocated = 0;  ///< in blocks that are in use, after rounding
  Bytes requested = 0;  ///< what was asked for in those
  std::vector<CachedSegment> segments;
};

/// `reserves`: what the default allocator of PyTorch, simulated, reserved (ReplayResult).
StrandedMoment stranded_moment(const Trace& trace, const std::vector<Reserve>& reserves);

}  // namespace stweaver
