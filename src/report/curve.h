// Bytes over time.
#pragma once

#include <cstddef>
#include <vector>

#include "trace/model.h"

namespace stweaver {

/// Bytes held from an event on, ascending in time: a step function, 0 before its first point.
using Curve = std::vector<Reserve>;

/// The bytes that the job had asked for and not given back when its first event came.
Bytes requested_before(const Trace& trace);

/// The bytes that the job asked for and had not given back, at every event that changes them.
Curve requested_curve(const Trace& trace);

/// What the curve is at `time`.
Bytes value_at(const Curve& curve, Time time);

/// The largest value in `span`; 0 without a point before its end.
Bytes peak_in(const Curve& curve, const Lifespan& span);

/// The points of `span`, counted from its begin; what was held there already is the first.
Curve part_of(const Curve& curve, const Lifespan& span);

/// At most about `most` (4 at least) points of the curve. Time from its first to its last point is cut into
/// equal stretches, and of each the first, the last, a least and a largest point stay: so all extremes are
/// exact, and every point that stays is one of the curve's.
Curve downsample(const Curve& curve, std::size_t most);

/// A few times the columns of a screen, so that zooming in shows more.
inline constexpr std::size_t kCurvePoints = 8192;

}  // namespace stweaver
