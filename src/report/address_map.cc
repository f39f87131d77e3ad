#include "report/address_map.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace stweaver {
namespace {

/// What allocators get from the driver is whole pages of this size.
constexpr Address kPage = 2 * kMiB;

struct Stretch {
  Address begin = 0;
  Address end = 0;
  Bytes offset = 0;  ///< of `begin`, among all stretches
};

/// The pages that requests touch, as stretches that do not meet, ascending.
std::vector<Stretch> touched_pages(const Trace& trace, const std::vector<std::optional<Address>>& addresses) {
  std::vector<Stretch> touched;
  for (RequestId id = 0; id < trace.requests.size(); ++id) {
    if (!addresses[id] || trace.requests[id].size == 0) continue;
    const Address end = *addresses[id] + static_cast<Address>(trace.requests[id].size);
    touched.push_back({*addresses[id] / kPage * kPage, (end + kPage - 1) / kPage * kPage, 0});
  }
  std::ranges::sort(touched, {}, &Stretch::begin);
  std::vector<Stretch> joined;
  for (const Stretch& next : touched) {
    if (joined.empty() || joined.back().end < next.begin) {
      joined.push_back(next);
    } else {
      joined.back().end = std::max(joined.back().end, next.end);
    }
  }
  return joined;
}

}  // namespace

double area_of(const Trace& trace, RequestId id) {
  const Request& request = trace.requests[id];
  const Time begin = std::max<Time>(request.life.lower, 0);
  const Time end = std::min(request.life.upper, trace.end);
  return static_cast<double>(request.size) * static_cast<double>(end - begin);
}

AddressMap map_addresses(const Trace& trace, const std::vector<std::optional<Address>>& addresses) {
  std::vector<Stretch> stretches = touched_pages(trace, addresses);
  AddressMap map;
  for (Stretch& stretch : stretches) {
    stretch.offset = map.extent;
    map.extent += static_cast<Bytes>(stretch.end - stretch.begin);
  }
  map.offsets.resize(trace.requests.size());
  for (RequestId id = 0; id < trace.requests.size(); ++id) {
    if (!addresses[id] || trace.requests[id].size == 0) continue;
    const auto after = std::ranges::upper_bound(stretches, *addresses[id], {}, &Stretch::begin);
    const Stretch& home = *std::prev(after);
    map.offsets[id] = home.offset + static_cast<Bytes>(*addresses[id] - home.begin);
  }
  return map;
}

std::vector<RequestId> largest_requests(const Trace& trace, std::size_t most) {
  std::vector<RequestId> ids;
  for (RequestId id = 0; id < trace.requests.size(); ++id) {
    if (trace.requests[id].size > 0) ids.push_back(id);
  }
  if (ids.size() <= most) return ids;
  const auto cut = ids.begin() + static_cast<std::ptrdiff_t>(most);
  std::ranges::nth_element(ids, cut, std::ranges::greater{},
                           [&trace](RequestId id) { return area_of(trace, id); });
  ids.erase(cut, ids.end());
  std::ranges::sort(ids);
  return ids;
}

}  // namespace stweaver
