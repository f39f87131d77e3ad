// What PyTorch's memory history and its observers are told of blocks in the arena.
#pragma once

#include <algorithm>
#include <atomic>
#include <c10/util/ApproximateClock.h>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/base.h"
#include "delegate.h"

namespace stweaver {

/// The native allocator keeps the history of its own blocks; this one adds ours to it.
class History {
 public:
  /// Whether anybody wants to be told.
  [[nodiscard]] bool is_wanted() const { return is_wanted_; }

  void set(const HistoryOptions& options) {
    const std::scoped_lock lock(mutex_);
    if (options.clears || !options.enabled) entries_.clear();
    if (!options.enabled) contexts_.clear();
    options_ = options;
    is_wanted_ = options_.enabled || !trackers_.empty();
  }

  void attach(const cca::AllocatorTraceTracker& tracker) {
    const std::scoped_lock lock(mutex_);
    trackers_.push_back(tracker);
    is_wanted_ = true;
  }

  void allocated(DeviceIndex device, void* memory, Bytes size, cudaStream_t stream,
                 const std::string& metadata) {
    const auto context = gather(cca::RecordContext::STATE);
    const std::scoped_lock lock(mutex_);
    if (context) contexts_[memory] = context;
    add(cca::TraceEntry::ALLOC, "alloc", device, memory, size, stream,
        options_.when >= cca::RecordContext::ALLOC ? context : nullptr, metadata);
  }

  /// Between the two memory may still be used by other streams, which is not told here.
  void freed(DeviceIndex device, void* memory, Bytes size, cudaStream_t stream, const std::string& metadata) {
    const auto context = gather(cca::RecordContext::ALL);
    const std::scoped_lock lock(mutex_);
    contexts_.erase(memory);
    add(cca::TraceEntry::FREE_REQUESTED, "free_requested", device, memory, size, stream, context, metadata);
    add(cca::TraceEntry::FREE_COMPLETED, "free_completed", device, memory, size, stream, context, metadata);
  }

  /// Who allocated the living block; nullptr when nobody asked to remember.
  [[nodiscard]] std::shared_ptr<c10::GatheredContext> context_of(const void* memory) const {
    const std::scoped_lock lock(mutex_);
    const auto found = contexts_.find(memory);
    return found == contexts_.end() ? nullptr : found->second;
  }

  /// Merges our entries of each device with the native ones, in the order of their times, which are
  /// microseconds since the epoch there.
  void add_to(std::vector<std::vector<cca::TraceEntry>>& traces) {
    const auto nanoseconds_of = clock_.makeConverter();
    const std::scoped_lock lock(mutex_);
    for (const auto& [device, entries] : entries_) {
      const auto index = static_cast<std::size_t>(device);
      if (traces.size() <= index) traces.resize(index + 1);
      std::vector<cca::TraceEntry>& trace = traces[index];
      const auto natives = static_cast<std::ptrdiff_t>(trace.size());
      for (cca::TraceEntry entry : entries) {
        entry.time_.t_ = nanoseconds_of(entry.time_.approx_t_) / 1000;
        trace.push_back(std::move(entry));
      }
      std::inplace_merge(
          trace.begin(), trace.begin() + natives, trace.end(),
          [](const cca::TraceEntry& a, const cca::TraceEntry& b) { return a.time_.t_ < b.time_.t_; });
    }
  }

 private:
  std::shared_ptr<c10::GatheredContext> gather(cca::RecordContext level) {
    cca::CreateContextFn create = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      if (options_.enabled && options_.when >= level) create = options_.context;
    }
    return create != nullptr ? create() : nullptr;
  }

  void add(cca::TraceEntry::Action action, const char* name, DeviceIndex device, void* memory, Bytes size,
           cudaStream_t stream, const std::shared_ptr<c10::GatheredContext>& context,
           const std::string& metadata) {
    const cca::TraceEntry entry = trace_entry(action, device, reinterpret_cast<std::size_t>(memory),
                                              static_cast<std::size_t>(size), stream, context, metadata);
    for (const cca::AllocatorTraceTracker& tracker : trackers_) tracker(entry);
    const std::vector<std::string>& skipped = options_.skipped_actions;
    if (!options_.enabled || std::find(skipped.begin(), skipped.end(), name) != skipped.end()) return;
    std::deque<cca::TraceEntry>& entries = entries_[device];
    entries.push_back(entry);
    if (entries.size() > options_.most_entries) entries.pop_front();
  }

  mutable std::mutex mutex_;
  std::atomic<bool> is_wanted_{false};
  HistoryOptions options_;
  std::vector<cca::AllocatorTraceTracker> trackers_;
  std::map<DeviceIndex, std::deque<cca::TraceEntry>> entries_;
  std::unordered_map<const void*, std::shared_ptr<c10::GatheredContext>> contexts_;
  c10::ApproximateClockToUnixTimeConverter clock_;
};

}  // namespace stweaver
