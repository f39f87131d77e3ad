// Host memory as a device with a capacity.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "device/address_book.h"
#include "device/event_table.h"
#include "device/failure.h"
#include "device/model.h"

namespace stweaver {

/// Memory by mmap, counted against a capacity so that out of memory is real. The kernel is asked to set
/// nothing aside (MAP_NORESERVE): a device of 100 GiB works on a machine of 16 as long as not all of it is
/// written to. Work is done at once, so every event has passed when it is recorded; any number is a stream.
class HostDevice : public Device {
 public:
  /// Error when `capacity` (bytes) is negative.
  explicit HostDevice(Bytes capacity);
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;
  HostDevice(HostDevice&&) = delete;
  HostDevice& operator=(HostDevice&&) = delete;
  /// Gives everything back, also what nobody freed.
  ~HostDevice() override;

  [[nodiscard]] std::string name() const override { return "host"; }
  [[nodiscard]] DeviceMemory memory() const override;
  [[nodiscard]] std::string failure() const override { return failure_.last(); }

  /// Aligned to the page size, as cudaMalloc aligns the large blocks that allocators ask it for: an offset
  /// into a block is aligned alike on both. Counted in units of 512 bytes, as cudaMalloc packs small blocks.
  std::byte* allocate(Bytes size) override;
  bool free(std::byte* memory) override;

  /// 2 MiB, as on every CUDA device so far.
  [[nodiscard]] Bytes page_size() const override;
  std::byte* reserve(Bytes size) override;
  bool release(std::byte* addresses, Bytes size) override;
  bool map(std::byte* at, Bytes size) override;
  bool unmap(std::byte* at, Bytes size) override;

  DeviceEvent record(Stream stream) override;
  bool wait(Stream stream, DeviceEvent event) override;
  bool passed(DeviceEvent event) override;
  bool await(DeviceEvent event) override { return passed(event); }  // there is no other work
  void forget(DeviceEvent event) override;
  bool synchronize() override { return true; }

  bool fill(std::byte* at, Bytes size, std::uint32_t value, Stream stream) override;
  Bytes count_other(const std::byte* at, Bytes size, std::uint32_t value, Stream stream) override;

 private:
  bool take(Bytes size);
  void give_back(Bytes size);
  bool check_words(const char* call, const std::byte* at, Bytes size);

  const Bytes capacity_;
  std::atomic<Bytes> used_{0};
  AddressBook book_;
  EventTable events_;
  mutable Failure failure_;
};

}  // namespace stweaver
