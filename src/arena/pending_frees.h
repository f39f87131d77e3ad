// Freed blocks that other streams may still use.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "arena/block_table.h"
#include "arena/stream_order.h"

namespace stweaver {

/// Keeps what record_stream() said of living blocks, and blocks that were freed since, in the order of their
/// frees, until the other streams are done with them.
class PendingFrees {
 public:
  /// A range whose use has ended, and who used it last.
  struct Released {
    Bytes offset = 0;
    Bytes size = 0;
    LastUse last;
    RequestId recorded = kNotRecorded;
  };

  /// All must outlive this. `release` takes back what is over.
  PendingFrees(Device& device, StreamOrder& order, std::function<void(const Released&)> release)
      : device_(&device), order_(&order), release_(std::move(release)) {}
  PendingFrees(const PendingFrees&) = delete;
  PendingFrees& operator=(const PendingFrees&) = delete;
  PendingFrees(PendingFrees&&) = delete;
  PendingFrees& operator=(PendingFrees&&) = delete;
  ~PendingFrees();

  /// The living block is used by that stream too.
  void note_use(const LivingBlock& block, Stream stream);

  /// The block at `offset` was freed at `now`, `now` being counted on where the call itself has to wait.
  /// Whether it is pending; if not, its range may be used at once in the order of its stream.
  bool add(const LivingBlock& block, Bytes offset, Tick& now);

  /// Releases blocks in the order of their frees, as far as the other streams have got.
  void release_passed();

  /// Releases blocks that overlap `place` although other streams still use them: the block's own stream and
  /// `taker` wait for those. Whether there was one.
  bool release_overlapping(const Interval& place, Stream taker, Tick& now);

  /// The recorder knows no block any more.
  void forget_recorded() {
    for (Pending& pending : pending_) pending.range.recorded = kNotRecorded;
  }

  [[nodiscard]] bool empty() const { return pending_.empty(); }
  [[nodiscard]] Bytes bytes() const;

 private:
  static constexpr std::size_t kMostEvents = 4;  ///< more streams than that are waited for by the block's own

  struct Use {
    std::uintptr_t address = 0;
    Stream stream = 0;  ///< its handle: there may be more streams than have numbers
  };

  struct Pending {
    Released range;
    std::array<DeviceEvent, kMostEvents> events = {};  ///< kNoEvent behind the last
    bool uncertain = false;  ///< a stream could not be asked: in use until all streams are known to be done

    [[nodiscard]] bool is_over() const { return events.front() == kNoEvent && !uncertain; }
  };

  Pending pending_of(const LivingBlock& block, Bytes offset, Tick& now);
  void release(const Pending& pending);

  Device* device_;
  StreamOrder* order_;
  std::function<void(const Released&)> release_;
  std::vector<Use> uses_;         ///< of living blocks by other streams than their own
  std::vector<Pending> pending_;  ///< in order of their frees
};

}  // namespace stweaver
