// The address range that plans govern, and the memory behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "device/device.h"
#include "runtime/free_space.h"

namespace stweaver {

/// What the device did for an arena.
struct MappingStatistics {
  std::int64_t maps = 0;         ///< calls that put memory behind addresses
  std::int64_t unmaps = 0;       ///< calls that took it away
  std::int64_t idle_waits = 0;   ///< for the device to be idle, before memory was taken away
  std::int64_t nanoseconds = 0;  ///< that all of them took
};

/// Far more addresses than the device has memory, reserved once; memory is mapped where a plan needs it and
/// unmapped where nobody does, so an arena grows, shrinks and moves on while blocks stay where they are. What
/// has memory and no tenant is in the free space.
class Arena {
 public:
  explicit Arena(Device& device) : device_(&device) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena(Arena&&) = delete;
  Arena& operator=(Arena&&) = delete;
  ~Arena();

  /// Memory comes and goes in pieces of this size at most: small enough to give back what is idle, large
  /// enough that mapping a whole GPU takes a few hundred calls.
  static constexpr Bytes kExtent = 256 * kMiB;
  static constexpr Bytes kAll = std::numeric_limits<Bytes>::max();

  /// Bytes of addresses, several times the device's memory; they are reserved when first needed. 0 when that
  /// fails or the device cannot map.
  Bytes addresses() { return take_addresses() ? addresses_ : 0; }

  /// Puts memory behind all of `range`, in extents of `extent` bytes at most (whole pages); what is new is
  /// idle. False when the device has not enough, and then nothing has changed. `range` may exceed the
  /// addresses: false, too.
  bool map(const Interval& range, Bytes extent = kExtent);

  /// The same where memory is given back in the middle of steps, for somebody who holds `bytes`: a block pins
  /// what is idle in the extents at its ends, and so does each end of what is idle between blocks. Smaller
  /// ones leave less behind and cost more calls: some thousand for whatever is held.
  [[nodiscard]] Bytes small_extent(Bytes bytes) const;

  /// Where the memory below `limit` ends that is mapped highest; 0 when there is none.
  [[nodiscard]] Bytes mapped_end(Bytes limit) const;

  /// How many bytes of `range` have no memory.
  [[nodiscard]] Bytes missing(const Interval& range) const;

  /// Where memory is in `region`, neighbours joined, by offset.
  [[nodiscard]] std::vector<Interval> mapped_in(const Interval& region) const;

  /// Takes memory away where it is idle, except in `keep` and in `keep_too`, until that is `enough` bytes. In
  /// whole extents: what one map() call put there.
  void unmap_idle(const Interval& keep, Bytes enough = kAll, const Interval& keep_too = {});

  [[nodiscard]] bool contains(std::uintptr_t address) const {
    return address - base_ < static_cast<std::uintptr_t>(addresses_);
  }
  [[nodiscard]] std::uintptr_t address_of(Bytes offset) const {
    return base_ + static_cast<std::uintptr_t>(offset);
  }
  [[nodiscard]] Bytes offset_of(std::uintptr_t address) const { return static_cast<Bytes>(address - base_); }

  [[nodiscard]] Bytes mapped() const { return mapped_; }
  /// Where that is: first address and size in bytes, by address; neighbours apart.
  [[nodiscard]] std::vector<std::pair<std::uintptr_t, Bytes>> extents() const;
  [[nodiscard]] Bytes page_size() const { return device_->page_size(); }
  [[nodiscard]] const MappingStatistics& mapping() const { return mapping_; }

  FreeSpace free_space;

 private:
  struct Extent {
    Bytes offset = 0;
    Bytes size = 0;
  };

  bool take_addresses();
  [[nodiscard]] std::size_t first_above(Bytes offset) const;
  bool map_extent(std::size_t at, Interval range);
  bool unmap_extent(const Extent& extent);
  [[nodiscard]] std::byte* pointer(Bytes offset) const;
  template <typename Call>
  bool timed(std::int64_t& calls, Call call);

  Device* device_;
  std::uintptr_t base_ = 0;
  Bytes addresses_ = 0;
  Bytes mapped_ = 0;
  MappingStatistics mapping_;
  std::vector<Extent> extents_;  ///< in order of offset
};

}  // namespace stweaver
