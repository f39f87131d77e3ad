// The books of an allocator: what lives, what was served, what is held, and what is written down of it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "arena/block_table.h"
#include "runtime/meters.h"
#include "runtime/recorder.h"
#include "runtime/statistics.h"

namespace stweaver {

/// Is told of everything and asks nothing of the allocator's other parts.
class Accounts {
 public:
  /// A block was granted, for the handle `stream` of pool `pool`; `why` it has no planned place, if it has
  /// none. Sets what the block has to remember.
  void add(LivingBlock& block, Stream stream, Pool pool, Unplanned why);
  /// The program let go of a block. What was freed in the arena counts as allocated until release().
  void remove(const LivingBlock& block);
  /// The use of a range of the arena has ended.
  void release(Bytes size, RequestId recorded) {
    if (recorder_ && recorded != kNotRecorded) recorder_->free(recorded);
    statistics_.allocated -= size;
  }
  /// A freed block, which remove() was told of, waits for other streams.
  void drop(RequestId recorded) {
    if (recorder_ && recorded != kNotRecorded) recorder_->drop(recorded);
  }

  void note_arena(Bytes mapped) { note_held(mapped, statistics_.fallback_reserved); }
  void note_fallback(Bytes reserved) { note_held(statistics_.arena, reserved); }
  void note_out_of_memory(Bytes size, Bytes device_free);
  void note_nanoseconds(std::int64_t spent) { nanoseconds_ += spent; }
  void note_plan();
  void note_reclaim() { ++statistics_.reclaims; }
  void note_refusal() { ++statistics_.refusals; }

  void end_step(const MappingStatistics& mapping);

  /// Writes every request down from now on; nullptr: no more. Blocks that live are the caller's to add, then
  /// begin_record() is.
  void record(std::shared_ptr<Recorder> recorder) { recorder_ = std::move(recorder); }
  /// What the recorder calls a block that lives when recording begins.
  [[nodiscard]] RequestId add_before(const LivingBlock& block, Stream stream) const {
    return recorder_ ? recorder_->add_before(block.size, stream) : kNotRecorded;
  }
  void begin_record() const {
    if (recorder_) recorder_->reserve(statistics_.reserved());
  }
  [[nodiscard]] Trace recorded() const { return recorder_ ? recorder_->trace() : Trace(); }

  /// All but what only other parts know.
  [[nodiscard]] RuntimeStatistics statistics(const MappingStatistics& mapping) const;
  [[nodiscard]] Meters meters() const { return tally_.meters(); }
  void reset_peaks() { tally_.reset_peaks(statistics_.reserved()); }
  void reset_accumulated() { tally_.reset_accumulated(); }
  [[nodiscard]] Bytes requested() const { return statistics_.requested; }
  /// Whether more was reserved in the last step than ever before.
  [[nodiscard]] bool peak_was_raised() const { return peak_was_raised_; }
  /// Whether the driver was called for memory in the last step.
  [[nodiscard]] bool memory_moved() const { return statistics_.last_step.driver_calls > 0; }
  [[nodiscard]] const Served& last_step() const { return statistics_.last_step.served; }

 private:
  Bytes& living_of(Source source);
  void note_held(Bytes arena, Bytes fallback);
  [[nodiscard]] Peaks now() const;
  void count_served(const LivingBlock& block, Unplanned why);
  [[nodiscard]] std::int64_t spent(const MappingStatistics& mapping) const {
    return nanoseconds_ + mapping.nanoseconds;
  }

  RuntimeStatistics statistics_;
  std::int64_t nanoseconds_ = 0;   ///< without the driver's
  Served served_before_;           ///< when the step began, as all that follows
  std::int64_t spent_before_ = 0;  ///< the driver's too
  std::int64_t calls_before_ = 0;
  Bytes peak_before_ = 0;  ///< of what was reserved
  bool peak_was_raised_ = false;
  Tally tally_;
  std::shared_ptr<Recorder> recorder_;
};

}  // namespace stweaver
