#include "profile/timeline.h"

#include <algorithm>
#include <cstddef>

namespace stweaver {

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

std::vector<RequestId> structure_of(const Trace& trace, RequestId cap) {
  const std::vector<RequestId> births = births_before(trace);
  std::vector<RequestId> structure;
  structure.reserve(trace.requests.size());
  for (RequestId id = 0; id < trace.requests.size(); ++id) {
    const Request& request = trace.requests[id];
    const RequestId met = request.life.upper == kForever ? cap : death_of(request, births) - id - 1;
    structure.push_back(std::min(met, cap));
  }
  return structure;
}

}  // namespace stweaver
