// A device whose streams are all one.
#pragma once

#include <string>

#include "device/model.h"

namespace stweaver {

/// Passes calls on to `device`, which must outlive it, with the default stream for any stream. A trace names
/// streams by the handles of the process that it was recorded in; here nobody knows those. It shares nothing
/// with other processes.
class OneStream final : public Device {
 public:
  explicit OneStream(Device& device) : device_(device) {}

  [[nodiscard]] std::string name() const override { return device_.name(); }
  [[nodiscard]] DeviceMemory memory() const override { return device_.memory(); }
  [[nodiscard]] std::string failure() const override { return device_.failure(); }

  std::byte* allocate(Bytes size) override { return device_.allocate(size); }
  bool free(std::byte* memory) override { return device_.free(memory); }

  [[nodiscard]] Bytes page_size() const override { return device_.page_size(); }
  std::byte* reserve(Bytes size) override { return device_.reserve(size); }
  bool release(std::byte* addresses, Bytes size) override { return device_.release(addresses, size); }
  bool map(std::byte* at, Bytes size) override { return device_.map(at, size); }
  bool unmap(std::byte* at, Bytes size) override { return device_.unmap(at, size); }

  DeviceEvent record(Stream /*stream*/) override { return device_.record(0); }
  bool wait(Stream /*stream*/, DeviceEvent event) override { return device_.wait(0, event); }
  bool passed(DeviceEvent event) override { return device_.passed(event); }
  bool await(DeviceEvent event) override { return device_.await(event); }
  void forget(DeviceEvent event) override { device_.forget(event); }
  bool synchronize() override { return device_.synchronize(); }

  bool fill(std::byte* at, Bytes size, std::uint32_t value, Stream /*stream*/) override {
    return device_.fill(at, size, value, 0);
  }
  Bytes count_other(const std::byte* at, Bytes size, std::uint32_t value, Stream /*stream*/) override {
    return device_.count_other(at, size, value, 0);
  }

 private:
  Device& device_;
};

}  // namespace stweaver
