// PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp, read at torch 2.10), with its native
// segments and with its expandable segments, on numbers or on the memory of a device.
//
// Words, as there. A *segment* is what one cudaMalloc returned, or a long range of addresses reserved for
// expansion, into which *pages* are mapped as they are needed. A segment is a row of *blocks*, each in use,
// free (cached) or, in an expandable segment, unmapped. A *pool* holds the free blocks of one kind: small or
// large, PyTorch's default pool or one that belongs to a CUDA graph or a MemPool.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulate/allocator.h"
#include "simulate/segment_log.h"
#include "simulate/segments.h"
#include "simulate/settings.h"

namespace stweaver {

/// A block of a segment as it is now. Sizes in bytes.
struct CachedBlock {
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;  ///< what was asked for; 0 when it is free
  bool in_use = false;
};

/// A segment, or a range of mapped pages of an expandable one, and its blocks in the order of their
/// addresses.
struct CachedSegment {
  Address address = 0;
  Bytes size = 0;
  Stream stream = 0;
  Pool pool = 0;
  bool small = false;  ///< of the small pool
  std::vector<CachedBlock> blocks;
};

class CachingAllocator {
 public:
  /// On numbers. `capacity`: bytes the device can give, from 1 to kAmpleCapacity; settings.memory_fraction of
  /// it may be reserved. Of two free blocks of one size the lower is taken (but see settings.oldest_first),
  /// so the addresses of segments matter a little: without `place`, each lies below all before it, which is
  /// how the driver mostly does it (docs/simulation.md has the evidence). Error for a capacity out of range.
  explicit CachingAllocator(const AllocatorSettings& settings, Bytes capacity = kAmpleCapacity,
                            SegmentPlacer place = {});

  /// On memory: addresses are pointers into it. What the device does not take back stays in the cache. At its
  /// end the allocator gives everything back, in use or not. `device` must outlive it. Error for expandable
  /// segments on a device that cannot map pages of their size.
  CachingAllocator(const AllocatorSettings& settings, Device& device);

  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  CachingAllocator(CachingAllocator&&) = delete;
  CachingAllocator& operator=(CachingAllocator&&) = delete;
  ~CachingAllocator() = default;

  /// The address of a block of at least `size` bytes, 0 for no bytes (as PyTorch), nothing when out of
  /// memory. Error for a negative size.
  std::optional<Address> allocate(Bytes size, Stream stream, Pool pool = 0);

  /// The stream that an allocated block was asked for on; nothing for any other address.
  [[nodiscard]] std::optional<Stream> stream_of(Address address) const;

  /// Back to the free blocks; it may be used again at once, so other streams must be done with it. 0 is
  /// ignored. Error for an address that is not allocated.
  void free(Address address);

  /// Gives back to the device what can be given back: free segments and pages of the default pool and of
  /// released pools.
  void empty_cache();

  /// Nobody needs this pool any more (the graph is gone): its free segments may go back to the device.
  void release_pool(Pool pool);

  /// `hook` is called before the cache is flushed, by empty_cache() or when memory is short: a caller that
  /// holds blocks back until streams are done with them may wait for those and free them there.
  void before_flush(std::function<void()> hook) { before_flush_ = std::move(hook); }

  /// Tells `log`, which must outlive this, of all memory that is taken or given back from now on.
  void log_segments(SegmentLog& log) { log_ = &log; }

  [[nodiscard]] const AllocatorStatistics& statistics() const { return statistics_; }

  /// All that is held from the device, in the order of addresses: their sizes sum up to what is reserved.
  [[nodiscard]] std::vector<CachedSegment> segments() const;

 private:
  struct BlockPool;

  struct Block {
    Address address = 0;
    Bytes size = 0;
    Bytes requested = 0;  ///< when in use: what was asked for
    Stream stream = 0;
    BlockPool* pool = nullptr;
    Block* previous = nullptr;  ///< its neighbours in the segment, by address
    Block* next = nullptr;
    bool in_use = false;
    bool mapped = true;
    std::int64_t freed_at = 0;  ///< BlockPool::searches when it was put into the pool
    std::int64_t rank = 0;      ///< the number of its segment, where that decides between equals
  };

  /// Best fit is the first of this order that is not less than the request.
  struct BySize {
    bool operator()(const Block* a, const Block* b) const;
  };
  struct ByAddress {
    bool operator()(const Block* a, const Block* b) const;
  };
  using FreeBlocks = std::set<Block*, BySize>;
  using UnmappedBlocks = std::set<Block*, ByAddress>;

  struct BlockPool {
    Pool id = 0;
    bool small = false;
    FreeBlocks free;
    UnmappedBlocks unmapped;
    std::int64_t searches = 0;  ///< the clock that garbage collection measures the age of blocks with
  };

  struct PoolPair {
    explicit PoolPair(Pool id)
        : small{.id = id, .small = true, .free = {}, .unmapped = {}},
          large{.id = id, .free = {}, .unmapped = {}} {}

    BlockPool small;
    BlockPool large;
    bool released = false;
  };

  /// One request on its way through the allocator.
  struct Wish {
    Bytes size = 0;  ///< rounded
    Stream stream = 0;
    BlockPool& pool;
  };

  CachingAllocator(const AllocatorSettings& settings, std::unique_ptr<SegmentSource> source);

  Block* find_free(const Wish& wish);
  static FreeBlocks::iterator least_expandable(const BlockPool& pool, FreeBlocks::iterator found);
  Block* grow(const Wish& wish);
  Block* new_block(const Wish& wish);
  Block* new_segment(const Wish& wish, Bytes size);
  Block* expand(const Wish& wish);
  Block* expandable_place(const Wish& wish);
  Block* map(Block* block, Bytes size);
  void unmap(Block* block);
  [[nodiscard]] bool worth_splitting(const Block& block, Bytes size) const;
  Block* cut(Block* block, Bytes size);
  void merge(Block* into, Block* other);

  [[nodiscard]] bool collects_garbage() const;
  void collect_garbage();
  bool release_oversize_blocks(const Wish& wish);
  void release_cached_blocks();
  void release_free_blocks(BlockPool& pool);
  void release_segment(Block* block);

  static void add_row(const Block* block, std::vector<CachedSegment>& segments);
  static void put_into_pool(Block* block);
  std::int64_t next_rank() { return settings_.oldest_first ? ++ranks_ : 0; }
  Block* make_block(const Block& content);
  PoolPair& pools_of(Pool id) { return pools_.try_emplace(id, id).first->second; }
  void drop_block(Block* block);
  void note_reserved();
  void log(SegmentAction action, const Block& block);
  [[nodiscard]] Bytes page_size(const BlockPool& pool) const;

  AllocatorSettings settings_;
  std::unique_ptr<SegmentSource> source_;
  Bytes allowed_;  ///< what the memory fraction leaves of the capacity
  AllocatorStatistics statistics_;
  std::function<void()> before_flush_;
  SegmentLog* log_ = nullptr;
  std::int64_t ranks_ = 0;
  std::map<Pool, PoolPair> pools_;  // a map, because blocks point to their pools
  std::deque<Block> blocks_;        // every block ever made; those in spare_ are without use
  std::vector<Block*> spare_;
  std::unordered_map<Address, Block*> in_use_;
};

}  // namespace stweaver
