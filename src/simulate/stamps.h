// Identities written into the memory of blocks, and read back.
#pragma once

#include "device/model.h"
#include "simulate/allocator.h"

namespace stweaver {

/// Stamps blocks with the number of their request. Two blocks that are alive in the same bytes overwrite each
/// other's stamps.
///
/// On a device the whole block is stamped, but for the last one to three bytes of one that is not whole words
/// of 4. On the host, where a job of 40 GiB has to fit into much less, a block of up to kWhole bytes is
/// stamped whole, a larger one at its two ends, to the byte, and at some places between: at addresses that
/// are multiples of a power of two, the smallest from kNarrowest on that gives at most kMostPlaces. So blocks
/// that share memory share places, and the pages that are touched stay few: 1 in 64 and the ends.
class Stamps {
 public:
  static constexpr Bytes kWhole = 8 * kKiB;
  static constexpr Bytes kEnd = 512;
  static constexpr Bytes kPlace = 64;
  static constexpr Bytes kNarrowest = 256 * kKiB;
  static constexpr Bytes kMostPlaces = 128;

  /// For blocks in memory that this process may write to.
  static Stamps on_host() { return Stamps(nullptr); }
  /// For blocks in memory of `device`, which must outlive this.
  static Stamps on_device(Device& device) { return Stamps(&device); }

  /// Stamps [block, block + size) in the order of `stream`. Error when the device fails.
  void write(RequestId id, Address block, Bytes size, Stream stream) const;
  /// Whether the stamp is as it was written. Error when the device fails.
  [[nodiscard]] bool verify(RequestId id, Address block, Bytes size, Stream stream) const;

 private:
  explicit Stamps(Device* device) : device_(device) {}

  Device* device_;  ///< null on the host
};

}  // namespace stweaver
