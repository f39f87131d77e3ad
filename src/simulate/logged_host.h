// Host memory that says what is taken from it.
#pragma once

#include <unordered_map>

#include "device/host_device.h"
#include "simulate/segment_log.h"

namespace stweaver {

/// For one thread. `log` must outlive it. Streams and pools are not known to a device: the log has 0.
class LoggedHost final : public HostDevice {
 public:
  LoggedHost(Bytes capacity, SegmentLog& log) : HostDevice(capacity), log_(log) {}

  std::byte* allocate(Bytes size) override;
  bool free(std::byte* memory) override;
  bool map(std::byte* at, Bytes size) override;
  bool unmap(std::byte* at, Bytes size) override;

 private:
  void note(SegmentAction action, const std::byte* at, Bytes size);

  SegmentLog& log_;
  std::unordered_map<const std::byte*, Bytes> sizes_;  ///< of what allocate() returned
};

}  // namespace stweaver
