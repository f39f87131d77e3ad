// The floor: the functions that torch.cuda.memory.CUDAPluggableAllocator takes, for machines where no adapter
// can be built. No header of PyTorch is needed. The fallback is our own allocator that works as PyTorch's
// does: the native one is not in the way of a pluggable allocator, and cannot be asked.

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapter.h"
#include "device/cuda_device.h"
#include "reported.h"
#include "session/session.h"
#include "simulate/caching_upstream.h"

namespace stweaver {
namespace {

using CudaStream = void*;
using PoolId = std::pair<unsigned long long, unsigned long long>;  // c10::MempoolId_t
using StreamFilter = std::function<bool(CudaStream)>;

Stream number_of(CudaStream stream) {
  return reinterpret_cast<Stream>(stream);
}

/// The memory pools of CUDA graphs: who fills one, and how many need it still.
class Pools {
 public:
  void begin(int device, PoolId id, StreamFilter filter) {
    const std::scoped_lock lock(mutex_);
    filling_.push_back({device, id, join(device, id), std::move(filter), {}});
    ++count_;
  }
  void end(int device, PoolId id) {
    const std::scoped_lock lock(mutex_);
    count_ -= static_cast<int>(
        std::erase_if(filling_, [&](const Filling& pool) { return pool.device == device && pool.id == id; }));
  }
  /// One graph less that was captured into the pool. The pool if it was the last one; 0 else.
  Pool release(int device, PoolId id) {
    const std::scoped_lock lock(mutex_);
    const auto pool = find(device, id);
    if (pool == in_use_.end() || --pool->graphs > 0) return 0;
    const Pool number = pool->number;
    in_use_.erase(pool);
    return number;
  }
  /// The pool that a request belongs to; 0 for none.
  Pool of(int device, CudaStream stream) {
    if (count_ == 0) return 0;
    const std::scoped_lock lock(mutex_);
    for (Filling& pool : filling_) {
      if (pool.device != device || !pool.filter(stream)) continue;
      pool.taken = stream;
      return pool.number;
    }
    return 0;
  }
  /// Whether one is filled. A capture that failed leaves its pool open for ever, but its filter takes a
  /// stream no more that it has taken before.
  [[nodiscard]] bool any() {
    if (count_ == 0) return false;
    const std::scoped_lock lock(mutex_);
    return std::any_of(filling_.begin(), filling_.end(),
                       [](const Filling& pool) { return !pool.taken || pool.filter(*pool.taken); });
  }

 private:
  struct Filling {
    int device = 0;
    PoolId id;
    Pool number = 0;
    StreamFilter filter;
    std::optional<CudaStream> taken;  ///< the last stream with a request for it
  };
  struct InUse {
    int device = 0;
    PoolId id;
    Pool number = 0;
    int graphs = 0;
  };

  std::vector<InUse>::iterator find(int device, PoolId id) {
    return std::find_if(in_use_.begin(), in_use_.end(),
                        [&](const InUse& pool) { return pool.device == device && pool.id == id; });
  }
  /// A pool that was released and is filled again is another one.
  Pool join(int device, PoolId id) {
    auto pool = find(device, id);
    if (pool == in_use_.end()) pool = in_use_.insert(pool, {device, id, ++last_, 0});
    ++pool->graphs;
    return pool->number;
  }

  std::mutex mutex_;
  std::vector<Filling> filling_;
  std::vector<InUse> in_use_;
  Pool last_ = 0;
  std::atomic<int> count_{0};
};

/// Everything, for the life of the process: blocks are freed after everything else has ended.
struct Floor {
  Pools pools;
  std::array<Device*, Session::kMostDevices> devices{};
  std::array<std::atomic<CachingUpstream*>, Session::kMostDevices> upstreams{};
  Session session{{.device = [this](int device) { return open(device); },
                   .upstream = [this](int device) { return fallback(device); },
                   .captures = [this] { return pools.any(); },
                   .before_free = {},
                   .free_foreign = {}}};

 private:
  std::unique_ptr<Device> open(int device) {
    std::unique_ptr<Device> opened = open_cuda(device);
    devices[static_cast<std::size_t>(device)] = opened.get();
    return opened;
  }
  std::unique_ptr<Upstream> fallback(int device) {
    const auto index = static_cast<std::size_t>(device);
    auto made = std::make_unique<CachingUpstream>(AllocatorSettings(), *devices[index]);
    upstreams[index] = made.get();
    return made;
  }
};

Floor& the_floor() {
  static auto* const floor = new Floor;
  return *floor;
}

/// PyTorch does not look at what an allocator returns, so it must throw. It turns this into a RuntimeError
/// that says what a torch.OutOfMemoryError would: that type cannot be thrown without PyTorch's headers.
class Exhausted : public std::bad_alloc {
 public:
  explicit Exhausted(std::string words) : words_(std::move(words)) {}
  [[nodiscard]] const char* what() const noexcept override { return words_.c_str(); }

 private:
  std::string words_;
};

}  // namespace
}  // namespace stweaver

extern "C" {

void* stweaver_malloc(ssize_t size, int device, void* stream) {
  using namespace stweaver;
  if (size <= 0) return nullptr;
  Floor& floor = the_floor();
  void* const memory =
      floor.session.allocate(device, size, number_of(stream), floor.pools.of(device, stream));
  if (memory == nullptr)
    throw Exhausted(text("CUDA out of memory. Tried to allocate ", in_units(size), " on device ", device,
                         ".\n", floor.session.explain_shortage(device, {.size = size})));
  return memory;
}

void stweaver_free(void* memory, ssize_t /*size*/, int /*device*/, void* /*stream*/) {
  stweaver::the_floor().session.free(memory);
}

void stweaver_reset() {
  stweaver::the_floor().session.empty_cache();
}

void* stweaver_base_allocation(void* memory, size_t* size) {
  if (size != nullptr) *size = 0;
  const stweaver::RuntimeAllocator* const owner = stweaver::the_floor().session.owner(memory);
  if (owner == nullptr) return memory;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  for (const auto& [begin, length] : owner->contents().extents) {
    if (address - begin >= static_cast<std::uintptr_t>(length)) continue;
    if (size != nullptr) *size = static_cast<size_t>(length);
    return reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr): an address
  }
  return memory;
}

void stweaver_record_stream(void* memory, void* stream) {
  stweaver::the_floor().session.record_stream(memory, stweaver::number_of(stream));
}

void stweaver_begin_pool(int device, std::pair<unsigned long long, unsigned long long> id,
                         std::function<bool(void*)> filter) {
  stweaver::the_floor().pools.begin(device, id, std::move(filter));
}

void stweaver_end_pool(int device, std::pair<unsigned long long, unsigned long long> id) {
  stweaver::the_floor().pools.end(device, id);
  stweaver::the_floor().session.release_deferred();
}

/// PyTorch calls it for each graph that was captured into the pool and is gone. Blocks go back one by one,
/// when PyTorch frees them; then the pool's memory may go back to the device.
void stweaver_release_pool(int device, std::pair<unsigned long long, unsigned long long> id) {
  stweaver::Floor& floor = stweaver::the_floor();
  const stweaver::Pool pool = floor.pools.release(device, id);
  if (pool == 0) return;
  if (stweaver::CachingUpstream* const upstream = floor.upstreams[static_cast<std::size_t>(device)])
    upstream->release_pool(pool);
}

}  // extern "C"

void* stweaver_adapter_session() {
  return &stweaver::the_floor().session;
}

/// PyTorch takes a pluggable allocator before CUDA starts and keeps it, so there is nothing to do here.
const char* stweaver_adapter_install() {
  return nullptr;
}

const char* stweaver_adapter_remove() {
  return stweaver::reported(
      [] { stweaver::fail("PyTorch keeps a pluggable allocator until the process ends"); });
}
