// The data model every layer above speaks: what a job asked its allocator for, and when.
//
// Words. A *request* is one allocation. *Time* is the index of an event, not seconds: each allocation and
// each free is one event, numbered from 0. A *lifespan* is half-open: a request born at event 3 and freed at
// event 7 lives in [3, 7), and a request born at event 7 may take its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/base.h"

namespace stweaver {

using Time = std::int64_t;
using RequestId = std::uint32_t;  ///< index into Trace::requests
using Stream = std::uint64_t;     ///< a CUDA stream's handle; 0 is the default stream
using Pool = std::uint32_t;       ///< 0 is PyTorch's default pool, others are graphs' and MemPools'

/// No machine has more.
inline constexpr int kMostDevices = 4096;

/// So many streams of a device are planned, and served from an arena: each keeps its distance from every
/// other, which takes time and memory.
inline constexpr std::size_t kMostStreams = 64;

using Lifespan = Interval;

/// The birth of a request that was alive before recording began.
inline constexpr Time kBeforeRecording = -1;
/// The end of a request that was still alive when recording ended.
inline constexpr Time kForever = std::numeric_limits<Time>::max();

/// The largest clock time of a trace, in microseconds from 1970 on or before: any two have a difference.
inline constexpr std::int64_t kLatest = std::int64_t{1} << 60;

/// One allocation.
struct Request {
  Bytes size = 0;     ///< bytes asked for, before any rounding; >= 0
  Lifespan life;      ///< [allocated, memory may be used again)
  Time dropped = 0;   ///< when the program let go of it: life.upper, or earlier while streams still used it
  Stream stream = 0;  ///< the stream it was allocated on
  Pool pool = 0;      ///< 0 unless it belongs to a CUDA graph or a MemPool
  std::uint32_t site = 0;  ///< index into Trace::sites: the line of code that asked for it; 0 if not known
};

/// A label that the job (or its profiler) set between two events: it holds from event `time` on.
struct Mark {
  Time time = 0;
  std::string label;
};

/// Bytes that the recorded allocator held from event `time` on, as its own segment events say.
struct Reserve {
  Time time = 0;
  Bytes bytes = 0;
};

/// An allocation that failed while recording.
struct OutOfMemory {
  Time time = 0;
  Bytes size = 0;         ///< bytes asked for
  Bytes device_free = 0;  ///< bytes the device had left
};

/// What one device's allocator was asked for, in order.
///
/// Invariants (validate() checks them): requests are ordered by life.lower; every time that is neither
/// kBeforeRecording nor kForever lies in [0, end) and belongs to one event of one request.
struct Trace {
  std::string name;  ///< where it came from, for messages
  int device = 0;
  std::string settings;  ///< of the recorded allocator, as in PYTORCH_CUDA_ALLOC_CONF; "oldest_first:True" as
                         ///< one more says that it is that of torch 2.13 or later
  std::vector<Request> requests;
  std::vector<std::string> sites = {""};  ///< lines of code, as "function (file:line)"; the first is none
  Time end = 0;                           ///< the number of events
  std::vector<Mark> marks;                ///< ordered by time
  std::vector<Reserve> reserves;          ///< ordered by time; empty when the source had no segment events
  std::vector<OutOfMemory> ooms;          ///< ordered by time
  std::vector<std::int64_t> micros;       ///< wall clock of each event, up to kLatest; empty when unknown
  bool complete = true;                   ///< false when its writer was killed: it ends where that got to
};

enum class EventKind : std::uint8_t {
  kAllocate,
  kDrop,  ///< the program let go, other streams still use it; only where that is an event of its own
  kFree,  ///< the memory may be used again
};

struct Event {
  EventKind kind = EventKind::kAllocate;
  RequestId request = 0;
};

/// Every event of a valid trace in order: events_of(trace)[t] is what happened at time t.
std::vector<Event> events_of(const Trace& trace);

/// Error, naming the trace and the first offence, when the invariants do not hold.
void validate(const Trace& trace);

/// The largest sum of requested bytes alive at one time.
Bytes peak_requested(const Trace& trace);

}  // namespace stweaver
