// A plan made ready to be followed: what the run time looks up, worked out before the job needs it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plan/static_plan.h"
#include "runtime/layout.h"

namespace stweaver {

/// One slot in the order of its stream.
struct Entry {
  Bytes size = 0;
  std::uint32_t slot = 0;
  bool of_any_size = false;  ///< sizes of this position differ from step to step
  std::uint8_t length = 0;   ///< Slot::length
  std::uint8_t power = 0;    ///< Slot::power
  Bytes tile = 0;            ///< Slot::tile
  bool planned = false;      ///< has a place in the arena
};

/// The slots of one stream, in order: those of the prologue, then those of the step that repeats.
struct PlannedStream {
  Stream stream = 0;  ///< its handle when it was recorded; another process has others
  std::vector<Entry> entries;
  std::size_t prologue = 0;  ///< entries before the step

  /// A place in the order, and a hash of the kAnchor sizes up to and with it.
  struct Anchor {
    std::uint64_t hash = 0;
    std::uint32_t entry = 0;
  };
  std::vector<Anchor> anchors;  ///< ordered by hash, then by entry
};

/// So many sizes in a row say where in the step the job is, unless the step repeats them. What half and twice
/// as many do is in docs/results/replays.md, "The rules".
inline constexpr std::size_t kAnchor = 8;

/// The last kAnchor sizes. Every request adds one, few ask for their hash.
class SizeTrail {
 public:
  void add(Bytes size) { sizes_[count_++ % kAnchor] = size; }

  /// Of the sizes rounded up to `alignment`; nothing before there are enough.
  [[nodiscard]] std::optional<std::uint64_t> hash(Bytes alignment) const {
    if (count_ < kAnchor) return std::nullopt;
    std::uint64_t hash = 1;
    for (std::size_t i = 0; i < kAnchor; ++i) {
      const Bytes size = align_up(sizes_[(count_ + i) % kAnchor], alignment);
      hash = mix_hash(hash, static_cast<std::uint64_t>(size));
    }
    return hash;
  }

  void clear() { *this = {}; }

 private:
  std::array<Bytes, kAnchor> sizes_ = {};
  std::size_t count_ = 0;
};

/// Immutable; many threads may read it.
class PlanIndex {
 public:
  /// The plan must be one that read_plan() or synthesize() returned. Error when its alignment is no multiple
  /// of kAlignment: tensors need it.
  explicit PlanIndex(Plan plan);

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] const std::vector<PlannedStream>& streams() const { return streams_; }
  /// The most slots alive at one time, so that tables can be made large enough.
  [[nodiscard]] std::int64_t most_alive() const { return most_alive_; }
  /// Bytes of the slots that live when a slot's request comes; of what repeats, when it comes again.
  [[nodiscard]] Bytes alive_before(std::size_t slot) const {
    const std::size_t before = slot < plan_.prologue ? 0 : plan_.slots.size() - plan_.prologue;
    return living_[before + slot].bytes - plan_.slots[slot].size;
  }
  /// How many lengths the sizes of slots follow, at least one.
  [[nodiscard]] std::size_t lengths() const { return lengths_; }
  /// Slots of a step that have a place.
  [[nodiscard]] std::int64_t planned_in_step() const { return planned_in_step_; }
  /// The arena, and what slots take of gaps.
  [[nodiscard]] Bytes planned_bytes() const { return planned_bytes_; }
  /// Where in the process a slot lies that has its place in a gap (Plan::in_gaps); empty for all others.
  [[nodiscard]] const Interval& gap_of(std::size_t slot) const { return gaps_[slot]; }
  /// Where slots lie, as planned.
  [[nodiscard]] const Layout& layout() const { return layout_; }

 private:
  [[nodiscard]] bool has_place(std::size_t slot) const {
    return plan_.slots[slot].offset != kUnplanned || !gaps_[slot].empty();
  }
  void sort_by_stream();
  void find_anchors(PlannedStream& stream) const;
  void count();

  const Plan plan_;
  const Layout layout_;
  const Bytes planned_bytes_;
  const std::vector<LivingSlots> living_;  ///< as living_at_births()
  std::vector<Interval> gaps_;             ///< by slot
  std::vector<PlannedStream> streams_;
  std::size_t lengths_ = 1;
  std::int64_t most_alive_ = 0;
  std::int64_t planned_in_step_ = 0;
};

}  // namespace stweaver
