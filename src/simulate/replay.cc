#include "simulate/replay.h"

#include <algorithm>

namespace stweaver {

double ReplayResult::efficiency() const {
  if (reserved_peak == 0) return 1;
  return static_cast<double>(requested_peak) / static_cast<double>(reserved_peak);
}

std::optional<Bytes> measured_reserve_peak(const Trace& trace) {
  const auto peak = std::max_element(trace.reserves.begin(), trace.reserves.end(),
                                     [](const Reserve& a, const Reserve& b) { return a.bytes < b.bytes; });
  if (peak == trace.reserves.end()) return std::nullopt;
  return peak->bytes;
}

}  // namespace stweaver
