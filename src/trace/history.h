// What an allocator wrote down while it was watched, and the trace that can be worked out from it.
//
// This is the part of reading a snapshot that knows how PyTorch's allocator behaves; how the facts were
// written in a file is the affair of snapshot.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/model.h"

namespace stweaver {

/// One entry of the allocator's ring buffer (TraceEntry in c10/cuda/CUDACachingAllocator.h).
struct HistoryEntry {
  enum class Action : std::uint8_t {
    kAlloc,
    kFreeRequested,  ///< the program let go of it
    kFreeCompleted,  ///< the memory may be used again
    kSegmentGrow,    ///< segment_alloc, segment_map
    kSegmentShrink,  ///< segment_free, segment_unmap
    kOom,
    kOther,
  };
  static constexpr std::uint32_t kNoPool = UINT32_MAX;
  static constexpr std::int64_t kNoMicros = INT64_MIN;

  Action action = Action::kOther;
  std::uint32_t text = 0;    ///< index into DeviceHistory::texts of what the job said it was doing
  Pool pool = kNoPool;       ///< kNoPool before torch 2.12
  std::int64_t address = 0;  ///< of a kOom: the bytes that the device had left
  Bytes size = 0;            ///< bytes asked for; of a segment: bytes gained or lost
  std::int64_t micros = kNoMicros;
  Stream stream = 0;
  std::uint32_t site = 0;  ///< of a kAlloc: index into DeviceHistory::sites
};

/// A block in use at the end of recording.
struct HistoryBlock {
  std::int64_t address = 0;
  Bytes size = 0;        ///< bytes asked for
  bool pending = false;  ///< let go of, but other streams still use it
};

/// A segment the allocator held at the end of recording.
struct HistorySegment {
  std::int64_t address = 0;
  Bytes size = 0;
  Stream stream = 0;
  Pool pool = 0;
  std::vector<HistoryBlock> blocks;
};

/// The beginning or the end of a range that a profiler saw.
struct HistoryAnnotation {
  std::string label;
  bool start = true;
  std::int64_t micros = 0;
};

/// "So many allocations and frees had been made when `label` began."
struct HistoryMarker {
  std::int64_t allocations = 0;
  std::int64_t frees = 0;
  std::string label;
};

/// Everything known about one device. Addresses and sizes are not negative, and their sums fit.
struct DeviceHistory {
  std::string name;
  int device = 0;
  std::string settings;
  std::vector<std::string> texts = {""};
  std::vector<std::string> sites = {""};  ///< lines of code; the first is none
  std::vector<HistoryEntry> entries;
  std::vector<HistorySegment> segments;
  std::vector<HistoryAnnotation> annotations;
  std::vector<HistoryMarker> markers;
};

/// The trace behind a history.
///
/// - What is freed or still in use without having been allocated was there before recording.
/// - Where completions are not recorded, a free_requested is the end, unless the block is pending in the end.
/// - A free_requested directly followed by its free_completed is one event, else each is one.
/// - Recording may have been off for a while. Then an allocation can come where something else is still in
///   use, or something in use can turn out to be gone when its segment goes or at the end: its free is set
///   just before that, as an event. Error when the history holds no frees at all (skip_actions), because no
///   lifespan is known then.
Trace reconstruct(const DeviceHistory& history);

}  // namespace stweaver
