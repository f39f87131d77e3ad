#include "report/moments.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "report/curve.h"
#include "simulate/simulate.h"

namespace stweaver {
namespace {

/// The first of the largest points; null if there are none.
const Reserve* highest(const Curve& curve) {
  const auto found = std::ranges::max_element(curve, {}, &Reserve::bytes);
  return found == curve.end() ? nullptr : &*found;
}

bool is_alive(const Request& request, Time time) {
  return request.life.lower <= time && time < request.life.upper;
}

void count(const Request& request, AliveGroup& group) {
  group.smallest = group.requests == 0 ? request.size : std::min(group.smallest, request.size);
  group.largest = std::max(group.largest, request.size);
  group.bytes += request.size;
  ++group.requests;
}

}  // namespace

PeakMoment peak_moment(const Trace& trace, const std::vector<LifeClass>& classes) {
  const Curve curve = requested_curve(trace);
  const Reserve* const top = highest(curve);
  PeakMoment peak{.time = top->time, .bytes = top->bytes, .groups = {}};
  // The first event may free what lived before.
  if (const Bytes before = requested_before(trace); before > peak.bytes)
    peak = {.time = kBeforeRecording, .bytes = before, .groups = {}};
  std::map<std::tuple<std::uint32_t, Bytes, LifeClass, Stream>, AliveGroup> groups;
  for (RequestId id = 0; id < trace.requests.size(); ++id) {
    const Request& request = trace.requests[id];
    if (!is_alive(request, peak.time)) continue;
    const Bytes size = request.site == 0 ? request.size : 0;
    AliveGroup& group = groups[{request.site, size, classes[id], request.stream}];
    group.site = request.site;
    group.life = classes[id];
    group.stream = request.stream;
    count(request, group);
    ++peak.requests;
  }
  for (const auto& [key, group] : groups) peak.groups.push_back(group);
  std::ranges::stable_sort(peak.groups, std::ranges::greater{}, &AliveGroup::bytes);
  return peak;
}

StrandedMoment stranded_moment(const Trace& trace, const std::vector<Reserve>& reserves) {
  const Reserve* const top = highest(reserves);
  StrandedMoment moment{.time = top == nullptr ? 0 : top->time, .request = {}, .segments = {}};
  const Trace before = prefix_of(trace, moment.time);
  CachingAllocator allocator(settings_of(trace, AllocatorKind::kNative));
  replay(before, allocator);
  const AllocatorStatistics& now = allocator.statistics();
  moment.reserved = now.reserved;
  moment.allocated = now.allocated;
  moment.requested = now.requested;
  moment.segments = allocator.segments();
  const bool grows = top != nullptr && moment.reserved < top->bytes;
  if (grows && before.requests.size() < trace.requests.size())
    moment.request = trace.requests[before.requests.size()];
  return moment;
}

}  // namespace stweaver
