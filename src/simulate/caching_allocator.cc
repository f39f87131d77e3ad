#include "simulate/caching_allocator.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <utility>

namespace stweaver {
namespace {

// PyTorch calls such a request out of memory without looking (NativeCachingAllocator::allocate).
constexpr Bytes kAbsurdSize = Bytes{1} << 60U;

Bytes part_of(double fraction, Bytes size) {
  return fraction < 1 ? static_cast<Bytes>(fraction * static_cast<double>(size)) : kUnlimited;
}

}  // namespace

bool CachingAllocator::BySize::operator()(const Block* a, const Block* b) const {
  return std::tie(a->stream, a->size, a->rank, a->address) <
         std::tie(b->stream, b->size, b->rank, b->address);
}

bool CachingAllocator::ByAddress::operator()(const Block* a, const Block* b) const {
  return std::tie(a->stream, a->address) < std::tie(b->stream, b->address);
}

CachingAllocator::CachingAllocator(const AllocatorSettings& settings, Bytes capacity, SegmentPlacer place)
    : CachingAllocator(settings, std::make_unique<NumberedSegments>(capacity, std::move(place))) {}

CachingAllocator::CachingAllocator(const AllocatorSettings& settings, Device& device)
    : CachingAllocator(settings, std::make_unique<DeviceSegments>(device)) {}

CachingAllocator::CachingAllocator(const AllocatorSettings& settings, std::unique_ptr<SegmentSource> source)
    : settings_(settings),
      source_(std::move(source)),
      allowed_(part_of(settings.memory_fraction, source_->capacity())) {
  if (!settings.expandable_segments) return;
  const Bytes unit = source_->page_size();
  for (const Bytes page : {kSmallBuffer, settings.large_segment_size}) {
    if (unit == 0 || page % unit != 0) {
      fail("expandable segments need pages of ", page, " bytes, the device maps multiples of ", unit,
           ": leave them off");
    }
  }
}

// ---- requests ----

std::optional<Address> CachingAllocator::allocate(Bytes size, Stream stream, Pool pool) {
  if (size < 0) fail("cannot allocate ", size, " bytes");
  if (size == 0) return Address{0};
  Block* block = nullptr;
  if (size < kAbsurdSize) {
    const Bytes rounded = round_size(settings_, size);
    PoolPair& pools = pools_of(pool);
    const Wish wish{rounded, stream, rounded <= kSmallSize ? pools.small : pools.large};
    block = find_free(wish);
    if (block == nullptr) block = grow(wish);
    if (block != nullptr && worth_splitting(*block, rounded)) {
      Block* rest = block;
      block = cut(rest, rounded);
      put_into_pool(rest);
    }
  }
  if (block == nullptr) {
    ++statistics_.ooms;
    return std::nullopt;
  }
  block->in_use = true;
  block->requested = size;
  in_use_.emplace(block->address, block);
  statistics_.allocated += block->size;
  statistics_.allocated_peak = std::max(statistics_.allocated_peak, statistics_.allocated);
  statistics_.requested += size;
  statistics_.requested_peak = std::max(statistics_.requested_peak, statistics_.requested);
  return block->address;
}

std::optional<Stream> CachingAllocator::stream_of(Address address) const {
  const auto found = in_use_.find(address);
  if (found == in_use_.end()) return std::nullopt;
  return found->second->stream;
}

void CachingAllocator::free(Address address) {
  if (address == 0) return;
  const auto found = in_use_.find(address);
  if (found == in_use_.end()) fail("address ", address, " is not allocated: freed twice, or from elsewhere");
  Block* block = found->second;
  in_use_.erase(found);
  statistics_.allocated -= block->size;
  statistics_.requested -= block->requested;
  block->in_use = false;
  merge(block, block->previous);
  merge(block, block->next);
  put_into_pool(block);
}

/// Takes the best fit out of the pool. (`get_free_block`)
CachingAllocator::Block* CachingAllocator::find_free(const Wish& wish) {
  BlockPool& pool = wish.pool;
  if (collects_garbage()) ++pool.searches;
  Block key{.size = wish.size, .stream = wish.stream};
  auto found = pool.free.lower_bound(&key);
  if (found == pool.free.end() || (*found)->stream != wish.stream) return nullptr;
  if (settings_.expandable_segments) found = least_expandable(pool, found);

  Block* block = *found;
  const Bytes limit = settings_.max_split_size;
  if (wish.size < limit && block->size >= limit) return nullptr;
  if (wish.size >= limit && block->size >= wish.size + settings_.max_non_split_rounding) return nullptr;
  pool.free.erase(found);
  return block;
}

/// A block that ends at unmapped space counts as what it can become, so that it is kept for later.
CachingAllocator::FreeBlocks::iterator CachingAllocator::least_expandable(const BlockPool& pool,
                                                                          FreeBlocks::iterator found) {
  const auto room = [](const Block* block) {
    return block->size + (block->next != nullptr && !block->next->mapped ? block->next->size : 0);
  };
  for (auto next = std::next(found); next != pool.free.end(); ++next) {
    if ((*next)->stream != (*found)->stream || room(*next) >= room(*found)) break;
    found = next;
  }
  return found;
}

/// A new block from the device, giving back more and more of the cache when it refuses. (`malloc`)
CachingAllocator::Block* CachingAllocator::grow(const Wish& wish) {
  if (collects_garbage()) collect_garbage();
  Block* block = new_block(wish);
  if (block == nullptr && release_oversize_blocks(wish)) block = new_block(wish);
  if (block == nullptr) {
    release_cached_blocks();
    ++statistics_.retries;
    block = new_block(wish);
  }
  return block;
}

/// (`alloc_block`)
CachingAllocator::Block* CachingAllocator::new_block(const Wish& wish) {
  const Bytes size = allocation_size(settings_, wish.size);
  if (statistics_.reserved + size > allowed_) return nullptr;
  return settings_.expandable_segments ? expand(wish) : new_segment(wish, size);
}

CachingAllocator::Block* CachingAllocator::new_segment(const Wish& wish, Bytes size) {
  const std::optional<Address> address = source_->allocate(size);
  if (!address) return nullptr;
  note_reserved();
  ++statistics_.segments;
  Block* block = make_block(
      {.address = *address, .size = size, .stream = wish.stream, .pool = &wish.pool, .rank = next_rank()});
  log(SegmentAction::kAlloc, *block);
  return block;
}

/// (`should_split`)
bool CachingAllocator::worth_splitting(const Block& block, Bytes size) const {
  const Bytes rest = block.size - size;
  if (block.pool->small || settings_.expandable_segments) return rest >= kMinBlockSize;
  return size < settings_.max_split_size && rest > kSmallSize;
}

/// Cuts `size` bytes off the low end of a block that is in no pool; gives the block they are in.
CachingAllocator::Block* CachingAllocator::cut(Block* block, Bytes size) {
  Block* low = make_block(*block);
  low->size = size;
  low->next = block;
  if (low->previous != nullptr) low->previous->next = low;
  block->previous = low;
  block->address += static_cast<Address>(size);
  block->size -= size;
  return low;
}

/// Makes one block of two neighbours, if they are of one kind. `into` must not be in its pool, `other` is.
/// (`try_merge_blocks`)
void CachingAllocator::merge(Block* into, Block* other) {
  if (other == nullptr || other->in_use || other->mapped != into->mapped) return;
  if (other->mapped) {
    other->pool->free.erase(other);
  } else {
    other->pool->unmapped.erase(other);
  }
  into->address = std::min(into->address, other->address);
  into->size += other->size;
  drop_block(other);
}

// ---- expandable segments ----

Bytes CachingAllocator::page_size(const BlockPool& pool) const {
  return pool.small ? kSmallBuffer : settings_.large_segment_size;
}

/// Maps pages until the free block at the lowest fitting address is large enough. What was mapped before the
/// device refused stays, as a free block. (`try_allocate_expandable_block`)
CachingAllocator::Block* CachingAllocator::expand(const Wish& wish) {
  if (wish.size > source_->capacity()) return nullptr;
  Block* block = expandable_place(wish);
  if (block != nullptr && !block->mapped) block = map(block, std::min(block->size, wish.size));
  while (block != nullptr && block->size < wish.size) {
    Block* hole = block->next;  // mapped, it swallows what is free on either side
    block = map(hole, std::min(hole->size, wish.size - block->size));
  }
  if (block != nullptr) wish.pool.free.erase(block);
  return block;
}

/// The lowest row of free and unmapped blocks that has room, starting with the free block before the hole if
/// there is one; else a new reservation. (`find_expandable_block`)
CachingAllocator::Block* CachingAllocator::expandable_place(const Wish& wish) {
  const auto has_room = [&](const Block* block) {
    Bytes room = 0;
    for (; room < wish.size && block != nullptr && !block->in_use; block = block->next) room += block->size;
    return room >= wish.size;
  };
  BlockPool& pool = wish.pool;
  Block key{.stream = wish.stream};
  for (auto hole = pool.unmapped.lower_bound(&key);
       hole != pool.unmapped.end() && (*hole)->stream == wish.stream; ++hole) {
    Block* before = (*hole)->previous;
    Block* start = before != nullptr && !before->in_use ? before : *hole;
    if (has_room(start)) return start;
  }
  // Addresses for 9/8 of the device, as pages may go at the low end and be needed again at the high one.
  const Bytes page = page_size(pool);
  const Bytes size = align_up(source_->capacity() + source_->capacity() / 8, page);
  const std::optional<Address> addresses = source_->reserve(size, page);
  if (!addresses) return nullptr;
  Block* block = make_block({.address = *addresses,
                             .size = size,
                             .stream = wish.stream,
                             .pool = &pool,
                             .mapped = false,
                             .rank = next_rank()});
  pool.unmapped.insert(block);
  return block;
}

/// Maps the pages under the first `size` bytes of an unmapped block, all or none, and gives the free block
/// that they are part of then. (`map_block`)
CachingAllocator::Block* CachingAllocator::map(Block* block, Bytes size) {
  const Bytes page = page_size(*block->pool);
  const Bytes mapped = align_up(size, page);
  const bool done = source_->map(block->address, mapped, page);
  note_reserved();
  if (!done) return nullptr;
  UnmappedBlocks& unmapped = block->pool->unmapped;
  unmapped.erase(block);
  if (mapped < block->size) {
    Block* rest = block;
    block = cut(rest, mapped);
    unmapped.insert(rest);
  }
  block->mapped = true;
  log(SegmentAction::kMap, *block);
  merge(block, block->previous);
  merge(block, block->next);
  put_into_pool(block);
  return block;
}

/// Unmaps the pages that lie wholly inside a free block; what sticks out stays free. (`unmap_block`)
void CachingAllocator::unmap(Block* block) {
  const auto page = static_cast<Address>(page_size(*block->pool));
  const Address begin = (block->address + page - 1) / page * page;
  const Address end = (block->address + static_cast<Address>(block->size)) / page * page;
  if (begin >= end) return;
  block->pool->free.erase(block);
  if (begin > block->address) put_into_pool(cut(block, static_cast<Bytes>(begin - block->address)));
  if (end < block->address + static_cast<Address>(block->size)) {
    Block* rest = block;
    block = cut(rest, static_cast<Bytes>(end - begin));
    put_into_pool(rest);
  }
  source_->unmap(block->address, block->size);
  note_reserved();
  log(SegmentAction::kUnmap, *block);
  block->mapped = false;
  merge(block, block->previous);
  merge(block, block->next);
  const bool alone = block->previous == nullptr && block->next == nullptr;
  if (alone && source_->release(block->address)) {
    drop_block(block);  // the reservation ends with its last page
  } else {
    block->pool->unmapped.insert(block);
  }
}

// ---- giving memory back ----

bool CachingAllocator::collects_garbage() const {
  return settings_.garbage_collection_threshold > 0 && settings_.memory_fraction < 1 &&
         !settings_.expandable_segments;  // those are never collected
}

/// Frees the segments of the large pool that have lain unused for longer than the average, and again, until
/// the reserve is below the threshold. (`garbage_collect_cached_blocks`)
void CachingAllocator::collect_garbage() {
  const auto threshold =
      static_cast<Bytes>(settings_.garbage_collection_threshold * static_cast<double>(allowed_));
  BlockPool& pool = pools_of(0).large;
  const auto age = [&](const Block* block) { return pool.searches - block->freed_at; };
  const auto freeable = [](const Block* block) {
    return block->previous == nullptr && block->next == nullptr;
  };
  std::vector<Block*> candidates;
  std::copy_if(pool.free.begin(), pool.free.end(), std::back_inserter(candidates), freeable);
  while (statistics_.reserved > threshold && !candidates.empty()) {
    std::int64_t total = 0;
    for (const Block* block : candidates) total += age(block);
    const double average = static_cast<double>(total) / static_cast<double>(candidates.size());
    const auto old = std::stable_partition(candidates.begin(), candidates.end(), [&](const Block* block) {
      return static_cast<double>(age(block)) < average;
    });
    std::for_each(old, candidates.end(), [&](Block* block) { release_segment(block); });
    candidates.erase(old, candidates.end());
  }
}

/// With a max_split_size: frees one oversize block that is large enough or, from the largest down, as many as
/// needed. (`release_available_cached_blocks`)
bool CachingAllocator::release_oversize_blocks(const Wish& wish) {
  if (settings_.max_split_size == kUnlimited || settings_.expandable_segments) return false;
  FreeBlocks& free = wish.pool.free;
  const Bytes needed = std::max(wish.size, settings_.max_split_size);
  Block key{.size = needed, .stream = wish.stream};
  const auto found = free.lower_bound(&key);
  if (found != free.end() && (*found)->stream == wish.stream) {
    release_segment(*found);
    return true;
  }
  std::vector<Block*> victims;
  Bytes released = 0;
  for (auto it = found; it != free.begin() && released < needed;) {
    Block* block = *--it;
    if (block->stream != wish.stream || block->size < settings_.max_split_size) break;
    released += block->size;
    victims.push_back(block);
  }
  for (Block* block : victims) release_segment(block);
  return released >= needed;
}

void CachingAllocator::empty_cache() {
  release_cached_blocks();
}

void CachingAllocator::release_pool(Pool pool) {
  pools_of(pool).released = true;
}

void CachingAllocator::release_cached_blocks() {
  if (before_flush_) before_flush_();
  for (auto& [id, pools] : pools_) {
    if (id != 0 && !pools.released) continue;
    release_free_blocks(pools.large);
    release_free_blocks(pools.small);
  }
}

/// (`release_blocks`)
void CachingAllocator::release_free_blocks(BlockPool& pool) {
  const std::vector<Block*> free(pool.free.begin(), pool.free.end());
  for (Block* block : free) {
    if (settings_.expandable_segments) {
      unmap(block);
    } else if (block->previous == nullptr && block->next == nullptr) {
      release_segment(block);
    }
  }
}

void CachingAllocator::release_segment(Block* block) {
  if (!source_->free(block->address, block->size)) return;
  note_reserved();
  log(SegmentAction::kFree, *block);
  block->pool->free.erase(block);
  --statistics_.segments;
  drop_block(block);
}

// ---- looking at it ----

std::vector<CachedSegment> CachingAllocator::segments() const {
  std::vector<CachedSegment> segments;
  for (const Block& block : blocks_) {
    const bool begins_a_row = block.pool != nullptr && block.previous == nullptr;
    if (begins_a_row) add_row(&block, segments);
  }
  std::ranges::sort(segments, {}, &CachedSegment::address);
  return segments;
}

/// Adds the mapped stretches of the row that begins with `block`.
void CachingAllocator::add_row(const Block* block, std::vector<CachedSegment>& segments) {
  for (bool joins = false; block != nullptr; joins = block->mapped, block = block->next) {
    if (!block->mapped) continue;
    if (!joins)
      segments.push_back({block->address, 0, block->stream, block->pool->id, block->pool->small, {}});
    CachedSegment& segment = segments.back();
    segment.size += block->size;
    segment.blocks.push_back(
        {block->address, block->size, block->in_use ? block->requested : 0, block->in_use});
  }
}

// ---- blocks ----

void CachingAllocator::put_into_pool(Block* block) {
  block->freed_at = block->pool->searches;
  block->pool->free.insert(block);
}

void CachingAllocator::note_reserved() {
  statistics_.reserved = source_->held();
  statistics_.reserved_peak = std::max(statistics_.reserved_peak, statistics_.reserved);
}

/// The device gave us this block, or took it back.
void CachingAllocator::log(SegmentAction action, const Block& block) {
  if (log_ == nullptr) return;
  log_->note({.action = action,
              .address = block.address,
              .size = block.size,
              .stream = block.stream,
              .pool = block.pool->id,
              .small = block.pool->small});
}

CachingAllocator::Block* CachingAllocator::make_block(const Block& content) {
  if (spare_.empty()) return &blocks_.emplace_back(content);
  Block* block = spare_.back();
  spare_.pop_back();
  *block = content;
  return block;
}

/// Takes a block out of its row; it must be in no pool any more.
void CachingAllocator::drop_block(Block* block) {
  if (block->previous != nullptr) block->previous->next = block->next;
  if (block->next != nullptr) block->next->previous = block->previous;
  block->pool = nullptr;
  spare_.push_back(block);
}

}  // namespace stweaver
