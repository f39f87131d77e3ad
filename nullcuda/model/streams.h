// Streams, events and captures: what waits for what, and when it is done.
//
// Work takes time only as far as the settings want it to (settings.h, Completion): each piece of it is due at
// a tick, a number of calls, never before the work that lies before it on its stream. Waiting lets the time
// pass.
//
// In checking mode every stream has a vector clock (Lamport; Mattern 1989): how much of each stream's work is
// known to be done before its next piece. Two uses of the same bytes, one of them a write, on different
// streams and with none known to be done before the other, are an error of stream order, whether or not it
// would have shown this time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/settings.h"

namespace nullcuda {

using StreamId =
    std::uint64_t;  ///< a cudaStream_t; 0 and 2 are the default streams, the legacy and the per-thread one

/// How much of each stream's work is done: stream to number of its pieces.
using Clock = std::unordered_map<StreamId, std::uint64_t>;

/// What lies before an event: where it was recorded.
struct Event {
  std::uint64_t due = 0;      ///< the tick by which it is done
  std::uint64_t capture = 0;  ///< the capture in which it was recorded; 0: none
  StreamId stream = 0;
  bool recorded = false;
  bool timed = true;
  int device = 0;
  double milliseconds = 0;  ///< host time when it was recorded
  Clock clock;              ///< of the capture in which it was recorded; of no capture: in checking mode
};

/// Bytes that a piece of work reads or writes.
struct Use {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  bool writes = false;
};

/// How a thread takes captures, as cudaStreamCaptureMode.
enum class CaptureMode : std::uint8_t { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

struct Capture {
  std::uint64_t id = 0;
  StreamId origin = 0;
  CaptureMode mode = CaptureMode::kGlobal;
  std::uint64_t thread = 0;  ///< that began it
  bool invalid = false;      ///< somebody did what may not be done meanwhile
};

/// What a piece of work does to bytes, as far as somebody knows it.
using Effect = std::function<void()>;

/// A captured graph.
struct Graph {
  std::vector<Use> uses = {};        ///< of the work in it
  std::vector<Effect> effects = {};  ///< of that work, in its order: they come with each launch
  std::uint64_t nodes = 0;
};

/// All streams of a process. Any thread may call it. What returns an int returns a cudaError_t, 0 for
/// success; around captures these are what driver 580 was seen to answer.
class Streams {
 public:
  explicit Streams(const Settings& settings);

  StreamId create(int device, unsigned flags, int priority);
  /// Its work goes on, and a capture that began on it is gone.
  bool destroy(StreamId id);
  [[nodiscard]] int priority(StreamId id) const;
  [[nodiscard]] unsigned flags(StreamId id) const;
  [[nodiscard]] int device(StreamId id, int current) const;

  // ---- events ----
  Event* create_event(int device, bool timed);
  bool destroy_event(Event* event);
  int record(Event* event, StreamId id);
  int wait(StreamId id, const Event* event);
  /// Host time between two events.
  int elapsed(const Event* from, const Event* to, double& milliseconds) const;
  /// Whether all before the event is done, or all on the stream; the host knows it from then on.
  int query(const Event* event);
  int query(StreamId id);
  int synchronize(const Event* event);
  int synchronize(StreamId id);
  /// All streams, or those of one device and the default ones, which all devices have in common here.
  void synchronize_all(std::optional<int> device = std::nullopt);
  /// The same for a stream, for calls that wait of themselves: nothing is asked.
  void finish(StreamId id);

  // ---- work ----
  /// A piece of work on a stream; if that is captured, its effect is the graph's. Returns what is wrong with
  /// the order of it and earlier uses of the same bytes, "" if nothing; always "" without checking mode.
  std::string work(StreamId id, const std::vector<Use>& uses, const Effect& effect = {});
  /// Memory goes away: whatever used it is forgotten. Returns what is wrong if the host does not know that
  /// all of that is done, "" if nothing.
  std::string forget(std::uint64_t begin, std::uint64_t size);
  /// The same for memory that goes away in the order of a stream: nobody needs to wait for that.
  void forget_in_order(std::uint64_t begin, std::uint64_t size);

  // ---- captures ----
  /// 0 or the cudaError_t of the attempt.
  int begin_capture(StreamId id, CaptureMode mode);
  int end_capture(StreamId id, std::unique_ptr<Graph>& graph);
  /// The capture that a stream is part of; id 0: none.
  [[nodiscard]] Capture capture(StreamId id) const;
  [[nodiscard]] bool capturing() const { return capturing_.load(std::memory_order_acquire) != 0; }
  /// What calls that a capture may not be able to bear must ask first: 0, or the error that they end with,
  /// which also spoils the captures.
  int unsafe();
  /// The same for calls that no capture can bear, whatever its mode and the thread's.
  int forbidden();
  static CaptureMode exchange_mode(CaptureMode mode);

 private:
  struct Stream {
    int device = 0;
    unsigned flags = 0;
    int priority = 0;
    std::uint64_t due = 0;
    std::uint64_t pieces = 0;  ///< of work so far
    Clock clock = {};
    std::uint64_t capture = 0;  ///< the capture that it is part of; 0: none
    Clock captured = {};        ///< in it
  };
  struct Recording {
    Capture capture;
    Graph graph = {};
    Clock pieces = {};  ///< how much of each stream's work is in it
  };
  /// The last write of some bytes, and the reads since.
  struct Access {
    std::uint64_t end = 0;
    StreamId writer = 0;
    std::uint64_t written = 0;  ///< the number of the writing piece of its stream; 0: never
    Clock reads = {};
  };

  Stream* find(StreamId id);
  [[nodiscard]] const Stream* find(StreamId id) const;
  Recording* find_recording(std::uint64_t capture);
  std::uint64_t delay();
  [[nodiscard]] std::uint64_t now() const;
  void pass(std::uint64_t due);
  void begin_piece(Stream& stream, StreamId id);
  void note_due(const Stream& stream, StreamId id);
  Clock done_with(const Stream& stream, StreamId id) const;
  void join_blocking(Clock& clock) const;
  int look_at(const Event* event);
  int look_at(StreamId id);
  int join_capture(Stream& stream, StreamId id, const Event& event);
  int spoil(std::uint64_t capture, int error);
  bool spoil_by_legacy(StreamId id);
  Recording drop(std::uint64_t capture);
  int unsafe_now();
  std::string check(StreamId id, const Stream& stream, const Use& use);
  void split(std::uint64_t at);

  const Settings& settings_;
  mutable std::mutex mutex_;
  std::unordered_map<StreamId, Stream> streams_;
  Stream& legacy_;  ///< stream 0
  std::unordered_map<const Event*, std::unique_ptr<Event>> events_;
  std::map<std::uint64_t, Recording> captures_;
  std::atomic<std::size_t> capturing_ = 0;    ///< how many captures there are
  std::map<std::uint64_t, Access> accesses_;  ///< by their begin; they do not overlap
  Clock host_;                                ///< what the host knows to be done
  Clock gone_;                                ///< the clocks of streams that were destroyed
  Clock gone_blocking_;                       ///< of those that the legacy stream waits for
  std::uint64_t gone_due_ = 0;
  std::uint64_t blocking_due_ = 0;  ///< the last tick of all streams that the legacy one waits for
  StreamId next_stream_ = 0x7100000000000000ULL;
  std::uint64_t next_capture_ = 1;
  std::uint64_t passed_ = 0;  ///< ticks that waiting has let pass
  std::mt19937_64 random_;
};

}  // namespace nullcuda
