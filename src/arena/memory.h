// The memory behind the arena, and who has it: the only caller of map and unmap.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "arena/extent_table.h"
#include "arena/free_space.h"
#include "arena/policy.h"
#include "arena/stream_order.h"
#include "device/device.h"

namespace stweaver {

/// What the device did for an arena.
struct MappingStatistics {
  std::int64_t maps = 0;         ///< calls to put memory behind addresses
  std::int64_t unmaps = 0;       ///< calls to take it away
  std::int64_t idle_waits = 0;   ///< of the host for work that used idle memory, before it was taken away
  std::int64_t nanoseconds = 0;  ///< that all of them took
};

/// The parts of the arena's addresses.
enum class Region : std::uint8_t {
  kPlanned,  ///< what plans govern
  kLarge,    ///< unplanned requests, by size
  kMedium,
  kSmall,
};
inline constexpr std::size_t kRegions = 4;

/// Addresses are plenty, memory follows demand. The arena is several times the device's memory in addresses,
/// reserved once. Memory is mapped in *extents* where a request is about to lie and none is, and only there.
///
/// The budget is the most that was ever in use, and a little slack; what may be held, if that is more. Before
/// more is mapped than that, idle extents elsewhere are unmapped, so that memory moves to where it is needed;
/// only when too little is idle does the total grow. Extents have any size in whole pages, because a driver
/// call costs the same for 2 MiB as for 256 (docs/results/driver.md).
///
/// What has memory and is in nobody's use is in `free_space`.
class Memory {
 public:
  /// All must outlive this.
  Memory(Device& device, StreamOrder& order, const ArenaPolicy& policy)
      : device_(&device), order_(&order), policy_(&policy) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory(Memory&&) = delete;
  Memory& operator=(Memory&&) = delete;
  ~Memory();

  /// Bytes of addresses, reserved when first needed. 0 when that fails or the device cannot map.
  Bytes addresses() {
    (void)take_addresses();
    return addresses_;
  }
  /// Empty without addresses. Once they were refused only addresses() asks for them again: every request
  /// needs a region, and to ask takes longer than all else.
  Interval region(Region which);

  /// Puts memory behind all of `range`; what is new is idle, in extents of `most` bytes at most. While the
  /// budget allows it, whole blocks of `block` bytes inside `within` are mapped at once, in place of the
  /// pages that are lacking. False when the device has not enough, even with all that is idle: what takes
  /// several extents and is seen to be too much has none mapped.
  bool back(const Interval& range, const Interval& within, Bytes block, Bytes most);

  /// Reclaims idle extents elsewhere until what `range` lacks fits into the budget. Whether it does.
  bool make_room(const Interval& range);

  /// What may be mapped when so much is in use, or as much as ever was. More is only where too little was
  /// idle, or in a range that is spared, as far as it was held before.
  [[nodiscard]] Bytes budget(Bytes in_use = 0) const;

  /// So much may be mapped before any memory is moved, or what the device turns out to have, if that is less;
  /// 0 for no more than is used, and slack.
  void hold(Bytes most) { hold_ = most; }
  /// Whether so much more may be mapped, wherever idle memory lies.
  [[nodiscard]] bool may_hold(Bytes more) const { return mapped_ + more <= hold_; }

  /// Whether taking so many bytes into use would be more than was ever in use.
  [[nodiscard]] bool is_new_peak(Bytes more) const { return in_use() + more > most_in_use_; }

  /// Unmaps idle extents outside of `keep` until that is `enough` bytes: those first that no work uses any
  /// more, and then, behind a wait for that work alone, those freed longest ago. Of equals those of large
  /// requests come first, the largest before all, and then the highest. The bytes unmapped.
  Bytes reclaim(Bytes enough, const Interval& keep = {});
  /// All that is idle outside of `keep`.
  Bytes reclaim_all(const Interval& keep = {}) { return reclaim(kAll, keep); }

  /// Idle memory in this range is reclaimed last. Where `all` of it is used in each step, as much as it lacks
  /// now may be mapped without moving any, as far as twice the slack reaches, or what was mapped at most.
  void spare(const Interval& range, bool all = false) {
    spared_ = range;
    whole_ = all ? mapped_ + missing(range) : 0;
  }

  /// Takes an idle range into use.
  void take(Bytes offset, Bytes size) {
    free_space.take(offset, size);
    note_use({offset, offset + size});
  }
  /// The same, if it is idle and `allowed(LastUse)` accepts every piece of it. Whether it did.
  template <typename Allowed>
  bool take_if(Bytes offset, Bytes size, Allowed allowed) {
    if (!free_space.take_if(offset, size, allowed)) return false;
    note_use({offset, offset + size});
    return true;
  }
  /// Ends the use of a range.
  void give(Bytes offset, Bytes size, LastUse last) {
    free_space.give(offset, size, last);
    const Interval noted = common({offset, offset + size}, large());
    if (noted.empty()) return;
    vacant_.give(noted.lower, noted.length(), {});
    note_end_of_use(noted, last);
  }

  /// How many bytes of `range` have no memory.
  [[nodiscard]] Bytes missing(const Interval& range) const;
  /// Whether no block is in `range`: what of it has memory is idle.
  [[nodiscard]] bool is_vacant(const Interval& range) const;
  /// Calls visit(Interval) for each extent that overlaps the range, by offset, until it returns false.
  template <typename Visit>
  void visit_extents(const Interval& range, Visit visit) const {
    extents_.visit(range, [&](std::size_t number) { return visit(extents_[number].range); });
  }
  /// The same by number, which tells ends_of() of extents; `from` is as in ExtentTable::visit().
  template <typename Visit>
  void visit_numbers(const Interval& range, std::size_t& from, Visit visit) const {
    extents_.visit(range, visit, from);
  }
  [[nodiscard]] const Interval& extent(std::size_t number) const { return extents_[number].range; }

  /// Calls visit(Interval), by offset, with each stretch of a region's addresses that is in no block, with
  /// memory or without, and has `size` bytes at least.
  template <typename Visit>
  void each_vacant(Bytes size, Region which, Visit visit);
  /// What a block at an idle place that has memory would leave idle of extents that can move as things are.
  [[nodiscard]] Bytes pinned_by(const Interval& place) const;

  /// What a block in the region of large requests would take beside its own bytes.
  struct Ends {
    Bytes lacking = 0;   ///< bytes without memory of the pages that it begins and ends in
    Bytes unfilled = 0;  ///< how many pages those are in
    Bytes stranded = 0;  ///< what it would leave idle of extents, and all else of shared ones above a block
  };
  /// `first` and `last`: the numbers of the extents that it begins and ends in; kNoExtent where no memory is.
  [[nodiscard]] Ends ends_of(const Interval& place, std::size_t first, std::size_t last) const;

  /// Where at the ends of an idle range that has memory a block of `size` bytes would strand the least, if
  /// less than `least`, which becomes that. `from`: 0, or of a range that begins no higher.
  [[nodiscard]] std::optional<Bytes> fit_at_ends(const Interval& idle, Bytes size, Bytes& least,
                                                 std::size_t& from) const;

  /// Whether the address is one of the arena's. May be asked by any thread at any time.
  [[nodiscard]] bool contains(std::uintptr_t address) const {
    const auto addresses = static_cast<std::uintptr_t>(addresses_.load(std::memory_order_acquire));
    return address - base_.load(std::memory_order_relaxed) < addresses;
  }
  [[nodiscard]] std::uintptr_t address_of(Bytes offset) const {
    return base_ + static_cast<std::uintptr_t>(offset);
  }
  [[nodiscard]] Bytes offset_of(std::uintptr_t address) const { return static_cast<Bytes>(address - base_); }

  [[nodiscard]] Bytes mapped() const { return mapped_; }
  [[nodiscard]] Bytes in_use() const { return mapped_ - free_space.idle(); }
  /// Where memory is: first address and size in bytes of each extent, by address.
  [[nodiscard]] std::vector<std::pair<std::uintptr_t, Bytes>> extents() const;
  [[nodiscard]] Bytes page_size() const { return device_->page_size(); }
  [[nodiscard]] Interval whole_pages(const Interval& range) const { return aligned(range, page_size()); }
  [[nodiscard]] const MappingStatistics& statistics() const { return statistics_; }

  FreeSpace free_space;

 private:
  static constexpr Bytes kAll = std::numeric_limits<Bytes>::max();

  struct Idle {
    std::size_t extent = 0;
    Bytes size = 0;
    Bytes exact = 0;  ///< its size, if it is as large as the request that it was made for
    bool is_spared = false;
    Tick freed = 0;  ///< the last of it that work may still use; 0 when none does
  };

  static Interval aligned(const Interval& range, Bytes unit) {
    return {range.lower / unit * unit, align_up(range.upper, unit)};
  }
  bool take_addresses();
  [[nodiscard]] const Interval& large() const { return regions_[static_cast<std::size_t>(Region::kLarge)]; }
  [[nodiscard]] Bytes limit(Bytes in_use) const;
  void note_use(const Interval& range) {
    most_in_use_ = std::max(most_in_use_, in_use());
    const Interval noted = common(range, large());
    if (noted.empty()) return;
    vacant_.take(noted.lower, noted.length());
    note_begin_of_use(noted);
  }
  void note_begin_of_use(const Interval& range);
  [[nodiscard]] Interval with_blocks(const Interval& pages, const Interval& within, Bytes block,
                                     Bytes room) const;
  [[nodiscard]] Bytes stranded(const Extent& extent, const Interval& place) const;
  [[nodiscard]] std::vector<Interval> lacking(const Interval& range) const;
  bool map_all(const Interval& pages, const Interval& cuts, Bytes most);
  bool map_extent(const Interval& range);
  bool unmap_extent(const Interval& extent);
  bool await_work_on(const Extent& extent);
  [[nodiscard]] bool is_noted(const Extent& extent) const {
    return large().lower <= extent.range.lower && extent.range.upper <= large().upper;
  }
  [[nodiscard]] bool is_idle(const Extent& extent) const {
    return is_noted(extent) ? extent.used == 0
                            : free_space.is_idle(extent.range.lower, extent.range.length());
  }
  void note_end_of_use(const Interval& range, LastUse last);
  /// Calls visit(LastUse) with what last used each part of an idle extent, until it returns false. Whether
  /// all did.
  template <typename Visit>
  bool each_last_use(const Extent& extent, Visit visit) const;
  void find_idle_extents(const Interval& keep);
  [[nodiscard]] std::byte* pointer(Bytes offset) const;
  template <typename Call>
  bool timed(std::int64_t& calls, Call call);

  Device* device_;
  StreamOrder* order_;
  const ArenaPolicy* policy_;
  std::atomic<std::uintptr_t> base_{0};
  std::atomic<Bytes> addresses_{0};  ///< written once, after base_
  bool were_refused_ = false;        ///< addresses, or the device cannot map
  Bytes mapped_ = 0;
  Bytes most_mapped_ = 0;
  Bytes most_in_use_ = 0;
  Bytes hold_ = 0;
  Interval spared_;
  Bytes whole_ = 0;  ///< what would be mapped with all of that, where all is used
  MappingStatistics statistics_;
  std::array<Interval, kRegions> regions_;
  ExtentTable extents_;
  FreeSpace vacant_;        ///< addresses of the region of large requests that are in no block
  std::vector<Idle> idle_;  ///< found last; kept so that looking needs no heap
};

template <typename Visit>
void Memory::each_vacant(Bytes size, Region which, Visit visit) {
  const Interval all = region(which);
  if (which == Region::kLarge) {
    vacant_.each_fitting(size, all, AnyStream{}, [&](const Interval& stretch) {
      visit(stretch);
      return true;
    });
    return;
  }
  // The others have few extents: blocks are what lies between their gaps.
  Bytes begin = all.lower;
  const auto take = [&](const Interval& blocks) {
    if (blocks.empty()) return;
    if (blocks.lower - begin >= size) visit(Interval{begin, blocks.lower});
    begin = blocks.upper;
  };
  visit_extents(all, [&](const Interval& extent) {
    Bytes at = extent.lower;
    (void)free_space.visit(extent.lower, extent.length(), [&](const Gap& gap) {
      take({at, std::min(gap.offset, extent.upper)});
      at = std::max(at, gap.end);
      return true;
    });
    take({at, extent.upper});
    return true;
  });
  take({all.upper, all.upper + 1});
}

}  // namespace stweaver
