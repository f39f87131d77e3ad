// Where releases of torch differ: PyTorch's CUDA allocator, every call handed on to another one.
//
// The interface changes with every minor release (c10/cuda/CUDACachingAllocator.h, 2.8 to 2.15 read), and
// some of its virtuals have defaults that throw or do nothing, so all of them are forwarded here. Who derives
// from this overrides what is the same in all releases, and the hooks at the end for what is not.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <functional>
#include <memory>
#include <string>
#include <torch/version.h>
#include <unordered_set>
#include <utility>
#include <vector>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 8
#error "STWeaver works with torch 2.8 or later"
#endif
#define STWEAVER_TORCH_AT_LEAST(minor) (TORCH_VERSION_MINOR >= (minor))

namespace stweaver {

namespace cca = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::cuda::MempoolId_t;

#if STWEAVER_TORCH_AT_LEAST(11)
using PoolAllocator = std::shared_ptr<cca::CUDAAllocator>;
#else
using PoolAllocator = cca::CUDAAllocator*;
#endif

/// What recordHistory() was asked for.
struct HistoryOptions {
  bool enabled = false;
  cca::CreateContextFn context = nullptr;
  std::size_t most_entries = 0;
  cca::RecordContext when = cca::RecordContext::NEVER;
  bool clears = false;
  std::vector<std::string> skipped_actions;
};

/// A trace entry of the default pool that has no context of torch.compile.
inline cca::TraceEntry trace_entry(cca::TraceEntry::Action action, DeviceIndex device, std::size_t address,
                                   std::size_t size, cudaStream_t stream,
                                   std::shared_ptr<c10::GatheredContext> context,
                                   [[maybe_unused]] std::string user_metadata) {
  return {
    action, device, address, size, stream, MempoolId_t{0, 0}, c10::getApproximateTime(), std::move(context),
#if STWEAVER_TORCH_AT_LEAST(10)
        "", std::move(user_metadata)
#endif
  };
}

class Delegate : public cca::CUDAAllocator {
 public:
  explicit Delegate(cca::CUDAAllocator* native) : native_(native) {}

  // c10::Allocator
  c10::DataPtr allocate(std::size_t size) override { return native_->allocate(size); }
  bool is_simple_data_ptr(const c10::DataPtr& pointer) const override {
    return native_->is_simple_data_ptr(pointer);
  }
  c10::DeleterFnPtr raw_deleter() const override { return native_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    native_->copy_data(to, from, size);
  }

  // c10::DeviceAllocator, until 2.8 CUDAAllocator itself
  bool initialized() override { return native_->initialized(); }
  void emptyCache(MempoolId_t pool) override { native_->emptyCache(pool); }
  cca::DeviceStats getDeviceStats(DeviceIndex device) override { return native_->getDeviceStats(device); }
  void resetAccumulatedStats(DeviceIndex device) override { native_->resetAccumulatedStats(device); }
  void resetPeakStats(DeviceIndex device) override { native_->resetPeakStats(device); }

  // CUDAAllocator
  void* raw_alloc(std::size_t size) override { return native_->raw_alloc(size); }
  void* raw_alloc_with_stream(std::size_t size, cudaStream_t stream) override {
    return native_->raw_alloc_with_stream(size, stream);
  }
  void raw_delete(void* memory) override { native_->raw_delete(memory); }
  void init(int devices) override { native_->init(devices); }
  double getMemoryFraction(DeviceIndex device) override { return native_->getMemoryFraction(device); }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    native_->setMemoryFraction(fraction, device);
  }
  void enable(bool value) override { native_->enable(value); }
  bool isEnabled() const override { return native_->isEnabled(); }
  void cacheInfo(DeviceIndex device, std::size_t* largest) override { native_->cacheInfo(device, largest); }
  void* getBaseAllocation(void* memory, std::size_t* size) override {
    return native_->getBaseAllocation(memory, size);
  }
  void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) override {
    native_->recordStream(pointer, stream);
  }
#if STWEAVER_TORCH_AT_LEAST(9)
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    recordStream(pointer, c10::cuda::CUDAStream(stream));
  }
#endif
  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    native_->beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
    native_->endAllocateToPool(device, pool);
  }
  void releasePool(DeviceIndex device, MempoolId_t pool) override {
    native_->releasePool(device, pool);
  }
  int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override {
    return native_->getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(DeviceIndex device, MempoolId_t pool, PoolAllocator allocator) override {
    native_->createOrIncrefPool(device, pool, std::move(allocator));
  }
  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override {
    return native_->checkPoolLiveAllocations(device, pool, expected);
  }
  cca::ShareableHandle shareIpcHandle(void* memory) override {
    return native_->shareIpcHandle(memory);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return native_->getIpcDevPtr(std::move(handle));
  }
  bool isHistoryEnabled() override {
    return native_->isHistoryEnabled();
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& annotation) override {
    native_->recordAnnotation(annotation);
  }
  void pushCompileContext(std::string& context) override {
    native_->pushCompileContext(context);
  }
  void popCompileContext() override {
    native_->popCompileContext();
  }
  void attachOutOfMemoryObserver(cca::OutOfMemoryObserver observer) override {
    native_->attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(cca::AllocatorTraceTracker tracker) override {
    native_->attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override {
    native_->enablePeerAccess(device, peer);
  }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, std::size_t size,
                          cudaStream_t stream, bool peers) override {
    return native_->memcpyAsync(to, to_device, from, from_device, size, stream, peers);
  }
  std::shared_ptr<cca::AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t pool) override {
    return native_->getCheckpointState(device, pool);
  }
  cca::CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                              std::shared_ptr<cca::AllocatorState> state) override {
    return native_->setCheckpointPoolState(device, std::move(state));
  }
  std::string name() override {
    return native_->name();
  }

#if STWEAVER_TORCH_AT_LEAST(10)
  std::vector<cca::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
    return native_->getExpandableSegmentSizes(device);
  }
  void setNoSplit(DeviceIndex device, MempoolId_t pool) override {
    native_->setNoSplit(device, pool);
  }
  void setUserMetadata(const std::string& metadata) override {
    native_->setUserMetadata(metadata);
  }
  std::string getUserMetadata() override {
    return native_->getUserMetadata();
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(DeviceIndex device) override {
    return native_->getMemoryInfo(device);
  }
#endif

#if STWEAVER_TORCH_AT_LEAST(11)
  cca::SnapshotInfo snapshot(MempoolId_t pool, bool traces) override {
    cca::SnapshotInfo info = native_->snapshot(pool, traces);
    amend_snapshot(info, pool, traces);
    return info;
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) override {
    native_->setUseOnOOM(device, pool, use);
  }
  void recordHistory(bool enabled, cca::CreateContextFn context, std::size_t most_entries,
                     cca::RecordContext when, bool clears,
                     const std::vector<std::string>& skipped_actions) override {
    native_->recordHistory(enabled, context, most_entries, when, clears, skipped_actions);
    record_history({enabled, context, most_entries, when, clears, skipped_actions});
  }
#else
  cca::SnapshotInfo snapshot(MempoolId_t pool) override {
    cca::SnapshotInfo info = native_->snapshot(pool);
    amend_snapshot(info, pool, true);
    return info;
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t pool) override {
    native_->setUseOnOOM(device, pool);
  }
  void recordHistory(bool enabled, cca::CreateContextFn context, std::size_t most_entries,
                     cca::RecordContext when, bool clears) override {
    native_->recordHistory(enabled, context, most_entries, when, clears);
    record_history({enabled, context, most_entries, when, clears, {}});
  }
#endif

#if STWEAVER_TORCH_AT_LEAST(12)
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* memory) override {
    return native_->getContextForPointer(memory);
  }
  void attachOomRejectionObserver(cca::OomRejectionObserver observer) override {
    native_->attachOomRejectionObserver(std::move(observer));
  }
#endif

#if STWEAVER_TORCH_AT_LEAST(13)
  void markCaptureBegin(DeviceIndex device) override {
    native_->markCaptureBegin(device);
  }
  void markCaptureEnd(DeviceIndex device) override {
    native_->markCaptureEnd(device);
  }
  c10::DataPtr allocateWithAddress(std::size_t size, void* address) override {
    return native_->allocateWithAddress(size, address);
  }
#endif

#if STWEAVER_TORCH_AT_LEAST(14)
  bool supportsUserMetadata() override {
    return native_->supportsUserMetadata();
  }
  void annotateMemory(const void* memory, const std::string& metadata) override {
    native_->annotateMemory(memory, metadata);
  }
#endif

 protected:
  [[nodiscard]] cca::CUDAAllocator& native() const {
    return *native_;
  }

  /// What torch.cuda.memory._set_memory_metadata() was told last; empty before torch 2.10.
  [[nodiscard]] std::string user_metadata() const {
#if STWEAVER_TORCH_AT_LEAST(10)
    return native_->getUserMetadata();
#else
    return "";
#endif
  }

  /// Adds to a snapshot what the native allocator does not know.
  virtual void amend_snapshot(cca::SnapshotInfo& info, MempoolId_t pool, bool traces) = 0;
  /// The history of allocations was switched on or off.
  virtual void record_history(const HistoryOptions& options) = 0;

 private:
  cca::CUDAAllocator* native_;
};

}  // namespace stweaver
