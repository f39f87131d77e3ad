#include "profile/summary.h"

#include <algorithm>
#include <set>

namespace stweaver {
namespace {

/// The largest sum of `size_of(request)` alive at one time.
template <typename SizeOf>
Bytes peak_of_sizes(const Trace& trace, const SizeOf& size_of) {
  std::vector<Bytes> change(static_cast<std::size_t>(trace.end) + 1, 0);
  Bytes load = 0;  // alive before recording
  for (RequestId id = 0; id < trace.requests.size(); ++id) {
    const Lifespan& life = trace.requests[id].life;
    const Bytes size = size_of(id);
    (life.lower == kBeforeRecording ? load : change[static_cast<std::size_t>(life.lower)]) += size;
    if (life.upper != kForever) change[static_cast<std::size_t>(life.upper)] -= size;
  }
  Bytes peak = load;
  for (const Bytes difference : change) {
    load += difference;
    peak = std::max(peak, load);
  }
  return peak;
}

}  // namespace

Bytes rounded_peak(const Trace& trace, Bytes alignment) {
  return peak_of_sizes(trace, [&](RequestId id) {
    return checked_align_up(trace.requests[id].size, alignment, "a request's size");
  });
}

Summary summarize(const Trace& trace, const Steps& steps, const std::vector<LifeClass>& classes,
                  const Pattern& pattern) {
  Summary summary;
  summary.requests = trace.requests.size();
  summary.steps = steps.spans.size();
  summary.peak_requested = peak_requested(trace);
  summary.lower_bound = rounded_peak(trace, kAlignment);
  std::set<Stream> streams;
  std::set<Bytes> sizes;
  for (const Request& request : trace.requests) {
    streams.insert(request.stream);
    sizes.insert(request.size);
  }
  summary.streams = streams.size();
  summary.sizes = sizes.size();
  for (const LifeClass life : classes) ++summary.by_class[static_cast<std::size_t>(life)];
  for (std::size_t c = 0; c < summary.by_class.size(); ++c) {
    summary.peak_by_class[c] = peak_of_sizes(trace, [&](RequestId id) {
      return static_cast<std::size_t>(classes[id]) == c ? trace.requests[id].size : 0;
    });
  }
  for (const Position& position : pattern.positions)
    ++summary.by_kind[static_cast<std::size_t>(position.kind)];
  return summary;
}

}  // namespace stweaver
