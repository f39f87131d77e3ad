#include "arena/lasting_blocks.h"

namespace stweaver {

LastingBlocks::LastingBlocks(const Memory& memory, const BlockTable& blocks, Tick born_by)
    : memory_(&memory) {
  blocks.for_each([&](const LivingBlock& block) {
    if (block.source == Source::kFallback || block.born > born_by) return;
    const Bytes offset = memory.offset_of(block.address);
    lasting_.push_back({offset, offset + block.rounded});
  });
  join(lasting_);
}

std::optional<Bytes> LastingBlocks::lowest_place(const Interval& region, Bytes size) const {
  Bytes place = region.lower;
  for (const Interval& block : lasting_) {
    if (overlaps(block, {place, place + size})) place = align_up(block.upper, memory_->page_size());
  }
  return !region.empty() && place + size <= region.upper ? std::optional(place) : std::nullopt;
}

std::vector<Interval> LastingBlocks::gaps_outside(const Interval& region) const {
  std::vector<Interval> pinned;
  for (const Interval& block : lasting_) {
    memory_->visit_extents(block, [&](const Interval& extent) {
      if (!overlaps(extent, region)) pinned.push_back(extent);
      return true;
    });
  }
  join(pinned);
  std::vector<Interval> gaps;
  auto block = lasting_.begin();
  for (const Interval& extent : pinned) {
    Bytes at = extent.lower;
    for (; block != lasting_.end() && block->lower < extent.upper; ++block) {
      if (at < block->lower) gaps.push_back({at, block->lower});
      at = std::max(at, block->upper);
    }
    if (at < extent.upper) gaps.push_back({at, extent.upper});
  }
  return gaps;
}

}  // namespace stweaver
