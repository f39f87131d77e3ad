// PyTorch's caching allocator as an upstream, on the memory of a device or on numbers.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/upstream.h"
#include "simulate/caching_allocator.h"

namespace stweaver {

/// A CachingAllocator that any thread may call and that waits for streams as PyTorch's does: a block that was
/// used on other streams is in use until the events that its free records there have passed.
class CachingUpstream final : public Upstream {
 public:
  /// On memory of `device`, which must outlive this. Its end gives everything back, in use or not. Errors as
  /// of CachingAllocator.
  CachingUpstream(const AllocatorSettings& settings, Device& device);
  /// On numbers: the pointers must not be followed. No work is done there, so no stream is waited for.
  explicit CachingUpstream(const AllocatorSettings& settings, Bytes capacity = kAmpleCapacity);
  CachingUpstream(const CachingUpstream&) = delete;
  CachingUpstream& operator=(const CachingUpstream&) = delete;
  CachingUpstream(CachingUpstream&&) = delete;
  CachingUpstream& operator=(CachingUpstream&&) = delete;
  ~CachingUpstream() override;

  /// Null for 0 bytes too, as PyTorch. Error for a negative size.
  void* allocate(Bytes size, Stream stream, Pool pool) override;
  /// Null is ignored.
  void free(void* memory) override;
  void record_stream(void* memory, Stream stream) override;
  void empty_cache() override;
  /// Nobody needs this pool any more: what is free in it goes back with the rest.
  void release_pool(Pool pool);
  [[nodiscard]] Bytes reserved() const override;
  [[nodiscard]] Bytes allocated() const override;
  [[nodiscard]] AllocatorStatistics statistics() const;

 private:
  struct Use {
    DeviceEvent event = kNoEvent;
    Address block = 0;
  };

  void check_in_use(Address block) const;
  bool passed(DeviceEvent event);
  void finish(const Use& use);
  void free_passed();
  void free_all_waiting();

  mutable std::mutex mutex_;
  Device* device_;  ///< null on numbers
  CachingAllocator allocator_;
  std::unordered_map<Address, std::vector<Stream>> used_on_;  ///< blocks in use on streams not their own
  std::unordered_map<Address, int> waiting_;                  ///< freed blocks -> events that have not passed
  std::map<Stream, std::deque<Use>> events_;                  ///< of each stream in its order
};

}  // namespace stweaver
