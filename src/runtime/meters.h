// Living blocks as torch.cuda.memory_stats() counts them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/base.h"

namespace stweaver {

/// One quantity over time: PyTorch's Stat (c10/core/CachingDeviceAllocator.h).
struct Meter {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;  ///< all that was ever added
  std::int64_t freed = 0;      ///< all that was ever taken away
};

/// Blocks of one kind.
struct BlockMeters {
  Meter blocks;
  Meter bytes;      ///< after rounding
  Meter requested;  ///< bytes as asked for
};

/// By pool.
enum class SizeClass : std::uint8_t { kAll, kSmall, kLarge };

struct Meters {
  using Kinds = std::array<BlockMeters, 3>;  ///< by SizeClass
  Kinds arena;                               ///< blocks in the arena; without peaks
  Kinds served;                              ///< those and the fallback's
  Bytes reserved_peak = 0;                   ///< arena and fallback
};

/// Counts blocks as they come and go. It is asked at every request, so it keeps no more than Meters follow
/// from.
class Tally {
 public:
  /// A block of `size` bytes, `rounded` bytes long, in the arena or from the fallback.
  void add(Bytes size, Bytes rounded, bool in_arena) {
    const Amounts block = {1, rounded, size};
    const std::size_t pool = pool_of(rounded);
    came_[in_arena ? 1 : 0][pool] += block;
    living_[pool] += block;
    peaks_[pool + 1].raise(living_[pool]);
    peaks_[0].raise(living_[0] + living_[1]);
  }
  void remove(Bytes size, Bytes rounded, bool in_arena) {
    const std::size_t pool = pool_of(rounded);
    went_[in_arena ? 1 : 0][pool] += {1, rounded, size};
    living_[pool] += {-1, -rounded, -size};
  }
  void note_reserved(Bytes reserved) { reserved_peak_ = std::max(reserved_peak_, reserved); }

  /// Peaks are what is there now, `reserved` bytes held, until there is more.
  void reset_peaks(Bytes reserved) {
    reserved_peak_ = reserved;
    peaks_ = {living_[0] + living_[1], living_[0], living_[1]};
  }
  /// What came and went so far is forgotten.
  void reset_accumulated() {
    came_before_ = came_;
    went_before_ = went_;
  }

  [[nodiscard]] Meters meters() const {
    Meters meters;
    for (const std::size_t pool : {0U, 1U}) {
      for (const std::size_t kind : {std::size_t{0}, pool + 1}) {
        count(pool, true, meters.arena[kind]);
        for (const bool in_arena : {false, true}) count(pool, in_arena, meters.served[kind]);
      }
    }
    for (std::size_t kind = 0; kind < peaks_.size(); ++kind) {
      meters.served[kind].blocks.peak = peaks_[kind].blocks;
      meters.served[kind].bytes.peak = peaks_[kind].bytes;
      meters.served[kind].requested.peak = peaks_[kind].requested;
    }
    meters.reserved_peak = reserved_peak_;
    return meters;
  }

 private:
  struct Amounts {
    std::int64_t blocks = 0;
    Bytes bytes = 0;
    Bytes requested = 0;

    Amounts& operator+=(const Amounts& other) {
      blocks += other.blocks;
      bytes += other.bytes;
      requested += other.requested;
      return *this;
    }
    friend Amounts operator+(Amounts one, const Amounts& other) { return one += other; }
    void raise(const Amounts& other) {
      blocks = std::max(blocks, other.blocks);
      bytes = std::max(bytes, other.bytes);
      requested = std::max(requested, other.requested);
    }
  };

  using Table = std::array<std::array<Amounts, 2>, 2>;  ///< by whether the block is in the arena, and by pool

  static std::size_t pool_of(Bytes rounded) { return rounded <= kSmallSize ? 0 : 1; }

  /// Adds what one cell of the tables says.
  void count(std::size_t pool, bool in_arena, BlockMeters& to) const {
    const std::size_t where = in_arena ? 1 : 0;
    const auto add = [&](Meter& meter, auto amount) {
      const std::int64_t came = came_[where][pool].*amount;
      const std::int64_t went = went_[where][pool].*amount;
      meter.current += came - went;
      meter.allocated += came - came_before_[where][pool].*amount;
      meter.freed += went - went_before_[where][pool].*amount;
    };
    add(to.blocks, &Amounts::blocks);
    add(to.bytes, &Amounts::bytes);
    add(to.requested, &Amounts::requested);
  }

  Table came_;
  Table went_;
  Table came_before_;  ///< reset_accumulated()
  Table went_before_;
  std::array<Amounts, 2> living_;  ///< by pool
  std::array<Amounts, 3> peaks_;   ///< by SizeClass
  Bytes reserved_peak_ = 0;
};

}  // namespace stweaver
