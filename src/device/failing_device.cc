#include "device/failing_device.h"

#include <algorithm>
#include <limits>

namespace stweaver {
namespace {

constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

}  // namespace

FailingDevice::FailingDevice(Device& device) : device_(&device), limit_(kUnlimited) {}

void FailingDevice::fail_nth(DeviceCall call, std::int64_t n) {
  const std::lock_guard lock(mutex_);
  Orders& order = orders(call);
  order.fails_at = order.calls + n;
  order.always = false;
}

void FailingDevice::fail_every(DeviceCall call) {
  const std::lock_guard lock(mutex_);
  orders(call).always = true;
}

void FailingDevice::limit(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void FailingDevice::heal() {
  const std::lock_guard lock(mutex_);
  for (Orders& order : orders_) order = {.calls = order.calls};
  limit_ = kUnlimited;
}

std::int64_t FailingDevice::calls(DeviceCall call) const {
  const std::lock_guard lock(mutex_);
  return orders(call).calls;
}

Bytes FailingDevice::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

/// Counts a call; whether it is to fail.
bool FailingDevice::fails(DeviceCall call) {
  const std::lock_guard lock(mutex_);
  Orders& order = orders(call);
  ++order.calls;
  return order.always || order.calls == order.fails_at;
}

/// The same, and keeps the failure.
bool FailingDevice::refuses(DeviceCall call, const char* name) {
  if (!fails(call)) return false;
  injected_.set(name, "(): told to fail");
  return true;
}

/// Holds `size` bytes more; false when that is over the limit.
bool FailingDevice::take(const char* name, Bytes size) {
  const std::lock_guard lock(mutex_);
  if (size > limit_ - held_) {
    return injected_.set(name, "(): out of memory, told to hold no more than ", limit_, " bytes: ", held_,
                         " and ", size, " are more");
  }
  held_ += size;
  return true;
}

void FailingDevice::give_back(Bytes size) {
  const std::lock_guard lock(mutex_);
  held_ -= size;
}

/// Whether a call went well that the device was asked for; if not, its own failure is the last one now.
bool FailingDevice::done(bool well) {
  return well || injected_.set("");
}

std::string FailingDevice::failure() const {
  std::string line = injected_.last();
  return line.empty() ? device_->failure() : line;
}

DeviceMemory FailingDevice::memory() const {
  DeviceMemory memory = device_->memory();
  const std::lock_guard lock(mutex_);
  if (limit_ == kUnlimited) return memory;
  memory.total = std::min(memory.total, limit_);
  memory.free = std::clamp(limit_ - held_, Bytes{0}, memory.free);
  return memory;
}

std::byte* FailingDevice::allocate(Bytes size) {
  const Bytes counted = std::max(size, Bytes{0});
  if (refuses(DeviceCall::kAllocate, "allocate") || !take("allocate", counted)) return nullptr;
  std::byte* const memory = device_->allocate(size);
  if (!done(memory != nullptr)) {
    give_back(counted);
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  sizes_[memory] = size;
  return memory;
}

/// The size of a block that is about to be freed, which is not known any more; 0 when it never was.
Bytes FailingDevice::remove_size(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(memory);
  if (found == sizes_.end()) return 0;
  const Bytes size = found->second;
  sizes_.erase(found);
  return size;
}

bool FailingDevice::free(std::byte* memory) {
  if (refuses(DeviceCall::kFree, "free")) return false;
  const Bytes size = remove_size(memory);  // before the device gives the same address to another thread
  if (done(device_->free(memory))) {
    give_back(size);
    return true;
  }
  const std::lock_guard lock(mutex_);
  if (size > 0) sizes_[memory] = size;
  return false;
}

std::byte* FailingDevice::reserve(Bytes size) {
  if (refuses(DeviceCall::kReserve, "reserve")) return nullptr;
  std::byte* const addresses = device_->reserve(size);
  done(addresses != nullptr);
  return addresses;
}

bool FailingDevice::release(std::byte* addresses, Bytes size) {
  return !refuses(DeviceCall::kRelease, "release") && done(device_->release(addresses, size));
}

bool FailingDevice::map(std::byte* at, Bytes size) {
  const Bytes counted = std::max(size, Bytes{0});
  if (refuses(DeviceCall::kMap, "map") || !take("map", counted)) return false;
  if (done(device_->map(at, size))) return true;
  give_back(counted);
  return false;
}

bool FailingDevice::unmap(std::byte* at, Bytes size) {
  if (refuses(DeviceCall::kUnmap, "unmap") || !done(device_->unmap(at, size))) return false;
  give_back(size);
  return true;
}

DeviceEvent FailingDevice::record(Stream stream) {
  if (refuses(DeviceCall::kRecord, "record")) return kNoEvent;
  const DeviceEvent event = device_->record(stream);
  done(event != kNoEvent);
  return event;
}

bool FailingDevice::wait(Stream stream, DeviceEvent event) {
  return !refuses(DeviceCall::kWait, "wait") && done(device_->wait(stream, event));
}

bool FailingDevice::passed(DeviceEvent event) {
  return !fails(DeviceCall::kPassed) && device_->passed(event);
}

bool FailingDevice::await(DeviceEvent event) {
  return !refuses(DeviceCall::kAwait, "await") && done(device_->await(event));
}

void FailingDevice::forget(DeviceEvent event) {
  device_->forget(event);
}

bool FailingDevice::synchronize() {
  return !refuses(DeviceCall::kSynchronize, "synchronize") && done(device_->synchronize());
}

bool FailingDevice::fill(std::byte* at, Bytes size, std::uint32_t value, Stream stream) {
  return !refuses(DeviceCall::kFill, "fill") && done(device_->fill(at, size, value, stream));
}

Bytes FailingDevice::count_other(const std::byte* at, Bytes size, std::uint32_t value, Stream stream) {
  if (refuses(DeviceCall::kCountOther, "count_other")) return -1;
  const Bytes others = device_->count_other(at, size, value, stream);
  done(others >= 0);
  return others;
}

}  // namespace stweaver
