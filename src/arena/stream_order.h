// Which stream's work is known to come after which other's, and which work is known to be over.
#pragma once

#include <cstddef>
#include <vector>

#include "arena/free_space.h"
#include "device/device.h"

namespace stweaver {

/// Numbers the streams of a process and keeps their order: memory freed on one stream may be used by another
/// only behind an event that the first recorded at that free or later.
///
/// A wait for an event recorded long ago is over before anyone waits, a wait for one recorded now makes the
/// taker wait for everything the giver still has to do. So events are recorded soon after a free of memory
/// that is going to change streams (hand_over()), at most one per stream and `spacing` calls, and order()
/// takes the oldest one that will do. Others are recorded behind what a stream frees, to tell which work is
/// over: one for every so many bytes, so that whoever waits for work on an extent waits for little else, and
/// only where memory moves, for nobody else asks: an event takes the host longer than all else in a free.
class StreamOrder {
 public:
  /// `event_bytes`: freed by a stream between two events that tell what is over.
  explicit StreamOrder(Device& device, Bytes event_bytes = 8 * kMiB)
      : device_(&device), event_bytes_(event_bytes) {}
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;
  StreamOrder(StreamOrder&&) = delete;
  StreamOrder& operator=(StreamOrder&&) = delete;
  ~StreamOrder();

  /// The stream's number, a new one if need be; kNoStream for more than kMostStreams.
  StreamIndex index_of(Stream stream) {
    return last_ != kNoStream && stream == last_stream_ ? last_ : find_index(stream);
  }
  [[nodiscard]] Stream stream_of(StreamIndex index) const { return streams_[index].stream; }
  [[nodiscard]] std::size_t streams() const { return streams_.size(); }

  /// How many calls one event of a hand-over may serve.
  void set_spacing(Tick spacing) { spacing_ = spacing; }

  /// Whether `taker` may use what was last used so, as things are.
  [[nodiscard]] bool ordered(StreamIndex taker, const LastUse& last) const {
    return last.stream == taker || last.stream == kNoStream || known(taker, last.stream) >= last.freed;
  }

  /// ordered() of one taker, for searches of the free space.
  class Usable {
   public:
    Usable(const StreamOrder& order, StreamIndex taker) : order_(&order), taker_(taker) {}
    bool operator()(const LastUse& last) const { return order_->ordered(taker_, last); }
    [[nodiscard]] bool may_use(std::size_t group, Tick oldest) const {
      if (group == GapSummary::group_of(taker_) || group == GapSummary::group_of(kNoStream)) return true;
      return order_->streams_[taker_].latest_known >= oldest;
    }

   private:
    const StreamOrder* order_;
    StreamIndex taker_;
  };
  [[nodiscard]] Usable usable_by(StreamIndex taker) const { return {*this, taker}; }

  /// Makes it so: `taker` waits for the other stream's event. False when the device refuses.
  bool order(StreamIndex taker, const LastUse& last, Tick now);

  /// The stream freed, at `now`, memory that another stream is going to take.
  void hand_over(StreamIndex stream, Tick now);

  /// Whether somebody is going to ask what is over; so it is at first.
  void watch_frees(bool on) { watches_frees_ = on; }

  /// The stream freed so many bytes at `now`.
  void note_free(StreamIndex stream, Bytes size, Tick now) {
    if (!watches_frees_) return;
    StreamState& state = streams_[stream];
    state.freed_since += size;
    if (state.freed_since >= event_bytes_) record(state, now);
  }

  /// All work of all streams is over: whatever was freed up to `now` may be used by any.
  void settle(Tick now);
  /// Asks the device which of the recorded events have passed.
  void find_what_is_over();
  /// Whether that found the work over that used memory last.
  [[nodiscard]] bool is_over(const LastUse& last) const {
    return last.stream == kNoStream || streams_[last.stream].over >= last.freed;
  }

  /// Waits until that is so. False when the device refuses.
  bool await(const LastUse& last);

  /// To be called with the time of every call: records the events that are due.
  void advance(Tick now) {
    now_ = now;
    if (now >= next_due_) record_due(now);
  }

  [[nodiscard]] std::int64_t waits() const { return waits_; }    ///< that order() inserted
  [[nodiscard]] std::int64_t events() const { return events_; }  ///< recorded for hand-overs

 private:
  /// Events kept of a stream. Of more, every second one is forgotten.
  static constexpr std::size_t kKept = 256;
  static constexpr Tick kNever = ~Tick{0};

  struct Recorded {
    Tick time = 0;
    DeviceEvent event = kNoEvent;
  };

  struct StreamState {
    Stream stream = 0;
    Tick due = kNever;             ///< when an event is to be recorded
    Bytes freed_since = 0;         ///< its last event
    Tick over = 0;                 ///< its frees up to then are over
    Tick latest_known = 0;         ///< the latest of `known`
    std::vector<Recorded> events;  ///< not known to have passed, in order of time
    std::vector<Tick> known;       ///< by stream: its frees up to then come before this stream's work
  };

  [[nodiscard]] Tick known(StreamIndex taker, StreamIndex other) const {
    return streams_[taker].known[other];
  }
  StreamIndex find_index(Stream stream);
  void record_due(Tick now);
  void note_over(StreamState& stream, std::size_t passed);
  static void learn(StreamState& taker, StreamIndex other, Tick time);
  /// The oldest event behind what the stream freed then; nullptr when there is none.
  static const Recorded* find_behind(const StreamState& stream, Tick freed);
  const Recorded* record(StreamState& stream, Tick now);
  void thin_out(StreamState& stream);

  Device* device_;
  Bytes event_bytes_;
  std::vector<StreamState> streams_;
  StreamIndex last_ = kNoStream;  ///< found last
  Stream last_stream_ = 0;
  Tick now_ = 0;
  Tick spacing_ = 1;
  Tick next_due_ = kNever;
  bool watches_frees_ = true;
  std::int64_t waits_ = 0;
  std::int64_t events_ = 0;
};

}  // namespace stweaver
