// Freed blocks that other streams may still use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "arena/block_table.h"
#include "arena/stream_order.h"

namespace stweaver {

/// Keeps what record_stream() said of living blocks, and blocks that were freed since, until the other
/// streams are done with them. Those of a stream that is slow hold back no others, and cost no time while it
/// is.
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
  void note_use(LivingBlock& block, Stream stream);

  /// The block at `offset` was freed at `now`. Whether it is pending; if not, its range may be used at once
  /// in the order of its stream.
  bool add(const LivingBlock& block, Bytes offset, Tick now);

  /// Releases the blocks that the other streams are done with.
  void release_passed();

  /// Releases blocks that overlap `place` although other streams still use them: the block's own stream and
  /// `taker` wait for those. Whether there was one.
  bool release_overlapping(const Interval& place, Stream taker, Tick& now);

  /// The recorder knows no block any more.
  void forget_recorded() {
    for (Queue& queue : queues_)
      for (Pending& pending : queue.pending) pending.range.recorded = kNotRecorded;
  }

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] Bytes bytes() const;

 private:
  static constexpr std::size_t kMostMarks = 4;  ///< for more streams than that the device is waited for

  struct Mark {
    Stream stream = 0;
    DeviceEvent event = kNoEvent;  ///< behind the stream's use of the block
  };

  struct Pending {
    Released range;
    std::array<Mark, kMostMarks> events = {};
    std::size_t count = 0;
    bool uncertain = false;  ///< a stream could not be asked: in use until all streams are known to be done

    [[nodiscard]] std::span<const Mark> marks() const { return std::span(events).first(count); }
    [[nodiscard]] bool is_over() const { return count == 0 && !uncertain; }
  };

  struct Use {
    Stream stream = 0;  ///< its handle: there may be more streams than have numbers
    std::int32_t next = kNoUse;
  };

  /// Blocks that have their first mark on one stream, in the order of their frees, in which it comes to them.
  struct Queue {
    std::optional<Stream> stream;  ///< none: they have no mark
    std::vector<Pending> pending;
  };

  Use& use_at(std::int32_t number) { return uses_[static_cast<std::size_t>(number)]; }
  Pending pending_of(const LivingBlock& block, Bytes offset, Tick now);
  Queue& queue_of(const Pending& pending);
  [[nodiscard]] bool is_busy(std::optional<Stream> stream) const;
  bool has_passed(const Pending& pending);
  void release(const Pending& pending);

  Device* device_;
  StreamOrder* order_;
  std::function<void(const Released&)> release_;
  std::vector<Use>
      uses_;  ///< of living blocks by other streams than their own, a list for each, and a free one
  std::int32_t free_use_ = kNoUse;
  std::vector<Queue> queues_;
  std::size_t count_ = 0;     ///< blocks in all queues
  std::vector<Stream> busy_;  ///< while they are asked: those that have not come to a mark of theirs
};

}  // namespace stweaver
