// Names for events that are used again and again, such that a name of long ago is known to be stale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "device/model.h"

namespace stweaver {

/// Hands out slots 0, 1, ... and reuses those given back, the last one first. An event is the slot and how
/// often it was handed out. Allocates only when more events are alive than ever before. Safe to use from any
/// thread.
class EventTable {
 public:
  /// A new event.
  DeviceEvent add() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      if (uses_.empty()) uses_.reserve(kFirst);
      idle_.reserve(uses_.capacity());  // so that remove() never allocates
      idle_.push_back(uses_.size());
      uses_.push_back(0);
      idle_.reserve(uses_.capacity());
    }
    const std::size_t slot = idle_.back();
    idle_.pop_back();
    return name(slot, ++uses_[slot]);
  }

  /// The slot of an event that was added and not removed; nothing for any other.
  [[nodiscard]] std::optional<std::size_t> find(DeviceEvent event) const {
    const std::lock_guard lock(mutex_);
    return slot_of(event);
  }

  /// False when there is no such event.
  bool remove(DeviceEvent event) {
    const std::lock_guard lock(mutex_);
    const std::optional<std::size_t> slot = slot_of(event);
    if (!slot) return false;
    ++uses_[*slot];
    idle_.push_back(*slot);
    return true;
  }

 private:
  static constexpr std::size_t kFirst = 64;  ///< some for each stream of a usual job
  static constexpr unsigned kSlotBits = 32;
  static constexpr DeviceEvent kSlotMask = (DeviceEvent{1} << kSlotBits) - 1;

  // The count is odd while the slot is in use, so that no event is kNoEvent.
  static DeviceEvent name(std::size_t slot, std::uint32_t uses) {
    return DeviceEvent{uses} << kSlotBits | slot;
  }

  [[nodiscard]] std::optional<std::size_t> slot_of(DeviceEvent event) const {
    const std::size_t slot = event & kSlotMask;
    const auto uses = static_cast<std::uint32_t>(event >> kSlotBits);
    if (slot >= uses_.size() || uses % 2 == 0 || uses_[slot] != uses) return std::nullopt;
    return slot;
  }

  mutable std::mutex mutex_;
  std::vector<std::uint32_t> uses_;  ///< by slot: how often it was handed out and given back
  std::vector<std::size_t> idle_;
};

}  // namespace stweaver
