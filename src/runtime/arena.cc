#include "runtime/arena.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace stweaver {
namespace {

/// Addresses reserved, in sizes of the device: a plan moves on behind what outlives the plan before it.
constexpr Bytes kAddresses = 4;
/// A small extent is this share of what is held, and never more than this.
constexpr Bytes kShareOfHeld = 2048;
constexpr Bytes kMostOfHeld = 24 * kMiB;

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

std::vector<std::pair<std::uintptr_t, Bytes>> Arena::extents() const {
  std::vector<std::pair<std::uintptr_t, Bytes>> all;
  all.reserve(extents_.size());
  for (const Extent& extent : extents_) all.emplace_back(address_of(extent.offset), extent.size);
  return all;
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

/// The number of the first extent that begins above `offset`.
std::size_t Arena::first_above(Bytes offset) const {
  const auto above = std::partition_point(extents_.begin(), extents_.end(),
                                          [&](const Extent& extent) { return extent.offset <= offset; });
  return static_cast<std::size_t>(above - extents_.begin());
}

Bytes Arena::small_extent(Bytes bytes) const {
  const Bytes page = std::max(page_size(), Bytes{1});
  return std::max(std::min(bytes / kShareOfHeld, kMostOfHeld) / page, Bytes{1}) * page;
}

Bytes Arena::mapped_end(Bytes limit) const {
  const std::size_t above = first_above(limit - 1);
  return above == 0 ? 0 : extents_[above - 1].offset + extents_[above - 1].size;
}

Bytes Arena::missing(const Interval& range) const {
  Bytes missing = range.length();
  for (const Interval& run : mapped_in(range)) missing -= run.length();
  return missing;
}

std::vector<Interval> Arena::mapped_in(const Interval& region) const {
  std::vector<Interval> runs;
  const std::size_t above = first_above(region.lower);
  for (std::size_t i = above - std::min<std::size_t>(above, 1); i < extents_.size(); ++i) {
    const Extent& extent = extents_[i];
    if (extent.offset >= region.upper) break;
    const Interval part = {std::max(extent.offset, region.lower),
                           std::min(extent.offset + extent.size, region.upper)};
    if (part.empty()) continue;
    if (!runs.empty() && runs.back().upper == part.lower) {
      runs.back().upper = part.upper;
    } else {
      runs.push_back(part);
    }
  }
  return runs;
}

bool Arena::map(const Interval& range, Bytes extent) {
  if (range.empty()) return true;
  if (!take_addresses() || range.upper > addresses_) return false;
  const Bytes page = page_size();
  const Interval pages = {range.lower / page * page, align_up(range.upper, page)};
  std::vector<Bytes> made;
  Bytes at = std::max(pages.lower, mapped_end(pages.lower + 1));
  for (std::size_t i = first_above(pages.lower); at < pages.upper; ++i) {
    if (i < extents_.size() && extents_[i].offset == at) {
      at += extents_[i].size;
      continue;
    }
    const Bytes next = i < extents_.size() ? extents_[i].offset : pages.upper;
    const Bytes end = std::min({at + extent, next, pages.upper});
    if (!map_extent(i, {at, end})) {
      std::erase_if(extents_, [&](const Extent& mapped) {
        return std::binary_search(made.begin(), made.end(), mapped.offset) && unmap_extent(mapped);
      });
      return false;
    }
    made.push_back(at);
    at = end;
  }
  return true;
}

/// Such calls take from ten microseconds to milliseconds: looking at the clock costs nothing beside them.
template <typename Call>
bool Arena::timed(std::int64_t& calls, Call call) {
  const auto began = std::chrono::steady_clock::now();
  const bool went_well = call();
  const auto took = std::chrono::steady_clock::now() - began;
  mapping_.nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  ++calls;
  return went_well;
}

bool Arena::map_extent(std::size_t at, Interval range) {
  if (!timed(mapping_.maps, [&] { return device_->map(pointer(range.lower), range.length()); })) return false;
  extents_.insert(extents_.begin() + static_cast<std::ptrdiff_t>(at), {range.lower, range.length()});
  free_space.give(range.lower, range.length(), {});
  mapped_ += range.length();
  return true;
}

void Arena::unmap_idle(const Interval& keep, Bytes enough, const Interval& keep_too) {
  const Bytes before = mapped_;
  std::optional<bool> is_still;  // idle for the program, but work may still use it
  const auto is_idle = [&](const Extent& extent) {
    const Interval range = {extent.offset, extent.offset + extent.size};
    return !overlaps(range, keep) && !overlaps(range, keep_too) &&
           free_space.is_idle(extent.offset, extent.size);
  };
  std::erase_if(extents_, [&](const Extent& extent) {
    if (before - mapped_ >= enough || !is_idle(extent)) return false;
    if (!is_still) is_still = timed(mapping_.idle_waits, [&] { return device_->synchronize(); });
    return *is_still && unmap_extent(extent);
  });
}

/// Whether the device took it; the caller forgets the extent.
bool Arena::unmap_extent(const Extent& extent) {
  if (!timed(mapping_.unmaps, [&] { return device_->unmap(pointer(extent.offset), extent.size); }))
    return false;
  free_space.take(extent.offset, extent.size);
  mapped_ -= extent.size;
  return true;
}

}  // namespace stweaver
