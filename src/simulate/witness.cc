#include "simulate/witness.h"

namespace stweaver {

Witness::Witness(const Trace& trace, const Watch& watch)
    : trace_(trace), watch_(watch), corrupt_(trace.requests.size()) {}

/// False when it was counted before.
bool Witness::count(RequestId id) {
  if (corrupt_[id]) return false;
  corrupt_[id] = true;
  ++corrupt_blocks_;
  return true;
}

void Witness::granted(RequestId id, Address block) {
  const Request& request = trace_.requests[id];
  if (request.size == 0) return;
  if (watch_.ranges) {
    for (const RequestId other : living_.add(id, block, request.size)) {
      count(id);
      count(other);
      if (first_.empty()) {
        first_ = text("request ", id, " (", request.size, " bytes) was given memory of request ", other, " (",
                      trace_.requests[other].size, " bytes), which lives");
      }
    }
  }
  if (watch_.stamps) watch_.stamps->write(id, block, request.size, request.stream);
}

void Witness::let_go(RequestId id, Address block) {
  const Request& request = trace_.requests[id];
  if (request.size == 0) return;
  if (watch_.ranges) living_.remove(id, block);
  if (!watch_.stamps || watch_.stamps->verify(id, block, request.size, request.stream)) return;
  if (count(id) && first_.empty())
    first_ = text("the memory of request ", id, " (", request.size, " bytes) was overwritten while it lived");
}

}  // namespace stweaver
