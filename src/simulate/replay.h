// Serving a trace through an allocator.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulate/allocator.h"
#include "simulate/segment_log.h"
#include "simulate/witness.h"
#include "trace/model.h"

namespace stweaver {

struct ReplayOptions {
  /// When steps begin, ascending: an allocator that wants to know (begin_step()) is told.
  std::vector<Time> steps = {};
  Watch watch = {};
  SegmentLog* segments = nullptr;  ///< is told the time; to be told of segments by whoever takes them
};

/// What became of a trace under an allocator.
struct ReplayResult {
  Bytes reserved_peak = 0;
  Bytes requested_peak = 0;  ///< of the requests that were served: peak_requested(trace) if `ooms` is 0
  std::int64_t retries = 0;
  std::int64_t ooms = 0;  ///< requests that could not be served; the job would have died at the first
  std::vector<Reserve> reserves = {};  ///< bytes reserved from an event on, wherever they change
  std::vector<std::optional<Address>> addresses = {};  ///< by request: where it was served, if it was
  std::vector<SegmentChange> segments = {};            ///< what the log was told, if there was one
  std::int64_t corrupt_blocks = 0;
  std::string corruption = {};  ///< the first of them, in one sentence
  double seconds = 0;           ///< in all, with stamps
  double ns_per_event = 0;      ///< the allocator's own time for an allocation or a free, on average

  /// Peak requested / peak reserved; 1 when nothing was reserved.
  [[nodiscard]] double efficiency() const;
};

namespace replay_detail {

using Clock = std::chrono::steady_clock;

/// Sums up the time of many short calls, less what looking at the clock takes.
class Stopwatch {
 public:
  Stopwatch();

  /// A call that began at `begin` is over.
  void stop(Clock::time_point begin) {
    sum_ += Clock::now() - begin;
    ++calls_;
  }

  [[nodiscard]] double ns_per_call() const;

 private:
  Clock::duration sum_ = {};
  std::int64_t calls_ = 0;
  double own_ns_ = 0;  ///< of a call that does nothing
};

/// Keeps which block each request got, and the curve of the reserve.
template <Allocator A>
class Replayer {
 public:
  Replayer(const Trace& trace, A& allocator, const ReplayOptions& options)
      : trace_(trace),
        allocator_(allocator),
        blocks_(trace.requests.size()),
        addresses_(trace.requests.size()),
        witness_(trace, options.watch),
        log_(options.segments) {}

  /// For the log: so many events are over.
  void set_time(Time now) {
    if (log_ != nullptr) log_->set_time(now);
  }

  void allocate(RequestId id, Time now) {
    const Request& request = trace_.requests[id];
    const Clock::time_point begin = Clock::now();
    blocks_[id] = allocator_.allocate(request.size, request.stream, request.pool);
    stopwatch_.stop(begin);
    addresses_[id] = blocks_[id];
    if (blocks_[id]) witness_.granted(id, *blocks_[id]);
    note_reserve(now);
  }

  void free(RequestId id, Time now) {
    set_time(now + 1);  // what it gives back comes after it
    if (const std::optional<Address> block = std::exchange(blocks_[id], std::nullopt)) {
      witness_.let_go(id, *block);
      const Clock::time_point begin = Clock::now();
      allocator_.free(*block);
      stopwatch_.stop(begin);
    }
    note_reserve(now);
  }

  void begin_step(Time now) {
    if constexpr (requires { allocator_.begin_step(); }) {
      allocator_.begin_step();
      note_reserve(now);
    }
  }

  ReplayResult result() && {
    for (RequestId id = 0; id < blocks_.size(); ++id) {
      if (blocks_[id]) witness_.let_go(id, *blocks_[id]);
    }
    const AllocatorStatistics& end = allocator_.statistics();
    return {.reserved_peak = end.reserved_peak,
            .requested_peak = end.requested_peak,
            .retries = end.retries,
            .ooms = end.ooms,
            .reserves = std::move(reserves_),
            .addresses = std::move(addresses_),
            .segments = log_ == nullptr ? std::vector<SegmentChange>() : log_->take(),
            .corrupt_blocks = witness_.corrupt_blocks(),
            .corruption = witness_.first(),
            .ns_per_event = stopwatch_.ns_per_call()};
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
  std::vector<std::optional<Address>> blocks_;     ///< of the requests that live
  std::vector<std::optional<Address>> addresses_;  ///< of all
  Witness witness_;
  Stopwatch stopwatch_;
  SegmentLog* log_;
  Bytes reserved_ = 0;
  std::vector<Reserve> reserves_;
};

}  // namespace replay_detail

/// Serves a valid trace through a fresh allocator: first what was alive before recording, then event by
/// event. A request goes back when its memory may be used again (life.upper); what is alive at the end is
/// left to the allocator's own end.
template <Allocator A>
ReplayResult replay(const Trace& trace, A& allocator, const ReplayOptions& options = {}) {
  const auto begin = replay_detail::Clock::now();
  replay_detail::Replayer<A> replayer(trace, allocator, options);
  for (RequestId id = 0; id < trace.requests.size() && trace.requests[id].life.lower == kBeforeRecording;
       ++id) {
    replayer.allocate(id, 0);
  }
  Time now = 0;
  auto step = options.steps.begin();
  for (const Event& event : events_of(trace)) {
    replayer.set_time(now);
    for (; step != options.steps.end() && *step == now; ++step) replayer.begin_step(now);
    if (event.kind == EventKind::kAllocate) replayer.allocate(event.request, now);
    if (event.kind == EventKind::kFree) replayer.free(event.request, now);
    ++now;
  }
  ReplayResult result = std::move(replayer).result();
  result.seconds = std::chrono::duration<double>(replay_detail::Clock::now() - begin).count();
  return result;
}

/// The most that the recorded allocator held, as the trace's own segment events say; nothing without such
/// events.
std::optional<Bytes> measured_reserve_peak(const Trace& trace);

}  // namespace stweaver
