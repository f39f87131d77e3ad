// Places in the arena for what no plan governs.
#pragma once

#include <optional>

#include "runtime/arena.h"
#include "runtime/stream_order.h"
#include "runtime/window.h"

namespace stweaver {

/// An ordinary allocator that leaves no residue: memory is mapped in small extents, so that what is idle can
/// be given back however the blocks that stay are scattered.
///
/// A request takes the lowest gap that is large enough and needs no wait for another stream, so what lives
/// long comes to lie close together; failing that, memory is mapped where the least of it is missing
/// (window.h). Before more is mapped than ever, what is idle elsewhere is unmapped: addresses may have holes,
/// memory need not. Small requests have addresses of their own, where they pin no memory among the large
/// ones, as in PyTorch's small and large pools (c10/cuda/CUDACachingAllocator.cpp).
///
/// All of this happens outside of a range to `keep`, which a plan governs; it may be empty.
class FreeForm {
 public:
  /// Both must outlive this.
  FreeForm(Arena& arena, const StreamOrder& order) : arena_(&arena), order_(&order) {}

  /// Where `room` idle bytes begin that `lane` may use as things are.
  std::optional<Bytes> find(Bytes room, LaneId lane, const Interval& keep);

  /// Where `room` bytes may be had by mapping the least memory; nothing when no addresses are left.
  std::optional<Window> find_window(Bytes room, LaneId lane, const Interval& keep);

  /// Whether mapping so much would make it more than ever.
  [[nodiscard]] bool grows_beyond_ever(Bytes missing) const { return arena_->mapped() + missing > ceiling_; }

  /// Unmaps what is idle, but not in the window, if mapping what that lacks would make it more than ever and
  /// if it is worth a synchronization. By how many bytes it is going to be more than ever.
  Bytes make_room(const Window& window, const Interval& keep);

  /// Maps what the window lacks; where it begins. Nothing when the device has no memory.
  std::optional<Bytes> extend(const Window& window, const Interval& keep);

  /// There is no window, or no memory for it: not to be tried until retry(), or for a while.
  void pause(Tick now);

  /// A plan is followed from now on: what was mapped before it is no measure of what is needed beside it.
  void start_anew();

  [[nodiscard]] bool is_closed(Tick now) const { return now < closed_until_; }
  /// The device may have memory again, and what was scattered may be whole.
  void retry();

  /// Bytes that are idle outside of `keep`.
  [[nodiscard]] Bytes idle(const Interval& keep) const;

 private:
  [[nodiscard]] Interval region_of(Bytes room) const;
  [[nodiscard]] Interval with_some_ahead(const Window& window, const Interval& keep, Bytes extent) const;

  Arena* arena_;
  const StreamOrder* order_;
  Bytes ceiling_ = 0;    ///< what may be mapped before anything is unmapped for it
  Bytes scattered_ = 0;  ///< idle, but not in whole extents, when make_room() last looked outside its window
  Tick closed_until_ = 0;  ///< the device has no memory until then
};

}  // namespace stweaver
