#include "device/cuda_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/base.h"
#include "device/address_book.h"
#include "device/count_kernel.h"
#include "device/cuda_driver.h"
#include "device/event_table.h"
#include "device/failure.h"

namespace stweaver {
namespace {

// Of enum CUdevice_attribute.
constexpr int kVirtualMemory = 102;  // ..._VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
constexpr int kFilesOfPages = 103;   // ..._HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
constexpr int kRdmaOfPages = 110;    // ..._GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED

constexpr unsigned kDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING: cheaper, and the time is of no interest
constexpr int kRecommended = 1;         // CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
constexpr int kFileHandle = 1;          // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
constexpr int kRelaxedCapture = 2;      // CU_STREAM_CAPTURE_MODE_RELAXED

/// One GPU as the driver knows it. Holds the primary context as long as it lives.
struct Gpu {
  CudaDriver driver{};
  int device = 0;
  CudaContext* context = nullptr;
  std::string name;
  CudaPageProperties properties;
  Bytes page_size = 0;
};

class CudaDevice : public Device {
 public:
  CudaDevice(Gpu gpu, MapWatch watch)
      : gpu_(std::move(gpu)), driver_(gpu_.driver), watch_(std::move(watch)), book_(gpu_.page_size) {}
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  CudaDevice(CudaDevice&&) = delete;
  CudaDevice& operator=(CudaDevice&&) = delete;
  ~CudaDevice() override;

  [[nodiscard]] std::string name() const override { return gpu_.name; }
  [[nodiscard]] DeviceMemory memory() const override;
  [[nodiscard]] std::string failure() const override { return failure_.last(); }

  std::byte* allocate(Bytes size) override;
  bool free(std::byte* memory) override;

  [[nodiscard]] Bytes page_size() const override { return gpu_.page_size; }
  std::byte* reserve(Bytes size) override;
  bool release(std::byte* addresses, Bytes size) override;
  [[nodiscard]] bool may_map(Bytes size) const override;
  bool map(std::byte* at, Bytes size) override;
  bool unmap(std::byte* at, Bytes size) override;
  bool let_peer(int peer) override;
  std::vector<SharedPiece> share(std::byte* begin, const std::byte* end) override;
  std::byte* open_shared(const std::vector<SharedPiece>& pieces) override;
  bool close_shared(std::byte* at, Bytes size) override;

  DeviceEvent record(Stream stream) override;
  bool wait(Stream stream, DeviceEvent event) override;
  bool passed(DeviceEvent event) override;
  bool await(DeviceEvent event) override;
  void forget(DeviceEvent event) override;
  bool synchronize() override;

  bool fill(std::byte* at, Bytes size, std::uint32_t value, Stream stream) override;
  Bytes count_other(const std::byte* at, Bytes size, std::uint32_t value, Stream stream) override;

 private:
  /// Runs `work`, which calls the driver, in the device's context; the thread's own is current again after
  /// it.
  template <typename Work>
  CudaResult within(const Work& work) const {
    if (const CudaResult result = driver_.ctx_push_current(gpu_.context); result != kCudaSuccess)
      return result;
    const CudaResult result = work();
    CudaContext* popped = nullptr;
    driver_.ctx_pop_current(&popped);
    return result;
  }

  /// As within(), for calls that get or give back memory: they have no place in a CUDA graph, and must not
  /// break the one that somebody is capturing.
  template <typename Work>
  CudaResult beside_graphs(const Work& work) const {
    return within([&] {
      int mode = kRelaxedCapture;
      driver_.thread_exchange_stream_capture_mode(&mode);
      const CudaResult result = work();
      driver_.thread_exchange_stream_capture_mode(&mode);
      return result;
    });
  }

  /// Whether a driver call went well; if not, its failure is kept after the words that say which call it was.
  template <typename... Parts>
  bool succeeded(CudaResult result, const Parts&... call) const {
    return result == kCudaSuccess || failure_.set(call..., ": ", driver_.words(result));
  }

  CudaResult map_pages(std::byte* at, std::size_t size) const;
  CudaResult put_behind(std::byte* at, std::size_t size, CudaPages pages) const;
  CudaResult export_file(std::byte* at, int& file) const;
  [[nodiscard]] CudaAccess access_of(int device) const;
  bool note_mapped(Bytes change);
  CudaResult driver_event(std::size_t slot, CudaEvent*& event);
  CudaResult load_kernel();
  CudaResult count(const std::byte* at, std::uint64_t words, std::uint32_t value, Stream stream,
                   std::uint64_t& others);
  CudaResult give_everything_back();

  const Gpu gpu_;
  const CudaDriver& driver_;
  MapWatch watch_;
  std::atomic<Bytes> mapped_{0};
  mutable std::mutex peers_mutex_;
  std::vector<int> peers_;  ///< devices whose kernels may reach what is mapped here
  AddressBook book_;
  mutable Failure failure_;

  EventTable events_;
  std::mutex driver_events_mutex_;
  std::vector<CudaEvent*> driver_events_;  ///< by slot in events_; made once, recorded again and again

  std::mutex kernel_mutex_;  ///< one count at a time, there is one counter
  CudaModule* module_ = nullptr;
  CudaFunction* kernel_ = nullptr;
  std::byte* counter_ = nullptr;
};

CudaDevice::~CudaDevice() {
  within([this] { return give_everything_back(); });
  driver_.device_primary_ctx_release(gpu_.device);
}

/// Each by itself, whether the others can be given back or not.
CudaResult CudaDevice::give_everything_back() {
  const CudaResult result = driver_.ctx_synchronize();
  for (const AddressRange& mapping : book_.mappings()) driver_.mem_unmap(mapping.begin, length(mapping.size));
  for (const AddressRange& range : book_.ranges()) driver_.mem_address_free(range.begin, length(range.size));
  for (const AddressRange& block : book_.blocks()) driver_.mem_free(block.begin);
  for (CudaEvent* event : driver_events_) driver_.event_destroy(event);
  if (counter_ != nullptr) driver_.mem_free(counter_);
  if (module_ != nullptr) driver_.module_unload(module_);
  return result;
}

DeviceMemory CudaDevice::memory() const {
  std::size_t free = 0;
  std::size_t total = 0;
  if (!succeeded(within([&] { return driver_.mem_get_info(&free, &total); }), "memory()")) return {};
  return {.free = static_cast<Bytes>(free), .total = static_cast<Bytes>(total)};
}

std::byte* CudaDevice::allocate(Bytes size) {
  if (size <= 0) {
    failure_.set("allocate(", size, "): the size must be positive");
    return nullptr;
  }
  std::byte* memory = nullptr;
  const CudaResult result = beside_graphs([&] { return driver_.mem_alloc(&memory, length(size)); });
  if (!succeeded(result, "allocate(", size, ")")) return nullptr;
  book_.add_block({.begin = memory, .size = size});
  return memory;
}

bool CudaDevice::free(std::byte* memory) {
  const Bytes size = book_.remove_block(memory);
  if (size == 0) return failure_.set("free(", memory, "): not what allocate() returned");
  if (succeeded(beside_graphs([&] { return driver_.mem_free(memory); }), "free(", memory, ")")) return true;
  book_.add_block({.begin = memory, .size = size});
  return false;
}

std::byte* CudaDevice::reserve(Bytes size) {
  if (const auto why = book_.refuse_size(size); !why.empty()) {
    failure_.set("reserve(", size, "): ", why);
    return nullptr;
  }
  std::byte* addresses = nullptr;
  const CudaResult result = within([&] {
    return driver_.mem_address_reserve(&addresses, length(size), length(gpu_.page_size), nullptr, 0);
  });
  if (!succeeded(result, "reserve(", size, ")")) return nullptr;
  book_.add_range({.begin = addresses, .size = size});
  return addresses;
}

bool CudaDevice::release(std::byte* addresses, Bytes size) {
  const AddressRange range{.begin = addresses, .size = size};
  if (const auto why = book_.remove_range(range); !why.empty()) {
    return failure_.set("release(", addresses, ", ", size, "): ", why);
  }
  const CudaResult result = beside_graphs([&] { return driver_.mem_address_free(addresses, length(size)); });
  if (succeeded(result, "release(", addresses, ", ", size, ")")) return true;
  book_.add_range(range);
  return false;
}

CudaResult CudaDevice::map_pages(std::byte* at, std::size_t size) const {
  CudaPages pages = 0;
  const CudaResult result = driver_.mem_create(&pages, size, &gpu_.properties, 0);
  return result == kCudaSuccess ? put_behind(at, size, pages) : result;
}

/// Puts pages behind addresses, in the reach of all who may use them.
CudaResult CudaDevice::put_behind(std::byte* at, std::size_t size, CudaPages pages) const {
  CudaResult result = driver_.mem_map(at, size, 0, pages, 0);
  driver_.mem_release(pages);  // the mapping alone holds them from now on, so that unmapping gives them back
  if (result != kCudaSuccess) return result;
  std::vector<CudaAccess> access = {{.location = gpu_.properties.location}};
  {
    const std::lock_guard lock(peers_mutex_);
    for (const int peer : peers_) access.push_back(access_of(peer));
  }
  result = driver_.mem_set_access(at, size, access.data(), access.size());
  if (result != kCudaSuccess) driver_.mem_unmap(at, size);
  return result;
}

CudaResult CudaDevice::export_file(std::byte* at, int& file) const {
  CudaPages pages = 0;
  CudaResult result = driver_.mem_retain_allocation_handle(&pages, at);
  if (result != kCudaSuccess) return result;
  result = driver_.mem_export_to_shareable_handle(&file, pages, kFileHandle, 0);
  driver_.mem_release(pages);
  return result;
}

std::vector<SharedPiece> CudaDevice::share(std::byte* begin, const std::byte* end) {
  std::vector<SharedPiece> pieces;
  const std::byte* next = begin;
  for (const AddressRange& mapping : book_.mappings()) {
    if (mapping.begin != next || next >= end) continue;
    SharedPiece piece{.size = mapping.size};
    const CudaResult result = beside_graphs([&] { return export_file(mapping.begin, piece.file); });
    if (!succeeded(result, "share(", mapping.begin, ")")) break;
    pieces.push_back(piece);
    next += mapping.size;
  }
  if (next >= end) return pieces;
  for (const SharedPiece& piece : pieces) ::close(piece.file);
  return {};
}

std::byte* CudaDevice::open_shared(const std::vector<SharedPiece>& pieces) {
  Bytes size = 0;
  for (const SharedPiece& piece : pieces) size += piece.size;
  std::byte* begin = nullptr;
  Bytes mapped = 0;
  const CudaResult result = beside_graphs([&] {
    CudaResult step = driver_.mem_address_reserve(&begin, length(size), 0, nullptr, 0);
    for (const SharedPiece& piece : pieces) {
      CudaPages pages = 0;
      // The driver takes the descriptor itself in the pointer's place.
      void* const file = reinterpret_cast<void*>(static_cast<std::intptr_t>(piece.file));  // NOLINT
      if (step == kCudaSuccess) step = driver_.mem_import_from_shareable_handle(&pages, file, kFileHandle);
      if (step == kCudaSuccess) step = put_behind(begin + mapped, length(piece.size), pages);
      if (step != kCudaSuccess) break;
      mapped += piece.size;
    }
    return step;
  });
  if (succeeded(result, "open_shared(", size, ")")) return begin;
  beside_graphs([&] {
    if (mapped > 0) driver_.mem_unmap(begin, length(mapped));
    return begin != nullptr ? driver_.mem_address_free(begin, length(size)) : kCudaSuccess;
  });
  return nullptr;
}

bool CudaDevice::close_shared(std::byte* at, Bytes size) {
  const CudaResult result = beside_graphs([&] {
    const CudaResult unmapped = driver_.mem_unmap(at, length(size));
    return unmapped == kCudaSuccess ? driver_.mem_address_free(at, length(size)) : unmapped;
  });
  return succeeded(result, "close_shared(", at, ", ", size, ")");
}

CudaAccess CudaDevice::access_of(int device) const {
  CudaAccess access{.location = gpu_.properties.location};
  access.location.device = device;
  return access;
}

bool CudaDevice::let_peer(int peer) {
  {
    const std::lock_guard lock(peers_mutex_);
    if (std::find(peers_.begin(), peers_.end(), peer) != peers_.end()) return true;
    peers_.push_back(peer);
  }
  const CudaAccess access = access_of(peer);
  bool all = true;
  // One that another thread is about to map, or has unmapped, cannot be reached: the others can.
  for (const AddressRange& mapping : book_.mappings()) {
    const CudaResult result =
        within([&] { return driver_.mem_set_access(mapping.begin, length(mapping.size), &access, 1); });
    all = succeeded(result, "let_peer(", peer, ")") && all;
  }
  return all;
}

bool CudaDevice::note_mapped(Bytes change) {
  mapped_ += change;
  if (watch_.holds) watch_.holds(mapped_);
  return true;
}

bool CudaDevice::may_map(Bytes size) const {
  return (!watch_.allows || watch_.allows(mapped_ + size)) && Device::may_map(size);
}

bool CudaDevice::map(std::byte* at, Bytes size) {
  if (watch_.allows && !watch_.allows(mapped_ + size))
    return failure_.set("map(", at, ", ", size, "): over the limit that was set for this process");
  const AddressRange mapping{.begin = at, .size = size};
  if (const auto why = book_.add_mapping(mapping); !why.empty()) {
    return failure_.set("map(", at, ", ", size, "): ", why);
  }
  const CudaResult result = beside_graphs([&] { return map_pages(at, length(size)); });
  if (succeeded(result, "map(", at, ", ", size, ")")) return note_mapped(size);
  book_.remove_mapping(mapping);
  return false;
}

bool CudaDevice::unmap(std::byte* at, Bytes size) {
  const AddressRange mapping{.begin = at, .size = size};
  if (const auto why = book_.remove_mapping(mapping); !why.empty()) {
    return failure_.set("unmap(", at, ", ", size, "): ", why);
  }
  const CudaResult result = beside_graphs([&] { return driver_.mem_unmap(at, length(size)); });
  if (succeeded(result, "unmap(", at, ", ", size, ")")) {
    if (watch_.unmapped) watch_.unmapped(at, size);
    return note_mapped(-size);
  }
  book_.add_mapping(mapping);
  return false;
}

/// The driver's event of a slot, made when the slot is used for the first time.
CudaResult CudaDevice::driver_event(std::size_t slot, CudaEvent*& event) {
  const std::lock_guard lock(driver_events_mutex_);
  if (slot >= driver_events_.size()) driver_events_.resize(slot + 1, nullptr);
  CudaEvent*& made = driver_events_[slot];
  CudaResult result = kCudaSuccess;
  if (made == nullptr) result = driver_.event_create(&made, kDisableTiming);
  event = made;
  return result;
}

DeviceEvent CudaDevice::record(Stream stream) {
  const DeviceEvent event = events_.add();
  const std::size_t slot = events_.find(event).value_or(0);
  const CudaResult result = within([&] {
    CudaEvent* recorded = nullptr;
    if (const CudaResult made = driver_event(slot, recorded); made != kCudaSuccess) return made;
    return driver_.event_record(recorded, stream);
  });
  if (succeeded(result, "record(", stream, ")")) return event;
  events_.remove(event);
  return kNoEvent;
}

bool CudaDevice::wait(Stream stream, DeviceEvent event) {
  const auto slot = events_.find(event);
  if (!slot) return failure_.set("wait(", stream, ", ", event, "): no such event");
  const CudaResult result = within([&] {
    CudaEvent* recorded = nullptr;
    if (const CudaResult made = driver_event(*slot, recorded); made != kCudaSuccess) return made;
    return driver_.stream_wait_event(stream, recorded, 0);
  });
  return succeeded(result, "wait(", stream, ", ", event, ")");
}

bool CudaDevice::passed(DeviceEvent event) {
  const auto slot = events_.find(event);
  if (!slot) return failure_.set("passed(", event, "): no such event");
  // Memory may be moved while another thread captures a graph.
  const CudaResult result = beside_graphs([&] {
    CudaEvent* recorded = nullptr;
    if (const CudaResult made = driver_event(*slot, recorded); made != kCudaSuccess) return made;
    return driver_.event_query(recorded);
  });
  return result != kCudaNotReady && succeeded(result, "passed(", event, ")");
}

bool CudaDevice::await(DeviceEvent event) {
  const auto slot = events_.find(event);
  if (!slot) return failure_.set("await(", event, "): no such event");
  const CudaResult result = beside_graphs([&] {
    CudaEvent* recorded = nullptr;
    if (const CudaResult made = driver_event(*slot, recorded); made != kCudaSuccess) return made;
    return driver_.event_synchronize(recorded);
  });
  return succeeded(result, "await(", event, ")");
}

void CudaDevice::forget(DeviceEvent event) {
  if (!events_.remove(event)) failure_.set("forget(", event, "): no such event");
}

bool CudaDevice::synchronize() {
  return succeeded(within([this] { return driver_.ctx_synchronize(); }), "synchronize()");
}

bool CudaDevice::fill(std::byte* at, Bytes size, std::uint32_t value, Stream stream) {
  if (const auto why = refuse_words(at, size); !why.empty()) {
    return failure_.set("fill(", at, ", ", size, "): ", why);
  }
  if (size == 0) return true;
  const CudaResult result =
      within([&] { return driver_.memset_d32_async(at, value, length(size / kWord), stream); });
  return succeeded(result, "fill(", at, ", ", size, ")");
}

CudaResult CudaDevice::load_kernel() {
  CudaResult result = kCudaSuccess;
  if (module_ == nullptr) result = driver_.module_load_data(&module_, kCountKernel);
  if (result == kCudaSuccess && counter_ == nullptr)
    result = driver_.mem_alloc(&counter_, sizeof(std::uint64_t));
  if (result != kCudaSuccess) return result;
  return driver_.module_get_function(&kernel_, module_, kCountKernelName);
}

CudaResult CudaDevice::count(const std::byte* at, std::uint64_t words, std::uint32_t value, Stream stream,
                             std::uint64_t& others) {
  constexpr unsigned kThreads = 256;
  constexpr std::uint64_t kMostBlocks = 2048;  // enough to fill any GPU; each thread goes on in strides
  CudaResult result = kernel_ == nullptr ? load_kernel() : kCudaSuccess;
  if (result != kCudaSuccess) return result;
  result = driver_.memset_d32_async(counter_, 0, sizeof(others) / sizeof(std::uint32_t), stream);
  if (result != kCudaSuccess) return result;
  const auto blocks = static_cast<unsigned>(std::min((words + kThreads - 1) / kThreads, kMostBlocks));
  std::array<void*, 4> arguments = {static_cast<void*>(&at), &words, &value, static_cast<void*>(&counter_)};
  result = driver_.launch_kernel(kernel_, blocks, 1, 1, kThreads, 1, 1, 0, stream, arguments.data(), nullptr);
  if (result != kCudaSuccess) return result;
  result = driver_.memcpy_dtoh_async(&others, counter_, sizeof(others), stream);
  const CudaResult finished = driver_.stream_synchronize(stream);  // also after a failure: `others` goes away
  return result != kCudaSuccess ? result : finished;
}

Bytes CudaDevice::count_other(const std::byte* at, Bytes size, std::uint32_t value, Stream stream) {
  if (const auto why = refuse_words(at, size); !why.empty()) {
    failure_.set("count_other(", at, ", ", size, "): ", why);
    return -1;
  }
  if (size == 0) return 0;
  const std::lock_guard lock(kernel_mutex_);
  std::uint64_t others = 0;
  const auto words = static_cast<std::uint64_t>(size / kWord);
  const CudaResult result = within([&] { return count(at, words, value, stream, others); });
  if (!succeeded(result, "count_other(", at, ", ", size, ")")) return -1;
  return static_cast<Bytes>(others);
}

/// Error with the driver's words unless the call went well.
template <typename... Parts>
void check(const CudaDriver& driver, CudaResult result, const Parts&... what) {
  if (result != kCudaSuccess) fail(what..., ": ", driver.words(result));
}

int find_device(const CudaDriver& driver, int ordinal) {
  int count = 0;
  check(driver, driver.device_get_count(&count), "the NVIDIA driver cannot count its devices");
  if (ordinal < 0 || ordinal >= count) {
    fail("no such device: this machine shows ", count, ", counted from 0; see CUDA_VISIBLE_DEVICES");
  }
  int device = 0;
  check(driver, driver.device_get(&device, ordinal), "the device cannot be opened");
  return device;
}

std::string find_name(const CudaDriver& driver, int device, int ordinal) {
  std::array<char, 256> name = {};
  check(driver, driver.device_get_name(name.data(), static_cast<int>(name.size() - 1), device),
        "the device does not say its name");
  return text(name.data(), " (cuda:", ordinal, ")");
}

bool can(const CudaDriver& driver, int attribute, int device) {
  int value = 0;
  return driver.device_get_attribute(&value, attribute, device) == kCudaSuccess && value != 0;
}

Bytes find_page_size(const Gpu& gpu) {
  if (!can(gpu.driver, kVirtualMemory, gpu.device)) return 0;
  std::size_t size = 0;
  check(gpu.driver, gpu.driver.mem_get_allocation_granularity(&size, &gpu.properties, kRecommended),
        "the device does not say its page size");
  return static_cast<Bytes>(size);
}

Gpu open_gpu(int ordinal) {
  Gpu gpu;
  gpu.driver = load_cuda_driver();
  gpu.device = find_device(gpu.driver, ordinal);
  gpu.name = find_name(gpu.driver, gpu.device, ordinal);
  gpu.properties.location.device = gpu.device;
  // So that network cards can reach mapped memory as they reach that of cuMemAlloc.
  gpu.properties.gpu_direct_rdma = can(gpu.driver, kRdmaOfPages, gpu.device) ? 1 : 0;
  // So that other processes can be given it.
  gpu.properties.handle_types = can(gpu.driver, kFilesOfPages, gpu.device) ? kFileHandle : 0;
  gpu.page_size = find_page_size(gpu);
  // Last, so that nothing can fail while it is held and nobody is there to release it.
  check(gpu.driver, gpu.driver.device_primary_ctx_retain(&gpu.context, gpu.device),
        "the device's context cannot be made");
  return gpu;
}

}  // namespace

std::unique_ptr<Device> open_cuda(int ordinal, MapWatch watch) {
  try {
    return std::make_unique<CudaDevice>(open_gpu(ordinal), std::move(watch));
  } catch (const Error& error) {
    fail("cuda:", ordinal, ": ", error.what());
  }
}

}  // namespace stweaver
