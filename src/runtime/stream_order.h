// Which stream's work is known to come after which other's.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "device/device.h"
#include "runtime/free_space.h"

namespace stweaver {

/// Numbers the streams of a process and keeps their order: memory that one lane freed may be used by another
/// only behind an event that the first recorded at that free or later.
///
/// A wait for an event recorded long ago is over before anyone waits, a wait for one recorded now makes the
/// taker wait for everything the giver still has to do. So events are recorded soon after a free of memory
/// that is going to change lanes (hand_over()), at most one per lane and `spacing` calls, and order() takes
/// the oldest one that will do.
class StreamOrder {
 public:
  /// More streams than this get no lane: nothing of theirs is in an arena.
  static constexpr std::size_t kMostLanes = 64;

  explicit StreamOrder(Device& device) : device_(&device) {}
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;
  StreamOrder(StreamOrder&&) = delete;
  StreamOrder& operator=(StreamOrder&&) = delete;
  ~StreamOrder();

  /// The stream's lane, a new one if need be; kNobody when there are too many.
  LaneId lane_of(Stream stream) {
    return last_ != kNobody && stream == last_stream_ ? last_ : find_lane(stream);
  }
  [[nodiscard]] Stream stream_of(LaneId lane) const { return lanes_[lane].stream; }
  [[nodiscard]] std::size_t lanes() const { return lanes_.size(); }

  /// How many calls one event may serve.
  void set_spacing(Tick spacing) { spacing_ = spacing; }

  /// Whether `taker` may use what was last used so, as things are.
  [[nodiscard]] bool ordered(LaneId taker, const LastUse& last) const {
    return last.lane == taker || last.lane == kNobody || known(taker, last.lane) >= last.freed;
  }

  /// Makes it so: `taker` waits for the other lane's event. False when the device refuses.
  bool order(LaneId taker, const LastUse& last, Tick now);

  /// The lane freed, at `now`, memory that another lane is going to take.
  void hand_over(LaneId lane, Tick now);

  /// All work of all lanes is over: whatever was freed up to `now` may be used by any.
  void settle(Tick now);

  /// To be called with the time of every call: records the events that are due.
  void advance(Tick now) {
    if (now >= next_due_) record_due(now);
  }

  [[nodiscard]] std::int64_t waits() const { return waits_; }    ///< that order() inserted
  [[nodiscard]] std::int64_t events() const { return events_; }  ///< recorded

 private:
  static constexpr std::size_t kKept = 16;
  static constexpr Tick kNever = ~Tick{0};

  struct Recorded {
    Tick time = 0;
    DeviceEvent event = kNoEvent;
  };

  struct Lane {
    Stream stream = 0;
    Tick due = kNever;                   ///< when an event is to be recorded
    std::array<Recorded, kKept> events;  ///< a ring
    std::size_t newest = kKept - 1;
    std::vector<Tick> known;  ///< by lane: its frees up to then come before this lane's work
  };

  [[nodiscard]] Tick known(LaneId taker, LaneId other) const { return lanes_[taker].known[other]; }
  LaneId find_lane(Stream stream);
  void record_due(Tick now);
  const Recorded* record(Lane& lane, Tick now);

  Device* device_;
  std::vector<Lane> lanes_;
  LaneId last_ = kNobody;  ///< found last
  Stream last_stream_ = 0;
  Tick spacing_ = 1;
  Tick next_due_ = kNever;
  std::int64_t waits_ = 0;
  std::int64_t events_ = 0;
};

}  // namespace stweaver
