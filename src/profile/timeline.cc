#include "profile/timeline.h"

#include <algorithm>
#include <cstddef>

namespace stweaver {
namespace {

/// Lifetimes are told apart up to this many requests; beyond, the order of long lives would drown the
/// pattern.
constexpr RequestId kLong = 63;

}  // namespace

std::vector<RequestId> births_before(const Trace& trace) {
  std::vector<RequestId> births(static_cast<std::size_t>(trace.end) + 1, 0);
  RequestId before = 0;
  for (const Request& request : trace.requests) {
    if (request.life.lower == kBeforeRecording) {
      ++before;
    } else {
      births[static_cast<std::size_t>(request.life.lower) + 1] = 1;
    }
  }
  births[0] = before;
  for (std::size_t t = 1; t < births.size(); ++t) births[t] += births[t - 1];
  return births;
}

Tokens structure_tokens(const Trace& trace) {
  const std::vector<RequestId> births = births_before(trace);
  std::vector<std::uint64_t> tokens;
  tokens.reserve(trace.requests.size());
  for (RequestId id = 0; id < trace.requests.size(); ++id) {
    const Request& request = trace.requests[id];
    const Time gone = request.dropped == kBeforeRecording ? request.life.upper : request.dropped;
    const RequestId met = gone == kForever ? kLong : births[static_cast<std::size_t>(gone)] - id - 1;
    tokens.push_back(mix_hash(mix_hash(request.stream, request.pool), std::min(met, kLong)));
  }
  return tokens;
}

Tokens size_tokens(const Trace& trace) {
  std::vector<std::uint64_t> tokens;
  tokens.reserve(trace.requests.size());
  for (const Request& request : trace.requests) {
    tokens.push_back(
        mix_hash(mix_hash(request.stream, request.pool), static_cast<std::uint64_t>(request.size)));
  }
  return tokens;
}

Trace prefix_of(const Trace& trace, Time end) {
  Trace prefix = trace;
  const auto from = [end](auto& list) {
    return std::find_if(list.begin(), list.end(), [end](const auto& entry) { return entry.time >= end; });
  };
  prefix.end = end;
  prefix.marks.erase(from(prefix.marks), prefix.marks.end());
  prefix.reserves.erase(from(prefix.reserves), prefix.reserves.end());
  prefix.ooms.erase(from(prefix.ooms), prefix.ooms.end());
  if (!prefix.micros.empty()) prefix.micros.resize(static_cast<std::size_t>(end));
  std::erase_if(prefix.requests, [end](const Request& request) { return request.life.lower >= end; });
  for (Request& request : prefix.requests) {
    if (request.life.upper >= end) request.life.upper = kForever;
    if (request.dropped >= end) request.dropped = kForever;
  }
  return prefix;
}

}  // namespace stweaver
