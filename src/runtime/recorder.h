// Writes down what a live job asks one device's allocator for.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>

#include "arena/block_table.h"
#include "trace/trace.h"

namespace stweaver {

/// The trace of one device while it happens: in memory and, if wanted, also in a trace file that survives the
/// process (file_sink() says what may be at its path).
///
/// Called under the allocator's lock for every request, it lets the vectors of the trace grow and every 64
/// KiB and at every mark gives the file a write(2); nothing else. What goes wrong with the file ends the
/// file, which stays readable as far as it got, and nothing else: failure() tells. The one exception that
/// leaves it is std::bad_alloc, when the trace itself finds no memory; it is of no more use then. Not safe to
/// call from several threads at once.
class Recorder {
 public:
  struct Options {
    int device = 0;
    std::string settings = {};  ///< Trace::settings
    std::string path = {};      ///< of the trace file; empty for none
    /// Requests to keep, at 48 bytes each, 64 where timed: without step boundaries they would fill the host's
    /// memory.
    std::size_t most = std::size_t{1} << 22U;
    bool timed = false;  ///< whether the trace gets micros: helps to see steps that are not marked, and costs
                         ///< two looks at the clock per request
  };

  explicit Recorder(const Options& options);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  Recorder(Recorder&&) = delete;
  Recorder& operator=(Recorder&&) = delete;
  ~Recorder() { finish(); }

  /// Adds a request that is alive when recording begins. One that is found out after the first event counts
  /// as allocated now.
  RequestId add_before(Bytes size, Stream stream);

  /// A request that was granted: `size` bytes, before any rounding, >= 0. kNotRecorded once it is full.
  RequestId allocate(Bytes size, Stream stream, Pool pool);
  /// The program let go of it, other streams still use it. Nothing happens if it was let go of before.
  void drop(RequestId id);
  /// Its memory may be used again. Nothing happens if it was freed before.
  void free(RequestId id);

  /// Sets a label like "step 3" between two events and writes what there is to the file: a job that is killed
  /// loses at most the step it was in.
  void mark(const std::string& label);
  /// The allocators hold `bytes` of the device from now on; >= 0.
  void reserve(Bytes bytes);
  /// A request that failed, with `device_free` bytes left on the device.
  void out_of_memory(Bytes size, Bytes device_free);

  /// Ends the recording and its file; nothing is to be recorded after it. The destructor does it otherwise.
  void finish();

  /// Everything so far; valid (validate()) at any time, what is alive ends in kForever, and complete only
  /// once finish() was called. Changes with the next call: copy it under the lock that guards the recorder.
  [[nodiscard]] const Trace& trace() const { return trace_; }

  /// Whether there were too many requests: it has forgotten them, and its file has ended.
  [[nodiscard]] bool is_full() const { return is_full_; }

  /// Why nothing is written to the file any more, in one line; empty while all is well.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  RequestId add(const Request& request);
  std::int64_t end_event();
  template <typename Write>
  void to_file(const Write& write);

  Trace trace_;
  bool timed_;
  std::size_t most_;
  std::atomic<bool> is_full_{false};
  std::optional<TraceWriter> file_;
  std::string failure_;
};

}  // namespace stweaver
