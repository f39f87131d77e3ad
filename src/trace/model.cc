#include "trace/model.h"

#include <algorithm>
#include <string_view>

namespace stweaver {
namespace {

bool is_event(Time time) {
  return time != kBeforeRecording && time != kForever;
}

/// Whether letting go of `request` was an event of its own, apart from its free.
bool drops_apart(const Request& request) {
  return request.dropped != request.life.upper && is_event(request.dropped);
}

/// Calls visit(time, event) for every event of every request, request by request.
template <typename Visit>
void for_each_event(const Trace& trace, const Visit& visit) {
  for (RequestId id = 0; id < trace.requests.size(); ++id) {
    const Request& request = trace.requests[id];
    if (is_event(request.life.lower)) visit(request.life.lower, Event{EventKind::kAllocate, id});
    if (drops_apart(request)) visit(request.dropped, Event{EventKind::kDrop, id});
    if (is_event(request.life.upper)) visit(request.life.upper, Event{EventKind::kFree, id});
  }
}

void validate_request(const Trace& trace, RequestId id) {
  const auto refuse = [&](std::string_view why) { fail(trace.name, ": request ", id, ' ', why); };
  const Request& request = trace.requests[id];
  const Lifespan& life = request.life;
  if (request.size < 0) refuse("has a negative size");
  if (life.lower == kForever || life.upper == kBeforeRecording || life.empty())
    refuse("ends before it begins");
  if (request.dropped > life.upper) refuse("is dropped after it is freed");
  const bool dropped_before = request.dropped == kBeforeRecording && life.lower == kBeforeRecording;
  if (request.dropped <= life.lower && !dropped_before) refuse("is dropped before it is allocated");
  if (request.site >= trace.sites.size()) refuse("was made at a line of code that is not listed");
  if (id > 0 && life.lower < trace.requests[id - 1].life.lower) refuse("is out of order");
}

void validate_requests(const Trace& trace) {
  if (trace.requests.size() > std::numeric_limits<RequestId>::max()) {
    fail(trace.name, ": more than ", std::numeric_limits<RequestId>::max(), " requests");
  }
  // Bounding the sum of all sizes once lets everything above add sizes and offsets without a thought.
  const std::string total_name = text(trace.name, ": the sum of all requested bytes");
  Bytes total = 0;
  for (RequestId id = 0; id < trace.requests.size(); ++id) {
    validate_request(trace, id);
    const Bytes aligned = checked_align_up(trace.requests[id].size, kAlignment, total_name);
    total = checked_add(total, aligned, total_name);
  }
}

void validate_events(const Trace& trace) {
  if (trace.end < 0) fail(trace.name, ": a negative number of events");
  std::size_t count = 0;
  for_each_event(trace, [&](Time time, const Event& event) {
    if (time < 0 || time >= trace.end) {
      fail(trace.name, ": request ", event.request, " has an event at ", time, ", outside of 0 to ",
           trace.end);
    }
    ++count;
  });
  // Only now is the number of events known to be no larger than what the requests bring along.
  if (static_cast<std::size_t>(trace.end) != count) {
    fail(trace.name, ": ", count, " events of requests, but ", trace.end, " were announced");
  }
  std::vector<bool> taken(count);
  for_each_event(trace, [&](Time time, const Event&) {
    const auto index = static_cast<std::size_t>(time);
    if (taken[index]) fail(trace.name, ": two events at time ", time);
    taken[index] = true;
  });
}

/// `items` have a `time` in [0, end] and are ordered by it.
template <typename Item>
void validate_times(const Trace& trace, const std::vector<Item>& items, std::string_view what) {
  Time last = 0;
  for (const Item& item : items) {
    if (item.time < last || item.time > trace.end) {
      fail(trace.name, ": ", what, " at ", item.time, " is out of order or outside of 0 to ", trace.end);
    }
    last = item.time;
  }
}

}  // namespace

std::vector<Event> events_of(const Trace& trace) {
  std::vector<Event> events(static_cast<std::size_t>(trace.end));
  for_each_event(trace,
                 [&](Time time, const Event& event) { events[static_cast<std::size_t>(time)] = event; });
  return events;
}

void validate(const Trace& trace) {
  validate_requests(trace);
  validate_events(trace);
  validate_times(trace, trace.marks, "the mark");
  validate_times(trace, trace.reserves, "the reserve");
  validate_times(trace, trace.ooms, "the failed allocation");
  for (const Reserve& reserve : trace.reserves) {
    if (reserve.bytes < 0) fail(trace.name, ": a negative reserve at ", reserve.time);
  }
  for (const OutOfMemory& oom : trace.ooms) {
    if (oom.size < 0 || oom.device_free < 0) fail(trace.name, ": a negative size failed at ", oom.time);
  }
  if (!trace.micros.empty() && trace.micros.size() != static_cast<std::size_t>(trace.end)) {
    fail(trace.name, ": ", trace.micros.size(), " clock times for ", trace.end, " events");
  }
  if (std::ranges::any_of(trace.micros, [](std::int64_t at) { return at < -kLatest || at > kLatest; }))
    fail(trace.name, ": a clock time is out of range");
}

Bytes peak_requested(const Trace& trace) {
  Bytes live = 0;
  for (const Request& request : trace.requests) {
    if (request.life.lower == kBeforeRecording) live += request.size;
  }
  Bytes peak = live;
  for (const Event& event : events_of(trace)) {
    const Bytes size = trace.requests[event.request].size;
    if (event.kind == EventKind::kAllocate) peak = std::max(peak, live += size);
    if (event.kind == EventKind::kFree) live -= size;
  }
  return peak;
}

}  // namespace stweaver
