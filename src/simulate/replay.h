// Serving a trace through an allocator.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "simulate/allocator.h"
#include "trace/model.h"

namespace stweaver {

/// What became of a trace under an allocator.
struct ReplayResult {
  Bytes reserved_peak = 0;
  Bytes requested_peak = 0;  ///< of the requests that were served: peak_requested(trace) if `ooms` is 0
  std::int64_t retries = 0;
  std::int64_t ooms = 0;          ///< requests that could not be served; the job would have died at the first
  std::vector<Reserve> reserves;  ///< bytes reserved from an event on, wherever they change

  /// Peak requested / peak reserved; 1 when nothing was reserved.
  [[nodiscard]] double efficiency() const;
};

namespace replay_detail {

/// Keeps which block each request got, and the curve of the reserve.
template <Allocator A>
class Replayer {
 public:
  Replayer(const Trace& trace, A& allocator)
      : trace_(trace), allocator_(allocator), blocks_(trace.requests.size()) {}

  void allocate(RequestId id, Time now) {
    const Request& request = trace_.requests[id];
    blocks_[id] = allocator_.allocate(request.size, request.stream, request.pool);
    note_reserve(now);
  }

  void free(RequestId id, Time now) {
    if (blocks_[id]) allocator_.free(*blocks_[id]);
    note_reserve(now);
  }

  ReplayResult result() && {
    const AllocatorStatistics& end = allocator_.statistics();
    return {end.reserved_peak, end.requested_peak, end.retries, end.ooms, std::move(reserves_)};
  }

 private:
  void note_reserve(Time now) {
    const Bytes reserved = allocator_.statistics().reserved;
    if (reserved == reserved_) return;
    reserved_ = reserved;
    if (!reserves_.empty() && reserves_.back().time == now) {
      reserves_.back().bytes = reserved;
    } else {
      reserves_.push_back({now, reserved});
    }
  }

  const Trace& trace_;
  A& allocator_;
  std::vector<std::optional<Address>> blocks_;
  Bytes reserved_ = 0;
  std::vector<Reserve> reserves_;
};

}  // namespace replay_detail

/// Serves a valid trace through a fresh allocator: first what was alive before recording, then event by
/// event. A request goes back when its memory may be used again (life.upper). An allocator that wants to know
/// of steps (begin_step()) hears of each of `steps`, the times at which they begin, ascending.
template <Allocator A>
ReplayResult replay(const Trace& trace, A& allocator, const std::vector<Time>& steps = {}) {
  replay_detail::Replayer<A> replayer(trace, allocator);
  for (RequestId id = 0; id < trace.requests.size() && trace.requests[id].life.lower == kBeforeRecording;
       ++id) {
    replayer.allocate(id, 0);
  }
  Time now = 0;
  auto step = steps.begin();
  for (const Event& event : events_of(trace)) {
    for (; step != steps.end() && *step == now; ++step) {
      if constexpr (requires { allocator.begin_step(); }) allocator.begin_step();
    }
    if (event.kind == EventKind::kAllocate) replayer.allocate(event.request, now);
    if (event.kind == EventKind::kFree) replayer.free(event.request, now);
    ++now;
  }
  return std::move(replayer).result();
}

/// The most that the recorded allocator held, as the trace's own segment events say; nothing without such
/// events.
std::optional<Bytes> measured_reserve_peak(const Trace& trace);

}  // namespace stweaver
