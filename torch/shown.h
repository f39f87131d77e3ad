// What PyTorch is shown of the arena: statistics and segments as of the native allocator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "delegate.h"
#include "history.h"
#include "ipc.h"
#include "runtime/runtime.h"

namespace stweaver {

inline constexpr std::size_t kAll = static_cast<std::size_t>(SizeClass::kAll);
inline constexpr std::size_t kLarge = static_cast<std::size_t>(SizeClass::kLarge);

/// Memory of an arena in one piece.
using Segment = SharedPieces::Extent;

// ---- statistics ----

/// `stat` counts all that the native allocator holds: with the arena's blocks added it is everything. At
/// most there was what we have served at most, beside what the native allocator holds for others.
inline void add(c10::CachingAllocator::Stat& stat, const Meter& arena, const Meter& served) {
  const std::int64_t others = stat.current - (served.current - arena.current);
  stat.current += arena.current;
  stat.allocated += arena.allocated;
  stat.freed += arena.freed;
  stat.peak = std::max({stat.peak, stat.current, served.peak + std::max<std::int64_t>(others, 0)});
}

inline void increase(c10::CachingAllocator::Stat& stat, std::int64_t amount) {
  stat.current += amount;
  stat.peak = std::max(stat.peak, stat.current);
}

/// Adds what the arena has to what the native allocator says of the device, which was asked by us and had
/// none `refusals` times.
inline void add_arena(cca::DeviceStats& stats, const RuntimeAllocator& allocator, std::int64_t refusals) {
  const Meters meters = allocator.meters();
  const RuntimeStatistics now = allocator.statistics();
  for (std::size_t kind = 0; kind < meters.arena.size(); ++kind) {
    const BlockMeters& arena = meters.arena[kind];
    const BlockMeters& served = meters.served[kind];
    add(stats.allocation[kind], arena.blocks, served.blocks);
    add(stats.active[kind], arena.blocks, served.blocks);
    add(stats.allocated_bytes[kind], arena.bytes, served.bytes);
    add(stats.active_bytes[kind], arena.bytes, served.bytes);
    add(stats.requested_bytes[kind], arena.requested, served.requested);
  }
  const Bytes idle = now.idle() + now.waiting;  // what other streams still use is in no block any more
  for (const std::size_t kind : {kAll, kLarge}) {
    c10::CachingAllocator::Stat& reserved = stats.reserved_bytes[kind];
    const Bytes other = reserved.current - now.fallback_reserved;
    reserved.current += now.arena;
    reserved.peak = std::max({reserved.peak, reserved.current, meters.reserved_peak + other});
    increase(stats.inactive_split_bytes[kind], idle);
    increase(stats.segment[kind], now.arena > 0 ? 1 : 0);
  }
  stats.num_ooms += now.ooms - refusals;
}

// ---- segments ----

inline std::vector<Segment> segments_of(const RuntimeAllocator::ArenaContents& arena) {
  std::vector<Segment> segments;
  for (const auto& [address, size] : arena.extents) {
    if (!segments.empty() &&
        segments.back().address + static_cast<std::uintptr_t>(segments.back().size) == address) {
      segments.back().size += size;
    } else {
      segments.push_back({address, size});
    }
  }
  return segments;
}

/// What one map() each put behind a block.
inline std::vector<Segment> extents_of(const RuntimeAllocator& allocator, const void* memory, Bytes size) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(size);
  std::vector<Segment> pieces;
  for (const auto& [address, length] : allocator.contents().extents)
    if (address < end && begin < address + static_cast<std::uintptr_t>(length))
      pieces.push_back({address, length});
  if (pieces.empty()) fail("no memory lies behind ", memory);
  return pieces;
}

inline cca::SegmentInfo shown(const Segment& segment, DeviceIndex device) {
  cca::SegmentInfo info;
  info.device = device;
  info.address = segment.address;
  info.total_size = static_cast<std::size_t>(segment.size);
  info.is_large = true;
  info.is_expandable = true;
  return info;
}

inline void add_idle(cca::SegmentInfo& info, std::uintptr_t size) {
  cca::BlockInfo block;
  block.size = size;
  info.blocks.push_back(block);
}

inline void add_living(cca::SegmentInfo& info, std::uintptr_t address, Bytes size, const History& history) {
  cca::BlockInfo block;
  block.requested_size = static_cast<std::size_t>(size);
  block.size = static_cast<std::size_t>(align_up(size, kAlignment));
  block.allocated = block.active = true;
  block.context_when_allocated = history.context_of(reinterpret_cast<const void*>(address));  // NOLINT
  info.requested_size += block.requested_size;
  info.allocated_size += block.size;
  info.active_size += block.size;
  info.blocks.push_back(block);
}

/// The arena's segments as a snapshot has them.
inline void add_segments(std::vector<cca::SegmentInfo>& infos, const RuntimeAllocator& allocator,
                         DeviceIndex device, const History& history) {
  const RuntimeAllocator::ArenaContents arena = allocator.contents();
  auto block = arena.blocks.begin();
  for (const Segment& segment : segments_of(arena)) {
    cca::SegmentInfo info = shown(segment, device);
    const std::uintptr_t end = segment.address + static_cast<std::uintptr_t>(segment.size);
    std::uintptr_t at = segment.address;
    for (; block != arena.blocks.end() && block->first < end; ++block) {
      const auto& [address, size] = *block;
      if (address > at) add_idle(info, address - at);
      add_living(info, address, size, history);
      at = address + static_cast<std::uintptr_t>(align_up(size, kAlignment));
    }
    if (at < end) add_idle(info, end - at);
    infos.push_back(std::move(info));
  }
}

}  // namespace stweaver
