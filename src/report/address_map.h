// The address space over time, as blocks to be drawn.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "simulate/allocator.h"
#include "trace/model.h"

namespace stweaver {

/// Where an allocator put the requests of a trace.
struct AddressMap {
  Bytes extent = 0;  ///< of all addresses that it ever used
  /// By request, from 0; nothing for one that was not served or has no bytes.
  std::vector<std::optional<Bytes>> offsets;
};

/// What a request occupies of a drawing: bytes times events.
double area_of(const Trace& trace, RequestId id);

/// Addresses moved together: stretches of whole pages of 2 MiB that no request ever touched are left out.
/// `addresses` has one entry for each request of the trace.
AddressMap map_addresses(const Trace& trace, const std::vector<std::optional<Address>>& addresses);

/// The `most` requests with bytes that occupy the most, in the order of the trace.
std::vector<RequestId> largest_requests(const Trace& trace, std::size_t most);

}  // namespace stweaver
