#include "model/host_memory.h"

#include <bit>
#include <cstring>
#include <sys/mman.h>

namespace nullcuda {
namespace {

constexpr std::uint64_t kHostPage = 4096;

std::uint64_t address_of(const void* memory) {
  return std::bit_cast<std::uint64_t>(memory);
}
std::uint64_t pages(std::uint64_t size) {
  return (size + kHostPage - 1) / kHostPage * kHostPage;
}

}  // namespace

HostMemory::~HostMemory() {
  for (const auto& [begin, range] : ranges_)
    if (range.kind != HostKind::kRegistered) munmap(std::bit_cast<void*>(begin), pages(range.end - begin));
}

void* HostMemory::allocate(std::uint64_t size, HostKind kind) {
  if (pages(size) < size) return nullptr;
  void* memory =
      mmap(nullptr, pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const std::scoped_lock lock(mutex_);
  ranges_[address_of(memory)] = {.end = address_of(memory) + size, .kind = kind};
  return memory;
}

bool HostMemory::free(void* memory, HostKind kind) {
  const std::scoped_lock lock(mutex_);
  const auto range = ranges_.find(address_of(memory));
  if (range == ranges_.end() || range->second.kind != kind) return false;
  munmap(memory, pages(range->second.end - range->first));
  ranges_.erase(range);
  return true;
}

std::optional<HostKind> HostMemory::enlist(void* memory, std::uint64_t size) {
  const std::uint64_t begin = address_of(memory);
  const std::scoped_lock lock(mutex_);
  if (const auto before = holder(begin); before != ranges_.end()) return before->second.kind;
  const auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first < begin + size) return next->second.kind;
  ranges_[begin] = {.end = begin + size, .kind = HostKind::kRegistered};
  return std::nullopt;
}

bool HostMemory::strike(void* memory) {
  const std::scoped_lock lock(mutex_);
  const auto range = ranges_.find(address_of(memory));
  if (range == ranges_.end() || range->second.kind != HostKind::kRegistered) return false;
  ranges_.erase(range);
  return true;
}

std::map<std::uint64_t, HostMemory::Range>::const_iterator HostMemory::holder(std::uint64_t address) const {
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return ranges_.end();
  --range;
  return address < range->second.end ? range : ranges_.end();
}

std::optional<HostKind> HostMemory::kind_of(const void* address) const {
  const std::scoped_lock lock(mutex_);
  const auto range = holder(address_of(address));
  return range == ranges_.end() ? std::nullopt : std::optional(range->second.kind);
}

void HostMemory::zero(void* at, std::uint64_t size) const {
  auto* const bytes = static_cast<char*>(at);
  const std::uint64_t begin = address_of(at);
  const std::uint64_t first = (begin + kHostPage - 1) / kHostPage * kHostPage - begin;
  const std::uint64_t last = (begin + size) / kHostPage * kHostPage - begin;
  const auto kind = kind_of(at);
  if (!kind || *kind == HostKind::kRegistered || first >= last ||
      madvise(bytes + first, last - first, MADV_DONTNEED) != 0) {
    std::memset(bytes, 0, size);
    return;
  }
  std::memset(bytes, 0, first);
  std::memset(bytes + last, 0, size - last);
}

}  // namespace nullcuda
