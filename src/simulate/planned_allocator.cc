#include "simulate/planned_allocator.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include "plan/gap_search.h"

namespace stweaver {
namespace {

/// Arena addresses begin here, above all that the caching allocator uses.
constexpr Address kArenaBase = Address{1} << 63U;
/// How far ahead a request looks for its slot: a few slots while sizes vary, where many look alike, and
/// farther for a slot of one size.
constexpr std::size_t kNear = 5;
constexpr std::size_t kFar = 256;
/// By so much may a request's share of its slot differ from the last one's: sizes are rounded, and not all
/// are proportional to the sequence length.
constexpr double kSameShare = 0.01;

double share_of(const Slot& slot, Bytes size) {
  return static_cast<double>(size) / static_cast<double>(slot.size);
}

/// What the arena leaves of a device for the fallback, which wants a byte at least.
Bytes left_of(Bytes capacity, const Plan& plan) {
  if (plan.arena > capacity)
    fail("the arena of ", plan.arena, " bytes does not fit on a device of ", capacity, " bytes");
  return std::max<Bytes>(capacity - plan.arena, 1);
}

}  // namespace

PlannedAllocator::PlannedAllocator(const Plan& plan, std::vector<RequestId> steps,
                                   const AllocatorSettings& fallback, Bytes capacity)
    : plan_(plan),
      steps_(std::move(steps)),
      fallback_(fallback, left_of(capacity, plan)),
      one_stream_(std::all_of(plan.slots.begin(), plan.slots.end(), [&plan](const Slot& slot) {
        return slot.stream == plan.slots.front().stream;
      })) {}

std::optional<Address> PlannedAllocator::allocate(Bytes size, Stream stream, Pool pool) {
  begin_step_if_due();
  ++requests_;
  const std::optional<Bytes> offset = find_place({size, stream, pool});
  std::optional<Address> address;
  if (offset) {
    ++hits_;
    alive_[*offset] = {*offset + size, size};
    requested_ += size;
    allocated_ += align_up(size, plan_.alignment);
    address = kArenaBase + static_cast<Address>(*offset);
  } else {
    ++misses_;
    address = fallback_.allocate(size, stream, pool);
  }
  const AllocatorStatistics now = statistics();
  requested_peak_ = now.requested_peak;
  allocated_peak_ = now.allocated_peak;
  return address;
}

void PlannedAllocator::free(Address address) {
  if (address < kArenaBase) return fallback_.free(address);
  const auto block = alive_.find(static_cast<Bytes>(address - kArenaBase));
  if (block == alive_.end()) fail("the arena has no block at offset ", address - kArenaBase);
  requested_ -= block->second.requested;
  allocated_ -= align_up(block->second.requested, plan_.alignment);
  alive_.erase(block);
}

AllocatorStatistics PlannedAllocator::statistics() const {
  AllocatorStatistics all = fallback_.statistics();
  all.reserved += plan_.arena;
  all.reserved_peak += plan_.arena;
  all.allocated += allocated_;
  all.allocated_peak = std::max(allocated_peak_, all.allocated);
  all.requested += requested_;
  all.requested_peak = std::max(requested_peak_, all.requested);
  all.segments += plan_.arena > 0 ? 1 : 0;
  return all;
}

/// Where in the arena the request goes; nothing when it is the fallback's. One of a private pool is the
/// fallback's anyway, but takes its turn among the slots.
std::optional<Bytes> PlannedAllocator::find_place(const Wish& wish) {
  const std::optional<std::size_t> number = match(wish);
  if (wish.size == 0 || wish.pool != 0) return std::nullopt;
  if (number) {
    const Slot& slot = plan_.slots[*number];
    if (slot.offset != kUnplanned && wish.size <= slot.size && is_free(slot.offset, wish.size))
      return slot.offset;
  }
  const bool knows_stream = one_stream_ && !plan_.slots.empty() && plan_.slots.front().stream == wish.stream;
  return knows_stream ? find_idle(wish.size) : std::nullopt;
}

/// The prologue is followed once; every step that begins after it starts at the step's first slot. What the
/// fallback holds idle then goes back to the device: it was taken for requests that may never come again.
void PlannedAllocator::begin_step_if_due() {
  while (next_step_ < steps_.size() && steps_[next_step_] <= requests_) {
    if (steps_[next_step_++] < plan_.prologue) continue;
    cursor_ = plan_.prologue;
    skipped_to_.reset();
    fallback_.empty_cache();
  }
}

/// Where the search for a slot ends: the prologue does not reach into the step.
std::size_t PlannedAllocator::part_end() const {
  return cursor_ < plan_.prologue ? plan_.prologue : plan_.slots.size();
}

/// Whether the request looks like the one the slot was made for. It may still be too large for it.
bool PlannedAllocator::corresponds(const Slot& slot, const Wish& wish) const {
  if (slot.stream != wish.stream || (wish.pool != 0 && slot.offset != kUnplanned)) return false;
  if (!slot.varying) return wish.size <= slot.size && slot.size - wish.size < plan_.alignment;
  return std::abs(share_of(slot, wish.size) - share_) <= kSameShare * share_;
}

/// The slot that the request stands for. The next one in order is sure; so is the one behind a skip, because
/// then two requests in a row agree. Any other is a skip, and only tried: the search does not move on yet.
std::optional<std::size_t> PlannedAllocator::match(const Wish& wish) {
  if (cursor_ >= part_end()) return std::nullopt;
  const Slot& next = plan_.slots[cursor_];
  const bool same_stream = next.stream == wish.stream;
  // What moves on its own can have any size.
  if (next.varying && next.offset == kUnplanned && same_stream) return go_on_behind(cursor_);
  if (find_slot(cursor_, 1, wish, true)) return go_on_behind(cursor_);
  if (skipped_to_) {
    if (const auto found = find_slot(*skipped_to_, kNear, wish, true)) return go_on_behind(*found);
  }
  if (const auto found = find_slot(cursor_, kNear, wish, true)) return try_skip(*found);
  if (next.varying && same_stream && wish.pool == 0) {
    share_ = share_of(next, wish.size);  // a micro-batch of another length begins
    return go_on_behind(cursor_);
  }
  if (const auto found = find_slot(cursor_, kFar, wish, false)) return try_skip(*found);
  return std::nullopt;
}

/// The first of the `reach` slots from `from` on that the request corresponds to.
std::optional<std::size_t> PlannedAllocator::find_slot(std::size_t from, std::size_t reach, const Wish& wish,
                                                       bool varying) const {
  for (std::size_t i = from; i < std::min(part_end(), from + reach); ++i) {
    const Slot& slot = plan_.slots[i];
    if ((varying || !slot.varying) && corresponds(slot, wish)) return i;
  }
  return std::nullopt;
}

std::size_t PlannedAllocator::go_on_behind(std::size_t slot) {
  cursor_ = slot + 1;
  skipped_to_.reset();
  return slot;
}

std::size_t PlannedAllocator::try_skip(std::size_t slot) {
  skipped_to_ = slot + 1;
  return slot;
}

/// The smallest gap between living blocks that is large enough, at the alignment.
std::optional<Bytes> PlannedAllocator::find_idle(Bytes size) const {
  GapSearch search(align_up(size, plan_.alignment), Fit::kBest);
  for (const auto& [offset, block] : alive_) {
    if (search.show(offset, align_up(block.end, plan_.alignment))) break;
  }
  return search.offset() <= plan_.arena - size ? std::optional(search.offset()) : std::nullopt;
}

bool PlannedAllocator::is_free(Bytes offset, Bytes size) const {
  const auto after = alive_.lower_bound(offset);
  if (after != alive_.end() && after->first < offset + size) return false;
  return after == alive_.begin() || std::prev(after)->second.end <= offset;
}

}  // namespace stweaver
