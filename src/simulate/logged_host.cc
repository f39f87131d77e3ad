#include "simulate/logged_host.h"

#include <bit>

namespace stweaver {

std::byte* LoggedHost::allocate(Bytes size) {
  std::byte* const memory = HostDevice::allocate(size);
  if (memory == nullptr) return nullptr;
  sizes_[memory] = size;
  note(SegmentAction::kAlloc, memory, size);
  return memory;
}

bool LoggedHost::free(std::byte* memory) {
  if (!HostDevice::free(memory)) return false;
  const auto found = sizes_.find(memory);
  note(SegmentAction::kFree, memory, found->second);
  sizes_.erase(found);
  return true;
}

bool LoggedHost::map(std::byte* at, Bytes size) {
  if (!HostDevice::map(at, size)) return false;
  note(SegmentAction::kMap, at, size);
  return true;
}

bool LoggedHost::unmap(std::byte* at, Bytes size) {
  if (!HostDevice::unmap(at, size)) return false;
  note(SegmentAction::kUnmap, at, size);
  return true;
}

void LoggedHost::note(SegmentAction action, const std::byte* at, Bytes size) {
  log_.note({.action = action, .address = std::bit_cast<Address>(at), .size = size});
}

}  // namespace stweaver
