#include "simulate/live_ranges.h"

#include <iterator>

namespace stweaver {

std::vector<RequestId> LiveRanges::add(RequestId id, Address address, Bytes size) {
  const Address end = address + static_cast<Address>(size);
  std::vector<RequestId> shared;
  const auto after = ranges_.lower_bound(address);
  if (after != ranges_.begin()) {
    const Range& before = std::prev(after)->second;
    if (before.end > address) shared.push_back(before.id);
  }
  for (auto range = after; range != ranges_.end() && range->first < end; ++range)
    shared.push_back(range->second.id);
  if (shared.empty()) ranges_.emplace_hint(after, address, Range{end, id});
  return shared;
}

void LiveRanges::remove(RequestId id, Address address) {
  const auto range = ranges_.find(address);
  if (range != ranges_.end() && range->second.id == id) ranges_.erase(range);
}

}  // namespace stweaver
