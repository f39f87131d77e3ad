// What an allocator takes from its device and gives back, as PyTorch's snapshots tell it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "simulate/allocator.h"
#include "trace/model.h"

namespace stweaver {

/// The names of PyTorch: cudaMalloc and cudaFree, and pages of an expandable segment.
enum class SegmentAction : std::uint8_t { kAlloc, kFree, kMap, kUnmap };

struct SegmentChange {
  /// How many events came before it; kBeforeRecording for what requests of before recording need.
  Time time = 0;
  SegmentAction action = SegmentAction::kAlloc;
  Address address = 0;
  Bytes size = 0;
  Stream stream = 0;
  Pool pool = 0;
  bool small = false;  ///< of the small pool

  friend bool operator==(const SegmentChange&, const SegmentChange&) = default;
};

/// Whoever serves a trace says what time it is; whoever takes memory says so.
class SegmentLog {
 public:
  void set_time(Time now) { now_ = now; }
  /// `change` happens now.
  void note(SegmentChange change) {
    change.time = now_;
    changes_.push_back(change);
  }
  [[nodiscard]] std::vector<SegmentChange> take() { return std::exchange(changes_, {}); }

 private:
  Time now_ = kBeforeRecording;
  std::vector<SegmentChange> changes_;
};

}  // namespace stweaver
