// Fault injection: a device that fails when it is told to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "device/failure.h"
#include "device/model.h"

namespace stweaver {

/// What can be made to fail; the functions of Device.
enum class DeviceCall : std::uint8_t {
  kAllocate,
  kFree,
  kReserve,
  kRelease,
  kMap,
  kUnmap,
  kRecord,
  kWait,
  kPassed,  ///< fails by saying "not yet", which is no failure: work that takes long
  kAwait,
  kSynchronize,
  kFill,
  kCountOther,
};
inline constexpr std::size_t kDeviceCalls = 13;

/// Passes calls on to `device`, which must outlive it, but for those that were to fail: they return what a
/// failure returns and change nothing. It shares nothing with other processes.
class FailingDevice : public Device {
 public:
  explicit FailingDevice(Device& device);

  /// The n-th `call` from now on fails, counted from 1; the others do not. Replaces fail_nth and fail_every
  /// of the same call.
  void fail_nth(DeviceCall call, std::int64_t n);
  /// Every `call` fails from now on.
  void fail_every(DeviceCall call);
  /// allocate() and map() fail when more than `bytes` would be held through this object; memory() says so.
  void limit(Bytes bytes);
  /// Nothing fails any more, and there is no limit.
  void heal();

  /// How often it was called, failures included.
  [[nodiscard]] std::int64_t calls(DeviceCall call) const;
  /// Bytes of allocate() and map() that were not given back, as they were asked for.
  [[nodiscard]] Bytes held() const;

  [[nodiscard]] std::string name() const override { return device_->name(); }
  [[nodiscard]] DeviceMemory memory() const override;
  [[nodiscard]] std::string failure() const override;

  std::byte* allocate(Bytes size) override;
  bool free(std::byte* memory) override;

  [[nodiscard]] Bytes page_size() const override { return device_->page_size(); }
  std::byte* reserve(Bytes size) override;
  bool release(std::byte* addresses, Bytes size) override;
  bool map(std::byte* at, Bytes size) override;
  bool unmap(std::byte* at, Bytes size) override;

  DeviceEvent record(Stream stream) override;
  bool wait(Stream stream, DeviceEvent event) override;
  bool passed(DeviceEvent event) override;
  bool await(DeviceEvent event) override;
  void forget(DeviceEvent event) override;
  bool synchronize() override;

  bool fill(std::byte* at, Bytes size, std::uint32_t value, Stream stream) override;
  Bytes count_other(const std::byte* at, Bytes size, std::uint32_t value, Stream stream) override;

 private:
  struct Orders {
    std::int64_t calls = 0;
    std::int64_t fails_at = 0;  ///< the number of the call that fails; 0 for none
    bool always = false;
  };

  [[nodiscard]] const Orders& orders(DeviceCall call) const {
    return orders_[static_cast<std::size_t>(call)];
  }
  Orders& orders(DeviceCall call) { return orders_[static_cast<std::size_t>(call)]; }
  bool fails(DeviceCall call);
  bool refuses(DeviceCall call, const char* name);
  bool take(const char* name, Bytes size);
  void give_back(Bytes size);
  Bytes remove_size(std::byte* memory);
  bool done(bool well);

  Device* device_;
  mutable std::mutex mutex_;
  std::array<Orders, kDeviceCalls> orders_ = {};
  Bytes limit_;
  Bytes held_ = 0;
  std::map<const std::byte*, Bytes> sizes_;  ///< of what allocate() returned
  Failure injected_;                         ///< empty when the device itself has failed since
};

}  // namespace stweaver
