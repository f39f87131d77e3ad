// The product: PyTorch's CUDA allocator with a plan. Serves requests from a Session's arenas, hands
// everything else on to the native allocator, and lets PyTorch see both as one.

#include <array>
#include <atomic>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>

#include "adapter.h"
#include "delegate.h"
#include "history.h"
#include "ipc.h"
#include "native_upstream.h"
#include "reported.h"
#include "session/session.h"
#include "shown.h"

namespace stweaver {
namespace {

void free_block(void* memory);

/// In a forked child CUDA does not work: what it inherits is left alone.
std::atomic<bool> is_forked{false};

class Wrapper final : public Delegate {
 public:
  explicit Wrapper(cca::CUDAAllocator* native) : Delegate(native), session_(provider()) {}

  [[nodiscard]] Session& session() { return session_; }
  [[nodiscard]] cca::CUDAAllocator* inner() const { return &native(); }

  // ---- requests ----

  c10::DataPtr allocate(std::size_t size) override {
    if (is_off()) return Delegate::allocate(size);
    const DeviceIndex device = current_device();
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(device);
    const cudaStream_t stream = current.stream();
    if (is_for_pool(device, stream) || is_foreign(current, stream))
      return delegated(device, [&] { return Delegate::allocate(size); });
    return unless_broken(
        [&] {
          void* const memory = take(device, size, stream);
          return c10::DataPtr(memory, memory, &free_block, c10::Device(c10::kCUDA, device));
        },
        [&] { return Delegate::allocate(size); });
  }

  void* raw_alloc(std::size_t size) override {
    if (is_off()) return Delegate::raw_alloc(size);
    return raw_alloc_with_stream(size, c10::cuda::getCurrentCUDAStream(current_device()).stream());
  }

  void* raw_alloc_with_stream(std::size_t size, cudaStream_t stream) override {
    if (is_off()) return Delegate::raw_alloc_with_stream(size, stream);
    const DeviceIndex device = current_device();
    const bool is_ours =
        !is_for_pool(device, stream) && !is_foreign(c10::cuda::getCurrentCUDAStream(device), stream);
    if (is_ours)
      return unless_broken([&] { return take(device, size, stream); },
                           [&] { return Delegate::raw_alloc_with_stream(size, stream); });
    return delegated(device, [&] { return Delegate::raw_alloc_with_stream(size, stream); });
  }

  void raw_delete(void* memory) override { give_back(memory); }

  void give_back(void* memory) {
    if (memory == nullptr) return;
    if (is_forked) {
      // What a child inherits of an arena is left alone; without one, all blocks are the native allocator's.
      if (session_.devices().empty()) Delegate::raw_delete(memory);
      return;
    }
    if (is_watched()) tell_freed(memory);
    session_.free(memory);
  }

  using Delegate::recordStream;
  void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) override {
    if (pointer.get() == nullptr) return;
    if (pointer.get_deleter() != &free_block) return Delegate::recordStream(pointer, stream);
    if (stream.device() != pointer.device()) return note_elsewhere(pointer, stream);
    session_.record_stream(pointer.get(), number_of(stream.stream()));
  }

  void emptyCache(MempoolId_t pool) override {
    if (pool == MempoolId_t{0, 0} && !session_.devices().empty()) return session_.empty_cache();
    Delegate::emptyCache(pool);
  }

  // ---- CUDA graphs and MemPools are the native allocator's ----

  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    Delegate::beginAllocateToPool(device, pool, filter);
    const std::scoped_lock lock(pools_mutex_);
    pools_.push_back({device, pool, c10::cuda::getCurrentCUDAStream(device).stream(), std::move(filter)});
    ++active_pools_;
  }

  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
    Delegate::endAllocateToPool(device, pool);
    {
      const std::scoped_lock lock(pools_mutex_);
      const auto found = std::find_if(pools_.begin(), pools_.end(), [&](const ActivePool& active) {
        return active.device == device && active.id == pool;
      });
      if (found != pools_.end()) {
        pools_.erase(found);
        --active_pools_;
      }
    }
    session_.release_deferred();
  }

  /// Whether a graph is captured on a stream that a pool was opened for. The id of a pool does not tell: a
  /// MemPool's and a graph's look alike.
  bool is_capturing() {
    if (active_pools_ == 0) return false;
    const std::scoped_lock lock(pools_mutex_);
    return any_captures();
  }

  // ---- limits, peers, other processes ----

  void setMemoryFraction(double fraction, DeviceIndex device) override {
    Limit& limit = limit_of(device);
    limit.total = total_memory(device);
    limit.fraction = fraction;
    limit.synced = limit.held.load();
    Delegate::setMemoryFraction(native_fraction(device), device);
  }
  double getMemoryFraction(DeviceIndex device) override {
    const Limit& limit = limit_of(device);
    return limit.fraction < 1 ? limit.fraction.load() : Delegate::getMemoryFraction(device);
  }

  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override {
    Delegate::enablePeerAccess(device, peer);
    const std::scoped_lock lock(peers_mutex_);
    peers_.emplace_back(device, peer);
    if (Device* const memory = memory_[static_cast<std::size_t>(peer)]) memory->let_peer(device);
  }

  /// Without peer access only cudaMemcpyPeerAsync can read memory that does not come from cudaMalloc.
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, std::size_t size,
                          cudaStream_t stream, bool peers) override {
    const bool is_ours = to_device != from_device && !peers &&
                         (lies_in_arena(to_device, to) || lies_in_arena(from_device, from));
    if (is_ours) return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
    return Delegate::memcpyAsync(to, to_device, from, from_device, size, stream, peers);
  }

  void* getBaseAllocation(void* memory, std::size_t* size) override {
    const std::optional<Segment> segment = segment_of(memory);
    if (!segment) return Delegate::getBaseAllocation(memory, size);
    if (size != nullptr) *size = static_cast<std::size_t>(segment->size);
    return reinterpret_cast<void*>(segment->address);  // NOLINT(performance-no-int-to-ptr): an address
  }

  cca::ShareableHandle shareIpcHandle(void* memory) override {
    for (const int device : session_.devices()) {
      const Bytes size = session_.allocator(device)->block_in_arena(memory).size;
      if (size == 0) continue;
      const std::vector<Segment> pieces = extents_of(*session_.allocator(device), memory, size);
      const auto offset = reinterpret_cast<std::uintptr_t>(memory) - pieces.front().address;
      return {static_cast<std::ptrdiff_t>(offset),
              shared_.handle_of(*memory_[static_cast<std::size_t>(device)], pieces)};
    }
    return Delegate::shareIpcHandle(memory);
  }

  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    if (!handle.starts_with(kIpcMark)) return Delegate::getIpcDevPtr(std::move(handle));
    return opened_.open(device_for_opening(current_device()), handle);
  }

  // ---- statistics ----

  cca::DeviceStats getDeviceStats(DeviceIndex device) override {
    cca::DeviceStats stats = Delegate::getDeviceStats(device);
    RuntimeAllocator* const allocator = session_.allocator(device);
    if (allocator == nullptr) return stats;
    add_arena(stats, *allocator, upstream_[static_cast<std::size_t>(device)]->refusals());
    return stats;
  }

  void resetAccumulatedStats(DeviceIndex device) override {
    Delegate::resetAccumulatedStats(device);
    if (RuntimeAllocator* const allocator = session_.allocator(device)) allocator->reset_accumulated();
  }
  void resetPeakStats(DeviceIndex device) override {
    Delegate::resetPeakStats(device);
    if (RuntimeAllocator* const allocator = session_.allocator(device)) allocator->reset_peaks();
  }

  /// The native allocator tells of each request of ours that it refuses, also of one that finds a place then.
  void attachOutOfMemoryObserver(cca::OutOfMemoryObserver observer) override {
    Delegate::attachOutOfMemoryObserver(
        [observer](std::int64_t device, std::size_t size, std::size_t total, std::size_t free) {
          if (!NativeUpstream::is_asked()) observer(device, size, total, free);
        });
    const std::scoped_lock lock(observers_mutex_);
    observers_.push_back(std::move(observer));
  }
  void attachAllocatorTraceTracker(cca::AllocatorTraceTracker tracker) override {
    history_.attach(tracker);
    Delegate::attachAllocatorTraceTracker(std::move(tracker));
  }

 protected:
  void record_history(const HistoryOptions& options) override { history_.set(options); }

  void amend_snapshot(cca::SnapshotInfo& info, MempoolId_t pool, bool traces) override {
    if (pool != MempoolId_t{0, 0}) return;
    for (const int device : session_.devices())
      add_segments(info.segments, *session_.allocator(device), static_cast<DeviceIndex>(device), history_);
    std::sort(info.segments.begin(), info.segments.end(),
              [](const cca::SegmentInfo& a, const cca::SegmentInfo& b) { return a.address < b.address; });
    if (traces) history_.add_to(info.device_traces);
  }

 private:
  struct ActivePool {
    DeviceIndex device = 0;
    MempoolId_t id;
    cudaStream_t stream = nullptr;  ///< current when the pool was opened: the one that a graph captures
    std::function<bool(cudaStream_t)> filter = {};  ///< whether a stream's requests are the pool's
  };
  Session::Provider provider() {
    return {.device = [this](int device) { return open_device(device); },
            .upstream = [this](int device) { return make_upstream(device); },
            .captures = [this] { return is_capturing(); },
            .before_free =
                [this](void* memory) {
                  if (used_elsewhere_ > 0) follow_other_devices(memory);
                },
            .free_foreign = [this](void* memory) { Delegate::raw_delete(memory); }};
  }

  std::unique_ptr<Device> open_device(int device) {
    const auto index = static_cast<DeviceIndex>(device);
    adopt_limit(index);
    std::unique_ptr<Device> memory =
        open_cuda(device, {.allows = [this, index](Bytes held) { return may_hold(index, held); },
                           .holds = [this, index](Bytes held) { limit_of(index).held = held; },
                           .unmapped = [this](const std::byte* at, Bytes /*size*/) { shared_.forget(at); }});
    const std::scoped_lock lock(peers_mutex_);
    for (const auto& [reader, owner] : peers_)
      if (owner == device) memory->let_peer(reader);
    memory_[static_cast<std::size_t>(device)] = memory.get();
    return memory;
  }

  std::unique_ptr<Upstream> make_upstream(int device) {
    auto upstream = std::make_unique<NativeUpstream>(native(), static_cast<DeviceIndex>(device));
    upstream_[static_cast<std::size_t>(device)] = upstream.get();
    return upstream;
  }

  /// What was set before there was a wrapper, by the environment say.
  void adopt_limit(DeviceIndex device) {
    const double fraction = Delegate::getMemoryFraction(device);
    if (fraction < 1 && limit_of(device).fraction >= 1) setMemoryFraction(fraction, device);
  }

  /// torch.cuda.set_per_process_memory_fraction() limits arena and native allocator together.
  bool may_hold(DeviceIndex device, Bytes held) {
    const Limit& limit = limit_of(device);
    if (limit.fraction >= 1) return true;
    return held + limit.native <= static_cast<Bytes>(limit.fraction * limit.total);
  }

  /// What the arena holds is taken off the native allocator's part, when it has changed. What that holds is
  /// asked here: its lock may be held by who waits for the arena's.
  void sync_limit(DeviceIndex device) {
    Limit& limit = limit_of(device);
    if (limit.fraction >= 1) return;
    limit.native = Delegate::getDeviceStats(device).reserved_bytes[0].current;
    if (limit.synced == limit.held) return;
    limit.synced = limit.held.load();
    Delegate::setMemoryFraction(native_fraction(device), device);
  }

  double native_fraction(DeviceIndex device) {
    const Limit& limit = limit_of(device);
    if (limit.fraction >= 1) return limit.fraction;
    return std::max(limit.fraction - static_cast<double>(limit.held) / limit.total, 0.0);
  }

  static double total_memory(DeviceIndex device) {
    const c10::DeviceGuard guard(c10::Device(c10::kCUDA, device));
    std::size_t free = 0;
    std::size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return static_cast<double>(total);
  }

  /// Asked of CUDA at each request, as by the native allocator.
  static DeviceIndex current_device() {
    DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    return device;
  }

  [[nodiscard]] bool is_off() const {
    if (is_forked) TORCH_WARN_ONCE("STWeaver is off in this process, which was forked: start it by spawn");
    return is_broken_ || is_forked || !native().isEnabled();
  }

  /// Whether a stream is none of PyTorch's own, which last as long as the process; of others than the current
  /// one nothing is known. One may be gone when a block of it is freed: the arena records an event on it
  /// then, and the driver crashes.
  static bool is_foreign(const c10::cuda::CUDAStream& current, cudaStream_t stream) {
    // The id of a foreign stream is its address.
    return stream != nullptr &&
           (current.stream() != stream || current.id() == reinterpret_cast<c10::StreamId>(stream));
  }

  /// Whether a request goes to a pool. While a graph is captured all do: our calls to the driver would spoil
  /// it. A capture that failed leaves its pool open for ever; nothing is that pool's any more.
  bool is_for_pool(DeviceIndex device, cudaStream_t stream) {
    if (active_pools_ == 0) return false;
    const std::scoped_lock lock(pools_mutex_);
    return any_captures() || std::any_of(pools_.begin(), pools_.end(), [&](const ActivePool& pool) {
             return pool.device == device && pool.filter(stream);
           });
  }

  [[nodiscard]] bool any_captures() const {
    return std::any_of(pools_.begin(), pools_.end(), [](const ActivePool& pool) {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      if (cudaStreamIsCapturing(pool.stream, &status) == cudaSuccess)
        return status != cudaStreamCaptureStatusNone;
      (void)cudaGetLastError();  // the legacy stream cannot be asked while another one captures
      return true;
    });
  }

  /// A request of the native allocator's, which the arena makes room for where the device has none left. Not
  /// for a graph: whoever waits for work while one is captured spoils it.
  template <typename Request>
  std::invoke_result_t<Request> delegated(DeviceIndex device, Request request) {
    sync_limit(device);
    try {
      return request();
    } catch (const c10::OutOfMemoryError&) {
      RuntimeAllocator* const allocator = session_.allocator(device);
      if (allocator == nullptr || is_capturing()) throw;
      allocator->empty_cache();
    }
    sync_limit(device);
    return request();
  }

  /// What `take` returns, and, where the device cannot be opened, from then on what `native` does.
  template <typename Take, typename Native>
  std::invoke_result_t<Native> unless_broken(Take take, Native native) {
    try {
      return take();
    } catch (const Error& error) {
      is_broken_ = true;
      TORCH_WARN("STWeaver is off, PyTorch's own allocator serves everything: ", error.what());
    }
    return native();
  }

  void* take(DeviceIndex device, std::size_t size, cudaStream_t stream) {
    if (size == 0) return nullptr;
    sync_limit(device);
    void* const memory = session_.allocate(device, static_cast<Bytes>(size), number_of(stream));
    if (memory == nullptr) refuse(device, size);
    if (is_watched()) tell_allocated(device, memory, stream);
    return memory;
  }

  [[noreturn]] void refuse(DeviceIndex device, std::size_t size) {
    const auto allowed = static_cast<Bytes>(limit_of(device).fraction * total_memory(device));
    const auto free = static_cast<std::size_t>(memory_[static_cast<std::size_t>(device)]->memory().free);
    for (const cca::OutOfMemoryObserver& observer : observers())
      observer(device, size, static_cast<std::size_t>(allowed), free);
    const Shortage shortage = {.size = static_cast<Bytes>(size), .allowed = allowed};
    TORCH_CHECK_WITH(OutOfMemoryError, false, NativeUpstream::last_refusal(), "\n",
                     session_.explain_shortage(device, shortage));
  }

  /// A copy: they may do anything.
  std::vector<cca::OutOfMemoryObserver> observers() {
    const std::scoped_lock lock(observers_mutex_);
    return observers_;
  }

  // ---- blocks that streams of other devices use ----

  void note_elsewhere(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) {
    const std::scoped_lock lock(elsewhere_mutex_);
    elsewhere_[pointer.get()].emplace_back(pointer.device(), stream);
    used_elsewhere_ = elsewhere_.size();
  }

  /// The arena's events are of its own device, and none may be recorded while a graph is captured. So a
  /// stream of that device follows those of others, and the block that is about to be freed waits for that
  /// stream.
  void follow_other_devices(void* memory) {
    std::vector<std::pair<c10::Device, c10::cuda::CUDAStream>> uses;
    {
      const std::scoped_lock lock(elsewhere_mutex_);
      if (auto found = elsewhere_.extract(memory)) uses = std::move(found.mapped());
      used_elsewhere_ = elsewhere_.size();
    }
    for (const auto& [device, stream] : uses) {
      const c10::cuda::CUDAStream follower = c10::cuda::getStreamFromPool(false, device.index());
      c10::Event event(c10::kCUDA);
      event.record(stream.unwrap());
      event.block(follower.unwrap());
      session_.record_stream(memory, number_of(follower.stream()));
    }
  }

  // ---- who wants to be told of each request ----

  [[nodiscard]] bool is_watched() const {
    return history_.is_wanted() || c10::memoryProfilingEnabled() ||
           c10::impl::GPUTrace::get_trace() != nullptr;
  }

  /// Of the fallback's blocks the native allocator tells.
  void tell_allocated(DeviceIndex device, void* memory, cudaStream_t stream) {
    RuntimeAllocator* const allocator = session_.allocator(device);
    const Bytes size = allocator->block_in_arena(memory).size;
    if (size == 0) return;
    if (history_.is_wanted()) history_.allocated(device, memory, size, stream, user_metadata());
    tell_profiler(device, *allocator, memory, size);
    if (const auto* const trace = c10::impl::GPUTrace::get_trace())
      (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<std::uintptr_t>(memory));
  }

  void tell_freed(void* memory) {
    for (const int device : session_.devices()) {
      RuntimeAllocator* const allocator = session_.allocator(device);
      const auto [size, stream] = allocator->block_in_arena(memory);
      if (size == 0) continue;
      const auto index = static_cast<DeviceIndex>(device);
      if (history_.is_wanted()) history_.freed(index, memory, size, stream_from(stream), user_metadata());
      tell_profiler(index, *allocator, memory, -size);
      if (const auto* const trace = c10::impl::GPUTrace::get_trace())
        (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<std::uintptr_t>(memory));
    }
  }

  static void tell_profiler(DeviceIndex device, const RuntimeAllocator& allocator, void* memory, Bytes size) {
    if (!c10::memoryProfilingEnabled()) return;
    const Bytes allocated = allocator.meters().served[kAll].bytes.current;
    c10::reportMemoryUsageToProfiler(memory, size, static_cast<std::size_t>(allocated),
                                     static_cast<std::size_t>(allocator.statistics().reserved()),
                                     c10::Device(c10::kCUDA, device));
  }

  /// Apart from the session's: a process that only opens what others share needs no arena.
  std::shared_ptr<Device> device_for_opening(DeviceIndex device) {
    const std::scoped_lock lock(peers_mutex_);
    std::shared_ptr<Device>& opener = openers_[static_cast<std::size_t>(device)];
    if (!opener) opener = open_cuda(device);
    return opener;
  }

  [[nodiscard]] std::optional<Segment> segment_of(const void* memory) const {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    for (const int device : session_.devices())
      for (const Segment& segment : segments_of(session_.allocator(device)->contents()))
        if (address - segment.address < static_cast<std::uintptr_t>(segment.size)) return segment;
    return std::nullopt;
  }
  [[nodiscard]] bool lies_in_arena(int device, const void* memory) const {
    const RuntimeAllocator* const allocator = session_.allocator(device);
    return allocator != nullptr && allocator->covers(memory);
  }

  /// set_per_process_memory_fraction() of one device.
  struct Limit {
    std::atomic<double> fraction{1};
    std::atomic<double> total{0};  ///< of the device, once a fraction was set
    std::atomic<Bytes> held{0};    ///< by the arena
    std::atomic<Bytes> native{0};  ///< held by the native allocator when it was asked last
    std::atomic<Bytes> synced{0};  ///< of it, taken off the native allocator's part
  };
  Limit& limit_of(DeviceIndex device) { return limits_[static_cast<std::size_t>(device)]; }

  History history_;
  std::atomic<int> active_pools_{0};
  std::atomic<bool> is_broken_{false};
  std::mutex pools_mutex_;
  std::vector<ActivePool> pools_;
  std::mutex elsewhere_mutex_;
  std::unordered_map<void*, std::vector<std::pair<c10::Device, c10::cuda::CUDAStream>>> elsewhere_;
  std::atomic<std::size_t> used_elsewhere_{0};  ///< its size
  std::mutex observers_mutex_;
  std::vector<cca::OutOfMemoryObserver> observers_;
  std::mutex peers_mutex_;
  std::vector<std::pair<int, int>> peers_;  ///< who reads, whose memory
  std::array<Limit, Session::kMostDevices> limits_;
  std::array<Device*, Session::kMostDevices> memory_ = {};
  std::array<NativeUpstream*, Session::kMostDevices> upstream_ = {};
  std::array<std::shared_ptr<Device>, Session::kMostDevices> openers_ = {};
  SharedPieces shared_;
  OpenedPieces opened_;
  Session session_;  // last: it is given calls into the rest
};

/// Lives for ever: blocks are freed after everything else has ended.
std::atomic<Wrapper*> wrapper{nullptr};
std::mutex install_mutex;

void free_block(void* memory) {
  wrapper.load(std::memory_order_relaxed)->give_back(memory);
}

/// PyTorch makes a CacheMiss at each miss from now on. Registered names cannot be given back and must differ,
/// also from that of another copy of this library.
void see_cache_misses() {
  c10::FreeCudaMemoryCallbacksRegistry()->Register(text("stweaver ", static_cast<const void*>(&wrapper)), [] {
    return std::unique_ptr<c10::FreeMemoryCallback>(std::make_unique<CacheMiss>());
  });
}

Wrapper& the_wrapper() {
  const std::scoped_lock lock(install_mutex);
  if (Wrapper* const made = wrapper) return *made;
  cca::CUDAAllocator* const current = cca::allocator.load();
  if (current == nullptr) fail("this torch has no CUDA allocator: is it a build for CUDA?");
  // Another wrapper may do anything; only what comes with torch is known.
  if (std::strstr(typeid(*current).name(), "NativeCachingAllocator") == nullptr)
    fail("cannot stand before the CUDA allocator \"", current->name(),
         "\", only before PyTorch's native one: remove the other allocator or unset backend:cudaMallocAsync");
  const char* const uncached = std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
  if (uncached != nullptr && std::strcmp(uncached, "0") != 0)
    fail("PYTORCH_NO_CUDA_MEMORY_CACHING is set, by which each request is CUDA's own: unset it");
  pthread_atfork(nullptr, nullptr, [] { is_forked = true; });
  see_cache_misses();
  wrapper = new Wrapper(current);
  return *wrapper;
}

void install(cca::CUDAAllocator* from, cca::CUDAAllocator* to) {
  cca::CUDAAllocator* expected = from;
  if (cca::allocator.load() == to) return;
  if (!cca::allocator.compare_exchange_strong(expected, to))
    fail("the CUDA allocator was replaced by \"", expected->name(), "\" meanwhile: remove that one first");
  c10::SetAllocator(c10::kCUDA, to, 255);  // for torch.accelerator
}

}  // namespace
}  // namespace stweaver

void* stweaver_adapter_session() {
  void* session = nullptr;
  stweaver::reported([&] { session = &stweaver::the_wrapper().session(); });
  return session;
}

const char* stweaver_adapter_install() {
  return stweaver::reported([] {
    stweaver::Wrapper& ours = stweaver::the_wrapper();
    stweaver::install(ours.inner(), &ours);
  });
}

const char* stweaver_adapter_remove() {
  return stweaver::reported([] {
    if (stweaver::wrapper == nullptr) return;
    stweaver::Wrapper& ours = stweaver::the_wrapper();
    // Blocks of the arena may live on, and nobody else would know of the streams that use them.
    if (ours.session().devices().empty()) stweaver::install(&ours, ours.inner());
  });
}
