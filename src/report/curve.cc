#include "report/curve.h"

#include <algorithm>
#include <iterator>

namespace stweaver {
namespace {

constexpr std::size_t kPointsPerStretch = 4;

/// The first point after `time`.
Curve::const_iterator after(const Curve& curve, Time time) {
  return std::ranges::upper_bound(curve, time, {}, &Reserve::time);
}

/// Appends the first, least, largest and last point of [begin, end), each once, in order.
void keep_extremes(Curve::const_iterator begin, Curve::const_iterator end, Curve& kept) {
  const auto less = [](const Reserve& a, const Reserve& b) { return a.bytes < b.bytes; };
  const auto [least, largest] = std::minmax_element(begin, end, less);
  std::vector<Curve::const_iterator> points = {begin, least, largest, std::prev(end)};
  std::ranges::sort(points);
  points.erase(std::unique(points.begin(), points.end()), points.end());
  for (const auto point : points) kept.push_back(*point);
}

}  // namespace

Bytes requested_before(const Trace& trace) {
  Bytes bytes = 0;
  for (const Request& request : trace.requests) {
    if (request.life.lower == kBeforeRecording) bytes += request.size;
  }
  return bytes;
}

Curve requested_curve(const Trace& trace) {
  Curve curve = {{0, requested_before(trace)}};
  Time now = 0;
  for (const Event& event : events_of(trace)) {
    const Bytes size = trace.requests[event.request].size;
    const Bytes change = event.kind == EventKind::kAllocate ? size
                         : event.kind == EventKind::kFree   ? -size
                                                            : 0;
    const Bytes bytes = curve.back().bytes + change;
    if (now == 0) {
      curve.back().bytes = bytes;
    } else if (change != 0) {
      curve.push_back({now, bytes});
    }
    ++now;
  }
  return curve;
}

Bytes value_at(const Curve& curve, Time time) {
  const auto next = after(curve, time);
  return next == curve.begin() ? 0 : std::prev(next)->bytes;
}

Bytes peak_in(const Curve& curve, const Lifespan& span) {
  Bytes peak = value_at(curve, span.lower);
  for (auto point = after(curve, span.lower); point != curve.end() && point->time < span.upper; ++point)
    peak = std::max(peak, point->bytes);
  return peak;
}

Curve downsample(const Curve& curve, std::size_t most) {
  if (curve.size() <= most) return curve;
  const auto stretches = static_cast<Time>(std::max<std::size_t>(most / kPointsPerStretch, 1));
  const Time begin = curve.front().time;
  const Time length = (curve.back().time - begin) / stretches + 1;
  Curve kept;
  for (auto first = curve.begin(); first != curve.end();) {
    const Time stretch = (first->time - begin) / length;
    const auto end = after(curve, begin + (stretch + 1) * length - 1);
    keep_extremes(first, end, kept);
    first = end;
  }
  return kept;
}

Curve part_of(const Curve& curve, const Lifespan& span) {
  Curve part = {{0, value_at(curve, span.lower)}};
  for (const Reserve& point : curve) {
    if (point.time > span.lower && point.time < span.upper)
      part.push_back({point.time - span.lower, point.bytes});
  }
  return part;
}

}  // namespace stweaver
