// The same life cycle on a machine without a GPU: PyTorch's CPU allocator with a plan.

#include <atomic>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <mutex>
#include <pthread.h>
#include <string>
#include <unistd.h>

#include "adapter.h"
#include "device/host_device.h"
#include "reported.h"
#include "session/session.h"

namespace stweaver {
namespace {

/// PyTorch's default CPU allocator as the fallback. It keeps no cache, so it holds just what is in use.
class DefaultUpstream final : public Upstream {
 public:
  void* allocate(Bytes size, Stream /*stream*/, Pool /*pool*/) override {
    try {
      void* const memory = c10::GetDefaultCPUAllocator()->raw_allocate(static_cast<std::size_t>(size));
      held_ += size_of(memory);
      return memory;
    } catch (const c10::Error& error) {
      last_refusal() = error.what_without_backtrace();
      return nullptr;
    }
  }
  void free(void* memory) override {
    held_ -= size_of(memory);
    c10::GetDefaultCPUAllocator()->raw_deallocate(memory);
  }
  void record_stream(void* /*memory*/, Stream /*stream*/) override {}
  void empty_cache() override {}
  [[nodiscard]] Bytes reserved() const override { return held_; }
  [[nodiscard]] Bytes allocated() const override { return held_; }

  /// What the default allocator said when it was out of memory in this thread.
  static std::string& last_refusal() {
    thread_local std::string words;
    return words;
  }

 private:
  static Bytes size_of(void* memory) { return static_cast<Bytes>(malloc_usable_size(memory)); }

  std::atomic<Bytes> held_{0};
};

void free_block(void* memory);

class Adapter final : public c10::Allocator {
 public:
  [[nodiscard]] Session& session() { return session_; }

  c10::DataPtr allocate(std::size_t size) override {
    void* const memory = take(size);
    return {memory, memory, &free_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
  }

  void give_back(void* memory) {
    if (memory == nullptr) return;
    if (is_forked_) return give_back_in_child(memory);
    tell_profiler(memory, -1);
    session_.free(memory);
  }

  /// A child inherits locks as they are, so it must do without.
  void enter_child() { is_forked_ = true; }

 private:
  static Bytes physical_memory() {
    return static_cast<Bytes>(sysconf(_SC_PHYS_PAGES)) * static_cast<Bytes>(sysconf(_SC_PAGESIZE));
  }

  void* take(std::size_t size) {
    if (size == 0) return nullptr;
    if (is_forked_) return c10::GetDefaultCPUAllocator()->raw_allocate(size);
    void* const memory = session_.allocate(0, static_cast<Bytes>(size), 0);
    if (memory == nullptr) refuse(size);
    tell_profiler(memory, 1);
    return memory;
  }

  /// The default allocator's words say what was wrong, and ours why.
  [[noreturn]] void refuse(std::size_t size) {
    const Shortage shortage = {.size = static_cast<Bytes>(size), .sees_others = false};
    TORCH_CHECK(false, DefaultUpstream::last_refusal(), "\n", session_.explain_shortage(0, shortage));
  }

  /// What the parent's arena holds is left alone: the child has a copy of it as long as it lives.
  void give_back_in_child(void* memory) const {
    const RuntimeAllocator* const allocator = session_.allocator(0);
    if (allocator != nullptr && allocator->covers(memory)) return;
    c10::GetDefaultCPUAllocator()->raw_deallocate(memory);
  }

  /// The default allocator tells of its own blocks.
  void tell_profiler(void* memory, int sign) {
    if (!c10::memoryProfilingEnabled()) return;
    RuntimeAllocator* const allocator = session_.allocator(0);
    const Bytes size = allocator == nullptr ? 0 : allocator->block_in_arena(memory).size;
    if (size == 0) return;
    const RuntimeStatistics now = allocator->statistics();
    c10::reportMemoryUsageToProfiler(memory, sign * size, static_cast<std::size_t>(now.requested),
                                     static_cast<std::size_t>(now.reserved()), c10::Device(c10::kCPU));
  }

  std::atomic<bool> is_forked_{false};
  Session session_{
      {.device = [](int) { return std::make_unique<HostDevice>(physical_memory()); },
       .upstream = [](int) { return std::make_unique<DefaultUpstream>(); },
       .captures = {},
       .before_free = {},
       .free_foreign = [](void* memory) { c10::GetDefaultCPUAllocator()->raw_deallocate(memory); }}};
};

/// Lives for ever: blocks are freed after everything else has ended.
Adapter& the_adapter() {
  static Adapter* const adapter = [] {
    auto* const made = new Adapter;
    pthread_atfork(nullptr, nullptr, [] { the_adapter().enter_child(); });
    return made;
  }();
  return *adapter;
}

void free_block(void* memory) {
  the_adapter().give_back(memory);
}

constexpr std::uint8_t kPriority = 255;  // the highest, and it must be that again to be taken back

void install(c10::Allocator* from, c10::Allocator* to) {
  c10::Allocator* const current = c10::GetCPUAllocator();
  if (current == to) return;
  if (current != from) fail("the CPU allocator was replaced by somebody else: take that one out first");
  c10::SetCPUAllocator(to, kPriority);
}

}  // namespace
}  // namespace stweaver

void* stweaver_adapter_session() {
  return &stweaver::the_adapter().session();
}

const char* stweaver_adapter_install() {
  return stweaver::reported(
      [] { stweaver::install(c10::GetDefaultCPUAllocator(), &stweaver::the_adapter()); });
}

const char* stweaver_adapter_remove() {
  return stweaver::reported(
      [] { stweaver::install(&stweaver::the_adapter(), c10::GetDefaultCPUAllocator()); });
}
