#include "simulate/replay.h"

#include <algorithm>

namespace stweaver {
namespace replay_detail {

Stopwatch::Stopwatch() {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) stop(Clock::now());
  own_ns_ = ns_per_call();
  sum_ = {};
  calls_ = 0;
}

double Stopwatch::ns_per_call() const {
  if (calls_ == 0) return 0;
  const double sum = std::chrono::duration<double, std::nano>(sum_).count();
  return std::max(sum / static_cast<double>(calls_) - own_ns_, 0.0);
}

}  // namespace replay_detail

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
