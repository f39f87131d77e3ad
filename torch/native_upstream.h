// PyTorch's own CUDA allocator as the fallback.
#pragma once

#include <atomic>
#include <c10/cuda/CUDAStream.h>
#include <memory>
#include <string>

#include "delegate.h"
#include "runtime/upstream.h"

namespace stweaver {

inline cudaStream_t stream_from(Stream stream) {
  return reinterpret_cast<cudaStream_t>(stream);  // NOLINT(performance-no-int-to-ptr): a handle
}
inline Stream number_of(cudaStream_t stream) {
  return reinterpret_cast<Stream>(stream);
}

/// Whether this thread's requests have found no block in the native allocator's cache, which calls Execute()
/// before it asks the device for memory or gives any back. A few nanoseconds, and only then, where
/// getDeviceStats() takes microseconds.
class CacheMiss final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    happened() = true;
    return false;  // nothing was freed
  }
  static bool& happened() {
    thread_local bool happened = false;
    return happened;
  }
};

class NativeUpstream final : public Upstream {
 public:
  NativeUpstream(cca::CUDAAllocator& native, DeviceIndex device) : native_(native), device_(device) {}

  /// Wants the device to be the thread's current one, as PyTorch's raw_alloc() does.
  void* allocate(Bytes size, Stream stream, Pool /*pool*/) override {
    CacheMiss::happened() = false;
    is_asked() = true;
    void* memory = nullptr;
    try {
      memory = native_.raw_alloc_with_stream(static_cast<std::size_t>(size), stream_from(stream));
    } catch (const c10::OutOfMemoryError& error) {
      last_refusal() = error.what_without_backtrace();
      ++refusals_;
    } catch (...) {
      is_asked() = false;
      throw;
    }
    is_asked() = false;
    return memory;
  }

  /// Whether this thread's request is ours: another place may be found where there is none.
  static bool& is_asked() {
    thread_local bool is_asked = false;
    return is_asked;
  }

  void free(void* memory) override { native_.raw_delete(memory); }

  /// The native allocator wants to see its own deleter.
  void record_stream(void* memory, Stream stream) override {
    c10::DataPtr pointer(memory, memory, native_.raw_deleter(), c10::Device(c10::kCUDA, device_));
    const auto release = [](c10::DataPtr* borrowed) { borrowed->release_context(); };  // also where it throws
    const std::unique_ptr<c10::DataPtr, decltype(release)> guard(&pointer, release);
    native_.recordStream(pointer, c10::cuda::getStreamFromExternal(stream_from(stream), device_));
  }

  void empty_cache() override { native_.emptyCache({0, 0}); }
  [[nodiscard]] Bytes reserved() const override {
    return native_.getDeviceStats(device_).reserved_bytes[0].current;
  }
  [[nodiscard]] bool may_have_grown() const override { return CacheMiss::happened(); }
  [[nodiscard]] Bytes allocated() const override {
    return native_.getDeviceStats(device_).allocated_bytes[0].current;
  }

  /// How often the native allocator was out of memory; the request may have found a place all the same.
  [[nodiscard]] std::int64_t refusals() const { return refusals_; }

  /// What the native allocator said when it was out of memory in this thread.
  static std::string& last_refusal() {
    thread_local std::string words;
    return words;
  }

 private:
  cca::CUDAAllocator& native_;
  DeviceIndex device_;
  std::atomic<std::int64_t> refusals_{0};
};

}  // namespace stweaver
