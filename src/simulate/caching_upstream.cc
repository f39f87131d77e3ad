#include "simulate/caching_upstream.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

namespace stweaver {

CachingUpstream::CachingUpstream(const AllocatorSettings& settings, Device& device)
    : device_(&device), allocator_(settings, device) {
  allocator_.before_flush([this] { free_all_waiting(); });
}

CachingUpstream::CachingUpstream(const AllocatorSettings& settings, Bytes capacity)
    : device_(nullptr), allocator_(settings, capacity) {}

CachingUpstream::~CachingUpstream() {
  for (const auto& [stream, uses] : events_) {
    for (const Use& use : uses) {
      if (use.event != kNoEvent) device_->forget(use.event);
    }
  }
}

void* CachingUpstream::allocate(Bytes size, Stream stream, Pool pool) {
  const std::lock_guard lock(mutex_);
  free_passed();
  return std::bit_cast<void*>(allocator_.allocate(size, stream, pool).value_or(0));
}

/// (`free` and `insert_events`)
void CachingUpstream::free(void* memory) {
  const auto block = std::bit_cast<Address>(memory);
  if (block == 0) return;
  const std::lock_guard lock(mutex_);
  check_in_use(block);
  const auto used = used_on_.find(block);
  if (used == used_on_.end()) return allocator_.free(block);
  const std::vector<Stream> streams = std::move(used->second);
  used_on_.erase(used);
  for (const Stream stream : streams) events_[stream].push_back({device_->record(stream), block});
  waiting_.emplace(block, static_cast<int>(streams.size()));
}

void CachingUpstream::record_stream(void* memory, Stream stream) {
  const auto block = std::bit_cast<Address>(memory);
  const std::lock_guard lock(mutex_);
  check_in_use(block);
  if (device_ == nullptr || allocator_.stream_of(block) == stream) return;
  std::vector<Stream>& streams = used_on_[block];
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

void CachingUpstream::empty_cache() {
  const std::lock_guard lock(mutex_);
  allocator_.empty_cache();
}

void CachingUpstream::release_pool(Pool pool) {
  const std::lock_guard lock(mutex_);
  allocator_.release_pool(pool);
}

Bytes CachingUpstream::reserved() const {
  return statistics().reserved;
}

Bytes CachingUpstream::allocated() const {
  return statistics().allocated;
}

AllocatorStatistics CachingUpstream::statistics() const {
  const std::lock_guard lock(mutex_);
  return allocator_.statistics();
}

void CachingUpstream::check_in_use(Address block) const {
  if (waiting_.contains(block) || !allocator_.stream_of(block)) {
    fail("address ", block, " is not allocated: freed before, or from elsewhere");
  }
}

/// Where no event could be recorded, all work must be over.
bool CachingUpstream::passed(DeviceEvent event) {
  return event == kNoEvent ? device_->synchronize() : device_->passed(event);
}

void CachingUpstream::finish(const Use& use) {
  if (use.event != kNoEvent) device_->forget(use.event);
  const auto waiting = waiting_.find(use.block);
  if (--waiting->second > 0) return;
  waiting_.erase(waiting);
  allocator_.free(use.block);
}

/// Looks at each stream's events up to the first that has not passed. (`process_events`)
void CachingUpstream::free_passed() {
  if (waiting_.empty()) return;
  for (auto& [stream, uses] : events_) {
    for (; !uses.empty() && passed(uses.front().event); uses.pop_front()) finish(uses.front());
  }
}

/// (`synchronize_and_free_events`)
void CachingUpstream::free_all_waiting() {
  if (waiting_.empty() || !device_->synchronize()) return;
  for (const auto& [stream, uses] : std::exchange(events_, {})) {
    for (const Use& use : uses) finish(use);
  }
}

}  // namespace stweaver
