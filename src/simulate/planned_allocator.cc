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

}  // namespace

PlannedAllocator::PlannedAllocator(const Plan& plan, std::vector<RequestId> steps,
                                   const AllocatorSettings& fallback, Bytes capacity)
    : plan_(plan),
      steps_(std::move(steps)),
      fallback_(fallback, std::max<Bytes>(capacity - plan.arena, 1)),
      one_stream_(std::all_of(plan.slots.begin(), plan.slots.end(), [&plan](const Slot& slot) {
        return slot.stream == plan.slots.front().stream;
      })) {}

std::optional<Address> PlannedAllocator::allocate(Bytes size, Stream stream, Pool pool) {
  begin_step_if_due();
  ++requests_;
  const std::optional<std::size_t> number = pool == 0 ? match(size, stream) : std::nullopt;
  const Slot* slot = number ? &plan_.slots[*number] : nullptr;
  std::optional<Address> address;
  Bytes offset = kUnplanned;
  if (slot != nullptr && slot->offset != kUnplanned && size <= slot->size && is_free(slot->offset, size)) {
    offset = slot->offset;
  } else if (pool == 0 && one_stream_) {
    offset = find_idle(size);
  }
  if (offset != kUnplanned && size > 0) {
    ++hits_;
    alive_[offset] = {offset + size, size};
    address = kArenaBase + static_cast<Address>(offset);
  } else {
    ++misses_;
    const Bytes before = fallback_.statistics().requested;
    address = fallback_.allocate(size, stream, pool);
    size = fallback_.statistics().requested - before;
  }
  requested_ += size;
  requested_peak_ = std::max(requested_peak_, requested_);
  return address;
}

void PlannedAllocator::free(Address address) {
  if (address < kArenaBase) {
    const Bytes before = fallback_.statistics().requested;
    fallback_.free(address);
    requested_ -= before - fallback_.statistics().requested;
    return;
  }
  const auto block = alive_.find(static_cast<Bytes>(address - kArenaBase));
  if (block == alive_.end()) fail("the arena has no block at offset ", address - kArenaBase);
  requested_ -= block->second.requested;
  alive_.erase(block);
}

AllocatorStatistics PlannedAllocator::statistics() const {
  AllocatorStatistics all = fallback_.statistics();
  all.reserved += plan_.arena;
  all.reserved_peak += plan_.arena;
  all.requested = requested_;
  all.requested_peak = requested_peak_;
  return all;
}

/// The prologue is followed once; every step that begins after it starts at the step's first slot. What the
/// fallback holds idle then goes back to the device: it was taken for requests that may never come again.
void PlannedAllocator::begin_step_if_due() {
  while (next_step_ < steps_.size() && steps_[next_step_] <= requests_) {
    if (steps_[next_step_++] < plan_.prologue) continue;
    cursor_ = plan_.prologue;
    fallback_.empty_cache();
  }
}

/// Where the search for a slot ends: the prologue does not reach into the step.
std::size_t PlannedAllocator::part_end() const {
  return cursor_ < plan_.prologue ? plan_.prologue : plan_.slots.size();
}

/// Whether the request looks like the one the slot was made for. It may still be too large for it.
bool PlannedAllocator::corresponds(const Slot& slot, Bytes size, Stream stream) const {
  if (slot.stream != stream) return false;
  if (!slot.varying) return size <= slot.size && slot.size - size < plan_.alignment;
  return std::abs(share_of(slot, size) - share_) <= kSameShare * share_;
}

std::optional<std::size_t> PlannedAllocator::match(Bytes size, Stream stream) {
  const std::size_t end = part_end();
  const auto take_within = [&](std::size_t reach, bool varying) -> std::optional<std::size_t> {
    for (std::size_t i = cursor_; i < std::min(end, cursor_ + reach); ++i) {
      const Slot& slot = plan_.slots[i];
      if ((slot.varying && !varying) || !corresponds(slot, size, stream)) continue;
      cursor_ = i + 1;
      return i;
    }
    return std::nullopt;
  };
  if (cursor_ >= end) return std::nullopt;
  const Slot& next = plan_.slots[cursor_];
  // A request that moves on its own can have any size.
  if (next.offset == kUnplanned && next.varying && next.stream == stream) return cursor_++;
  if (const auto near = take_within(kNear, true)) return near;
  if (next.varying && next.stream == stream) {
    // A micro-batch of another length begins.
    share_ = share_of(next, size);
    return cursor_++;
  }
  return take_within(kFar, false);
}

/// The smallest gap between living blocks that is large enough, at the alignment.
Bytes PlannedAllocator::find_idle(Bytes size) const {
  GapSearch search(align_up(size, plan_.alignment), Fit::kBest);
  for (const auto& [offset, block] : alive_) {
    if (search.show(offset, align_up(block.end, plan_.alignment))) break;
  }
  return search.offset() <= plan_.arena - size ? search.offset() : kUnplanned;
}

bool PlannedAllocator::is_free(Bytes offset, Bytes size) const {
  const auto after = alive_.lower_bound(offset);
  if (after != alive_.end() && after->first < offset + size) return false;
  return after == alive_.begin() || std::prev(after)->second.end <= offset;
}

}  // namespace stweaver
