// Where unplanned requests go.
#pragma once

#include <optional>

#include "arena/memory.h"

namespace stweaver {

/// An allocator that leaves little idle memory behind, by size:
///
/// - Small requests take the lowest gap that is large enough, medium ones the smallest. Each class has
///   addresses of its own, so that a small block pins no memory among large ones.
/// - Large requests take the gap in which they strand the fewest bytes, and none where that is more than the
///   driver calls for a new place are worth, or a page. An idle extent that a request takes a part of cannot
///   move for as long as the request lives; so extents keep the sizes of the requests that they were made
///   for, and idle ones can be moved whole.
///
/// Requests that find no gap go where the least memory is missing, large ones where they keep the least from
/// moving and driver calls are few. Gaps need no wait for another stream.
class Placer {
 public:
  /// All must outlive this.
  Placer(Memory& memory, const StreamOrder& order, const ArenaPolicy& policy)
      : memory_(&memory), order_(&order), policy_(&policy) {}

  /// Where `size` idle bytes begin that `stream` may use as things are.
  std::optional<Bytes> find(Bytes size, StreamIndex stream);

  /// Whether a request may take an idle place, by what would not move for as long as it lives.
  [[nodiscard]] bool may_take(const Interval& place) const;

  /// Where `size` bytes would cost the least; nothing when no addresses are left.
  std::optional<Interval> find_window(Bytes size, StreamIndex stream);

  /// Maps what a window lacks. False when the device has no memory.
  bool extend(const Interval& window);

 private:
  [[nodiscard]] Region region_of(Bytes size) const;
  [[nodiscard]] Bytes worth_of_calls(Bytes maps, Bytes lacking) const;
  [[nodiscard]] Bytes most_stranded(Bytes size) const;
  std::optional<Bytes> find_large(Bytes size, const Interval& region, const StreamOrder::Usable& usable);
  [[nodiscard]] std::optional<Interval> find_window_in(Bytes size, Region which, StreamIndex stream) const;

  Memory* memory_;
  const StreamOrder* order_;
  const ArenaPolicy* policy_;
};

}  // namespace stweaver
