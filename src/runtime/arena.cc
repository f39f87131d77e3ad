#include "runtime/arena.h"

#include <algorithm>

namespace stweaver {
namespace {

/// Memory comes and goes in pieces of this size at most: small enough to give back what is idle, large enough
/// that mapping a whole GPU takes a few hundred calls.
constexpr Bytes kExtent = 256 * kMiB;
/// Addresses reserved, in sizes of the device: a plan moves on behind what outlives the plan before it.
constexpr Bytes kAddresses = 4;

}  // namespace

Arena::~Arena() {
  while (!extents_.empty()) {
    device_->unmap(pointer(extents_.back().offset), extents_.back().size);
    extents_.pop_back();
  }
  if (addresses_ > 0) device_->release(pointer(0), addresses_);
}

std::byte* Arena::pointer(Bytes offset) const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses of a device are numbers here
  return reinterpret_cast<std::byte*>(address_of(offset));
}

bool Arena::take_addresses() {
  if (addresses_ > 0) return true;
  const Bytes page = page_size();
  if (page == 0) return false;
  const Bytes wanted = align_up(device_->memory().total * kAddresses, page);
  std::byte* const base = device_->reserve(wanted);
  if (base == nullptr) return false;
  base_ = reinterpret_cast<std::uintptr_t>(base);
  addresses_ = wanted;
  return true;
}

bool Arena::map(const Interval& range) {
  if (range.empty()) return true;
  if (!take_addresses() || range.upper > addresses_) return false;
  const Bytes page = page_size();
  const Interval pages = {range.lower / page * page, align_up(range.upper, page)};
  std::vector<Bytes> made;
  Bytes at = pages.lower;
  for (std::size_t i = 0; at < pages.upper;) {
    if (i < extents_.size() && extents_[i].offset <= at) {
      at = std::max(at, extents_[i].offset + extents_[i].size);
      ++i;
      continue;
    }
    const Bytes next = i < extents_.size() ? extents_[i].offset : pages.upper;
    const Bytes end = std::min({at + kExtent, next, pages.upper});
    if (!map_extent(i, {at, end})) {
      for (std::size_t j = extents_.size(); j-- > 0;) {
        if (std::find(made.begin(), made.end(), extents_[j].offset) != made.end()) unmap_extent(j);
      }
      return false;
    }
    made.push_back(at);
    at = end;
    ++i;
  }
  return true;
}

bool Arena::map_extent(std::size_t at, Interval range) {
  if (!device_->map(pointer(range.lower), range.length())) return false;
  extents_.insert(extents_.begin() + static_cast<std::ptrdiff_t>(at), {range.lower, range.length()});
  free_space.give(range.lower, range.length(), {});
  mapped_ += range.length();
  return true;
}

void Arena::unmap_idle(const Interval& keep) {
  bool is_still = false;
  for (std::size_t i = extents_.size(); i-- > 0;) {
    const Extent& extent = extents_[i];
    if (overlaps({extent.offset, extent.offset + extent.size}, keep)) continue;
    if (!free_space.is_idle(extent.offset, extent.size)) continue;
    if (!is_still && !device_->synchronize()) return;  // idle for the program, but work may still use it
    is_still = true;
    unmap_extent(i);
  }
}

void Arena::unmap_extent(std::size_t at) {
  const Extent extent = extents_[at];
  if (!device_->unmap(pointer(extent.offset), extent.size)) return;
  free_space.take(extent.offset, extent.size);
  extents_.erase(extents_.begin() + static_cast<std::ptrdiff_t>(at));
  mapped_ -= extent.size;
}

}  // namespace stweaver
