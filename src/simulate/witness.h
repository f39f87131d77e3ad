// Watches whether blocks that live at the same time share memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulate/live_ranges.h"
#include "simulate/stamps.h"
#include "trace/model.h"

namespace stweaver {

/// How closely: by what was granted, and by what became of the memory.
struct Watch {
  bool ranges = false;                ///< every grant is compared with the blocks that live
  std::optional<Stamps> stamps = {};  ///< every block is stamped, and its stamp verified before its free
};

/// A block is corrupt when it was granted memory of a living block, lost some to a later one, or when its
/// stamp was overwritten. Each counts once.
class Witness {
 public:
  /// `trace` must outlive this.
  Witness(const Trace& trace, const Watch& watch);

  void granted(RequestId id, Address block);
  /// To be called before the block is freed, and at the end for all that live.
  void let_go(RequestId id, Address block);

  [[nodiscard]] std::int64_t corrupt_blocks() const { return corrupt_blocks_; }
  /// The first one, in one sentence; empty when there is none.
  [[nodiscard]] const std::string& first() const { return first_; }

 private:
  bool count(RequestId id);

  const Trace& trace_;
  Watch watch_;
  LiveRanges living_;
  std::vector<bool> corrupt_;  ///< by request
  std::int64_t corrupt_blocks_ = 0;
  std::string first_;
};

}  // namespace stweaver
