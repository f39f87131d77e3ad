// An allocator that follows a plan, on numbers instead of memory: what the arena serves and what the
// fallback.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "plan/static_plan.h"
#include "simulate/caching_allocator.h"

namespace stweaver {

/// Serves each request from the slot it stands for, if that is free; failing that from the smallest gap in
/// what is idle in the arena just now (in plans of one stream, for that stream: elsewhere that could hand
/// memory to a stream that has to wait for it); and otherwise from a caching allocator. Reserved is the whole
/// arena, from the first request on, and what the fallback reserves.
///
/// Matching: requests come in the order of the slots. A request takes the next slot of its stream that it
/// fits: the same size, or, for a varying slot, the same share of the slot's size as the requests before it,
/// since a step's sizes grow together. Slots that a step leaves out are skipped, once
/// two requests in a row agree where the job has got to, so that a request on top leads nobody astray. At
/// each step the search starts at the step's first slot.
class PlannedAllocator {
 public:
  /// `steps`: the numbers of the requests that begin the job's steps, ascending. `plan` must outlive this.
  /// Error when the arena is larger than the device.
  PlannedAllocator(const Plan& plan, std::vector<RequestId> steps, const AllocatorSettings& fallback,
                   Bytes capacity = kAmpleCapacity);

  std::optional<Address> allocate(Bytes size, Stream stream, Pool pool = 0);
  void free(Address address);

  [[nodiscard]] AllocatorStatistics statistics() const;
  [[nodiscard]] std::int64_t hits() const { return hits_; }      ///< requests served from the arena
  [[nodiscard]] std::int64_t misses() const { return misses_; }  ///< requests served by the fallback
  [[nodiscard]] Bytes fallback_reserved_peak() const { return fallback_.statistics().reserved_peak; }

 private:
  struct Wish {
    Bytes size = 0;
    Stream stream = 0;
    Pool pool = 0;
  };

  struct Block {
    Bytes end = 0;
    Bytes requested = 0;
  };

  void begin_step_if_due();
  [[nodiscard]] std::size_t part_end() const;
  [[nodiscard]] bool corresponds(const Slot& slot, const Wish& wish) const;
  std::optional<Bytes> find_place(const Wish& wish);
  std::optional<std::size_t> match(const Wish& wish);
  [[nodiscard]] std::optional<std::size_t> find_slot(std::size_t from, std::size_t reach, const Wish& wish,
                                                     bool varying) const;
  std::size_t go_on_behind(std::size_t slot);
  std::size_t try_skip(std::size_t slot);
  [[nodiscard]] std::optional<Bytes> find_idle(Bytes size) const;
  [[nodiscard]] bool is_free(Bytes offset, Bytes size) const;

  const Plan& plan_;
  std::vector<RequestId> steps_;
  CachingAllocator fallback_;
  bool one_stream_;
  std::size_t next_step_ = 0;
  RequestId requests_ = 0;                 ///< so far
  std::size_t cursor_ = 0;                 ///< the next slot in order
  std::optional<std::size_t> skipped_to_;  ///< the next slot if a skip was right
  double share_ = 1;                       ///< of its slot that the last varying request needed
  std::map<Bytes, Block> alive_;           ///< offset -> block in the arena
  Bytes requested_ = 0;                    ///< in the arena
  Bytes allocated_ = 0;                    ///< in the arena, aligned
  Bytes requested_peak_ = 0;               ///< with the fallback
  Bytes allocated_peak_ = 0;               ///< with the fallback
  std::int64_t hits_ = 0;
  std::int64_t misses_ = 0;
};

}  // namespace stweaver
