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
/// what is idle in the arena just now (on jobs of one stream: elsewhere that could hand memory to a stream
/// that has to wait for it); and otherwise from a caching allocator. Reserved is the whole arena, from the
/// first request on, and what the fallback reserves.
///
/// Matching: requests come in the order of the slots. A request takes the next slot of its stream that it
/// fits: the same size, or, for a varying slot, the same share of the slot's size as the requests before it,
/// since a step's sizes grow together. Slots that a step leaves out are skipped, requests it has on top go to
/// the fallback; at each step the search starts at the step's first slot.
class PlannedAllocator {
 public:
  /// `steps`: the numbers of the requests that begin the job's steps, ascending. `plan` must outlive this.
  PlannedAllocator(const Plan& plan, std::vector<RequestId> steps, const AllocatorSettings& fallback,
                   Bytes capacity = kAmpleCapacity);

  std::optional<Address> allocate(Bytes size, Stream stream, Pool pool = 0);
  void free(Address address);

  [[nodiscard]] AllocatorStatistics statistics() const;
  [[nodiscard]] std::int64_t hits() const { return hits_; }      ///< requests served from the arena
  [[nodiscard]] std::int64_t misses() const { return misses_; }  ///< requests served by the fallback
  [[nodiscard]] Bytes fallback_reserved_peak() const { return fallback_.statistics().reserved_peak; }

 private:
  struct Block {
    Bytes end = 0;
    Bytes requested = 0;
  };

  void begin_step_if_due();
  [[nodiscard]] std::size_t part_end() const;
  [[nodiscard]] bool corresponds(const Slot& slot, Bytes size, Stream stream) const;
  std::optional<std::size_t> match(Bytes size, Stream stream);
  [[nodiscard]] Bytes find_idle(Bytes size) const;
  [[nodiscard]] bool is_free(Bytes offset, Bytes size) const;

  const Plan& plan_;
  std::vector<RequestId> steps_;
  CachingAllocator fallback_;
  bool one_stream_;
  std::size_t next_step_ = 0;
  RequestId requests_ = 0;        ///< so far
  std::size_t cursor_ = 0;        ///< the next slot in order
  double share_ = 1;              ///< of its slot that the last varying request needed
  std::map<Bytes, Block> alive_;  ///< offset -> block in the arena
  Bytes requested_ = 0;
  Bytes requested_peak_ = 0;
  std::int64_t hits_ = 0;
  std::int64_t misses_ = 0;
};

}  // namespace stweaver
