#include "device/host_device.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <sys/mman.h>
#include <system_error>

namespace stweaver {
namespace {

constexpr Bytes kPage = 2 * kMiB;
constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

std::string reason() {
  return std::error_code(errno, std::generic_category()).message();
}

/// Fresh pages at `begin`, or anywhere; nullptr when the system refuses. They stay small: a system that makes
/// them huge wherever it can would spend 2 MiB on each byte that is written.
std::byte* map_pages(void* begin, std::size_t size, int protection, int flags) {
  void* const pages = mmap(begin, size, protection, flags, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  madvise(pages, size, MADV_NOHUGEPAGE);  // refused only where there are no huge pages
  return static_cast<std::byte*>(pages);
}

/// `size` bytes of addresses that begin at a multiple of kPage; nullptr when there are none.
std::byte* map_aligned(Bytes size, int protection) {
  std::size_t space = length(size) + length(kPage);
  auto* const all = map_pages(nullptr, space, protection, kAnonymous);
  if (all == nullptr) return nullptr;
  auto* const end = all + space;
  void* begin = all;
  auto* const aligned = static_cast<std::byte*>(std::align(length(kPage), length(size), begin, space));
  if (aligned > all) munmap(all, static_cast<std::size_t>(aligned - all));
  if (aligned + size < end) munmap(aligned + size, static_cast<std::size_t>(end - aligned - size));
  return aligned;
}

}  // namespace

HostDevice::HostDevice(Bytes capacity) : capacity_(capacity), book_(kPage) {
  if (capacity < 0) fail("host device: the capacity is ", capacity, " bytes, it must not be negative");
}

HostDevice::~HostDevice() {
  for (const AddressRange& block : book_.blocks()) munmap(block.begin, length(align_up(block.size, kPage)));
  for (const AddressRange& range : book_.ranges()) munmap(range.begin, length(range.size));
}

DeviceMemory HostDevice::memory() const {
  return {.free = capacity_ - used_, .total = capacity_};
}

/// Counts `size` bytes more; false when that is over the capacity.
bool HostDevice::take(Bytes size) {
  Bytes used = used_;
  do {
    if (size > capacity_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + size));
  return true;
}

void HostDevice::give_back(Bytes size) {
  used_ -= size;
}

std::byte* HostDevice::allocate(Bytes size) {
  if (size <= 0) {
    failure_.set("allocate(", size, "): the size must be positive");
    return nullptr;
  }
  // Compared first, so that rounding up cannot overflow.
  if (size > capacity_ || !take(align_up(size, kAlignment))) {
    failure_.set("allocate(", size, "): out of memory, ", memory().free, " of ", capacity_,
                 " bytes are free");
    return nullptr;
  }
  const Bytes taken = align_up(size, kAlignment);
  std::byte* const memory = map_aligned(align_up(size, kPage), PROT_READ | PROT_WRITE);
  if (memory == nullptr) {
    failure_.set("allocate(", size, "): mmap: ", reason());
    give_back(taken);
    return nullptr;
  }
  book_.add_block({.begin = memory, .size = taken});
  return memory;
}

bool HostDevice::free(std::byte* memory) {
  const Bytes size = book_.remove_block(memory);
  if (size == 0) return failure_.set("free(", memory, "): not what allocate() returned");
  munmap(memory, length(align_up(size, kPage)));
  give_back(size);
  return true;
}

Bytes HostDevice::page_size() const {
  return kPage;
}

std::byte* HostDevice::reserve(Bytes size) {
  if (const auto why = book_.refuse_size(size); !why.empty()) {
    failure_.set("reserve(", size, "): ", why);
    return nullptr;
  }
  std::byte* const addresses = map_aligned(size, PROT_NONE);
  if (addresses == nullptr) {
    failure_.set("reserve(", size, "): mmap: ", reason());
    return nullptr;
  }
  book_.add_range({.begin = addresses, .size = size});
  return addresses;
}

bool HostDevice::release(std::byte* addresses, Bytes size) {
  if (const auto why = book_.remove_range({.begin = addresses, .size = size}); !why.empty()) {
    return failure_.set("release(", addresses, ", ", size, "): ", why);
  }
  munmap(addresses, length(size));
  return true;
}

bool HostDevice::map(std::byte* at, Bytes size) {
  const AddressRange mapping{.begin = at, .size = size};
  if (const auto why = book_.add_mapping(mapping); !why.empty()) {
    return failure_.set("map(", at, ", ", size, "): ", why);
  }
  if (!take(size)) {
    book_.remove_mapping(mapping);
    return failure_.set("map(", at, ", ", size, "): out of memory, ", memory().free, " of ", capacity_,
                        " bytes are free");
  }
  if (mprotect(at, length(size), PROT_READ | PROT_WRITE) != 0) {
    failure_.set("map(", at, ", ", size, "): mprotect: ", reason());
    give_back(size);
    book_.remove_mapping(mapping);
    return false;
  }
  return true;
}

bool HostDevice::unmap(std::byte* at, Bytes size) {
  const AddressRange mapping{.begin = at, .size = size};
  if (const auto why = book_.remove_mapping(mapping); !why.empty()) {
    return failure_.set("unmap(", at, ", ", size, "): ", why);
  }
  // A new mapping in the same place gives the pages back to the system, mprotect would keep them.
  if (map_pages(at, length(size), PROT_NONE, kAnonymous | MAP_FIXED) == nullptr) {
    failure_.set("unmap(", at, ", ", size, "): mmap: ", reason());
    book_.add_mapping(mapping);
    return false;
  }
  give_back(size);
  return true;
}

DeviceEvent HostDevice::record(Stream) {
  return events_.add();
}

bool HostDevice::wait(Stream stream, DeviceEvent event) {
  if (!events_.find(event)) return failure_.set("wait(", stream, ", ", event, "): no such event");
  return true;
}

bool HostDevice::passed(DeviceEvent event) {
  if (!events_.find(event)) return failure_.set("passed(", event, "): no such event");
  return true;
}

void HostDevice::forget(DeviceEvent event) {
  if (!events_.remove(event)) failure_.set("forget(", event, "): no such event");
}

/// Whether [at, at + size) are words that can be used: here the wrong address would end the process.
bool HostDevice::check_words(const char* call, const std::byte* at, Bytes size) {
  if (const auto why = refuse_words(at, size); !why.empty()) {
    return failure_.set(call, "(", at, ", ", size, "): ", why);
  }
  if (!book_.has_memory(at, size)) {
    return failure_.set(call, "(", at, ", ", size, "): not memory of this device");
  }
  return true;
}

bool HostDevice::fill(std::byte* at, Bytes size, std::uint32_t value, Stream) {
  if (!check_words("fill", at, size)) return false;
  std::fill_n(reinterpret_cast<std::uint32_t*>(at), size / kWord, value);
  return true;
}

Bytes HostDevice::count_other(const std::byte* at, Bytes size, std::uint32_t value, Stream) {
  if (!check_words("count_other", at, size)) return -1;
  const auto* const words = reinterpret_cast<const std::uint32_t*>(at);
  return size / kWord - std::count(words, words + size / kWord, value);
}

}  // namespace stweaver
