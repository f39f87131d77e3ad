#include "simulate/segments.h"

#include <bit>
#include <utility>

namespace stweaver {
namespace {

// What cudaMalloc's addresses are multiples of here; it only matters that segments do not overlap.
constexpr Bytes kSegmentAlignment = 2 * kMiB;

Bytes checked_capacity(Bytes capacity) {
  if (capacity < 1 || capacity > kAmpleCapacity) {
    fail("a device of ", capacity, " bytes cannot be simulated: give 1 to ", kAmpleCapacity);
  }
  return capacity;
}

Bytes capacity_of(const Device& device) {
  const Bytes total = device.memory().total;
  if (total < 1) fail("the device '", device.name(), "' has no memory: ", device.failure());
  return total;
}

}  // namespace

// ---- numbers ----

NumberedSegments::NumberedSegments(Bytes capacity, SegmentPlacer place)
    : SegmentSource(checked_capacity(capacity), 1), place_(std::move(place)) {}

std::optional<Address> NumberedSegments::allocate(Bytes size) {
  if (held() + size > capacity()) return std::nullopt;
  take(size);
  return place_ ? place_(size) : take_addresses(size, kSegmentAlignment);
}

bool NumberedSegments::free(Address /*segment*/, Bytes size) {
  give(size);
  return true;
}

std::optional<Address> NumberedSegments::reserve(Bytes size, Bytes page) {
  return take_addresses(size, page);
}

bool NumberedSegments::map(Address /*at*/, Bytes size, Bytes /*page*/) {
  if (held() + size > capacity()) return false;
  take(size);
  return true;
}

void NumberedSegments::unmap(Address /*at*/, Bytes size) {
  give(size);
}

Address NumberedSegments::take_addresses(Bytes size, Bytes alignment) {
  if (lowest_ < static_cast<Address>(size + alignment)) fail("the simulated device has run out of addresses");
  lowest_ -= static_cast<Address>(size);
  lowest_ -= lowest_ % static_cast<Address>(alignment);
  return lowest_;
}

// ---- a device ----

DeviceSegments::DeviceSegments(Device& device)
    : SegmentSource(capacity_of(device), device.page_size()), device_(device) {}

DeviceSegments::~DeviceSegments() {
  device_.synchronize();
  for (const auto& [at, page] : pages_) device_.unmap(page.memory, page.size);
  for (const auto& [at, range] : reservations_) device_.release(range.memory, range.size);
  for (const auto& [at, segment] : segments_) device_.free(segment.memory);
}

std::optional<Address> DeviceSegments::allocate(Bytes size) {
  std::byte* memory = device_.allocate(size);
  if (memory == nullptr) return std::nullopt;
  const auto address = std::bit_cast<Address>(memory);
  segments_.emplace(address, Range{memory, size});
  take(size);
  return address;
}

bool DeviceSegments::free(Address segment, Bytes size) {
  // A free block's last work may still be queued: PyTorch leaves the waiting to cudaFree.
  if (!device_.synchronize() || !device_.free(segments_.at(segment).memory)) return false;
  segments_.erase(segment);
  give(size);
  return true;
}

std::optional<Address> DeviceSegments::reserve(Bytes size, Bytes page) {
  const Bytes with_slack = size + page;  // a device aligns to its own pages, which may be smaller
  std::byte* memory = device_.reserve(with_slack);
  if (memory == nullptr) return std::nullopt;
  const auto begin = static_cast<Bytes>(std::bit_cast<Address>(memory));
  const auto address = static_cast<Address>(align_up(begin, page));
  reservations_.emplace(address, Range{memory, with_slack});
  return address;
}

bool DeviceSegments::release(Address addresses) {
  const auto found = reservations_.find(addresses);
  const Range range = found->second;
  const auto page = pages_.lower_bound(addresses);
  const bool empty = page == pages_.end() || page->first - addresses >= static_cast<Address>(range.size);
  if (!empty || !device_.release(range.memory, range.size)) return false;
  reservations_.erase(found);
  return true;
}

bool DeviceSegments::map(Address at, Bytes size, Bytes page) {
  for (Bytes done = 0; done < size; done += page) {
    const Address address = at + static_cast<Address>(done);
    if (pages_.contains(address)) continue;
    auto* memory = std::bit_cast<std::byte*>(address);
    if (!device_.map(memory, page)) {
      unmap(at, done);
      return false;
    }
    pages_.emplace(address, Range{memory, page});
    take(page);
  }
  return true;
}

void DeviceSegments::unmap(Address at, Bytes size) {
  if (!device_.synchronize()) return;  // work may still use them (PyTorch: unmapHandles)
  const Address end = at + static_cast<Address>(size);
  for (auto page = pages_.lower_bound(at); page != pages_.end() && page->first < end;) {
    const Range range = page->second;
    if (device_.unmap(range.memory, range.size)) {
      give(range.size);
      page = pages_.erase(page);
    } else {
      ++page;
    }
  }
}

}  // namespace stweaver
