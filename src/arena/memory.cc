#include "arena/memory.h"

#include <algorithm>
#include <chrono>
#include <tuple>

namespace stweaver {
namespace {

/// Where each region ends in the addresses, in eighths: plans move on behind what outlives the plan before
/// them, and what one region holds no other does.
constexpr std::array<Bytes, kRegions> kEighths = {3, 6, 7, 8};
/// Where a process may not have as many addresses as it should, half of them are tried, down to so many sizes
/// of the device.
constexpr Bytes kLeastAddresses = 4;

/// Bytes in both.
Bytes shared(const Interval& a, const Interval& b) {
  return common(a, b).length();
}

}  // namespace

Memory::~Memory() {
  for (const Extent& extent : extents_) device_->unmap(pointer(extent.range.lower), extent.range.length());
  if (addresses_ > 0) device_->release(pointer(0), addresses_);
}

std::byte* Memory::pointer(Bytes offset) const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses of a device are numbers here
  return reinterpret_cast<std::byte*>(address_of(offset));
}

std::vector<std::pair<std::uintptr_t, Bytes>> Memory::extents() const {
  std::vector<std::pair<std::uintptr_t, Bytes>> all;
  all.reserve(extents_.size());
  for (const Extent& extent : extents_)
    all.emplace_back(address_of(extent.range.lower), extent.range.length());
  return all;
}

bool Memory::take_addresses() {
  if (addresses_ > 0) return true;
  were_refused_ = true;
  const Bytes page = page_size();
  if (page == 0) return false;
  const Bytes total = device_->memory().total;
  std::byte* base = nullptr;
  Bytes wanted = 0;
  for (Bytes sizes = policy_->addresses; base == nullptr && sizes >= kLeastAddresses; sizes /= 2) {
    wanted = align_up(sizes * total, page);
    base = device_->reserve(wanted);
  }
  if (base == nullptr) return false;
  base_ = reinterpret_cast<std::uintptr_t>(base);
  addresses_ = wanted;
  were_refused_ = false;
  Bytes lower = 0;
  for (std::size_t i = 0; i < kRegions; lower = regions_.at(i++).upper)
    regions_.at(i) = {lower, wanted / kEighths.back() * kEighths.at(i) / page * page};
  regions_.back().upper = wanted;
  vacant_.give(large().lower, large().length(), {});
  return true;
}

Interval Memory::region(Region which) {
  if (were_refused_ || !take_addresses()) return {};
  return regions_.at(static_cast<std::size_t>(which));
}

Bytes Memory::missing(const Interval& range) const {
  Bytes missing = range.length();
  visit_extents(range, [&](const Interval& extent) {
    missing -= shared(extent, range);
    return true;
  });
  return missing;
}

bool Memory::is_vacant(const Interval& range) const {
  Bytes vacant = missing(range);
  (void)free_space.visit(range.lower, range.length(), [&](const Gap& gap) {
    vacant += shared({gap.offset, gap.end}, range);
    return true;
  });
  return vacant == range.length();
}

Bytes Memory::pinned_by(const Interval& place) const {
  Bytes pinned = 0;
  visit_extents(place, [&](const Interval& extent) {
    const Bytes rest = extent.length() - shared(extent, place);
    if (rest > 0 && free_space.is_idle(extent.lower, extent.length())) pinned += rest;
    return true;
  });
  return pinned;
}

/// What a block at `place`, which begins or ends in the extent, pins of the rest of it.
Bytes Memory::stranded(const Extent& extent, const Interval& place) const {
  // What else is in the extent may be gone before the block is: then all of the rest is pinned.
  const Bytes rest = extent.range.length() - shared(extent.range, place);
  return rest > policy_->block ? rest : rest - extent.used;
}

Memory::Ends Memory::ends_of(const Interval& place, std::size_t first, std::size_t last) const {
  const Interval pages = whole_pages(place);
  Ends ends;
  const auto lack = [&](Bytes bytes) {
    ends.lacking += bytes;
    ends.unfilled += bytes > 0 ? 1 : 0;
  };
  if (first == kNoExtent) lack(place.lower - pages.lower);
  if (last == kNoExtent) lack(pages.upper - place.upper);
  if (first != kNoExtent) ends.stranded += stranded(extents_[first], place);
  if (last != kNoExtent && last != first) ends.stranded += stranded(extents_[last], place);
  return ends;
}

std::optional<Bytes> Memory::fit_at_ends(const Interval& idle, Bytes size, Bytes& least,
                                         std::size_t& from) const {
  std::optional<Bytes> best;
  const auto consider = [&](Bytes at, std::size_t first, std::size_t last) {
    const Interval place = {at, at + size};
    Bytes bytes = stranded(extents_[first], place);
    if (first != last) bytes += stranded(extents_[last], place);
    if (bytes >= least) return;
    least = bytes;
    best = at;
  };
  // An extent that begins in the range and ends in it is all idle: what it strands shows by where extents
  // begin, and nothing else of it is read if that is too much. Its end is 0 where it may be in use.
  const auto end_inside = [&](std::size_t extent) { return extents_.begin_of(extent + 1, idle.upper); };
  const Bytes highest = idle.upper - size;
  const std::size_t lowest = from = extents_.first_above(idle.lower, from) - 1;
  const std::size_t last = extents_.first_above(idle.lower + size - 1, lowest) - 1;
  if (last == lowest || end_inside(last) == 0 || end_inside(last) - (idle.lower + size) < least)
    consider(idle.lower, lowest, last);
  // Inside one extent both ends are alike.
  if (highest == idle.lower || idle.upper <= extents_.end_of(lowest)) return best;
  const std::size_t first = extents_.first_above(highest, lowest) - 1;
  if (first == lowest || end_inside(first) == 0 || highest - extents_.begin_of(first, highest) < least)
    consider(highest, first, extents_.first_above(idle.upper - 1, first) - 1);
  return best;
}

Bytes Memory::budget(Bytes in_use) const {
  const Bytes most = std::max(most_in_use_, in_use);
  const Bytes slack = policy_->slack(most);
  return std::max({most + slack, hold_, std::min(whole_, most + 2 * slack)});
}

/// What was held before may be again where that saves moving it in each step.
Bytes Memory::limit(Bytes in_use) const {
  return std::max(budget(in_use), std::min(whole_, most_mapped_));
}

std::vector<Interval> Memory::lacking(const Interval& range) const {
  std::vector<Interval> runs;
  Bytes at = range.lower;
  visit_extents(range, [&](const Interval& extent) {
    if (extent.lower > at) runs.push_back({at, extent.lower});
    at = extent.upper;
    return true;
  });
  if (at < range.upper) runs.push_back({at, range.upper});
  return runs;
}

/// The largest blocks around the pages that lack no more than `room`; failing that, the pages.
Interval Memory::with_blocks(const Interval& pages, const Interval& within, Bytes block, Bytes room) const {
  for (; block > page_size(); block /= 2) {
    Interval blocks = aligned(pages, std::max(block / page_size(), Bytes{1}) * page_size());
    blocks = {std::max(blocks.lower, std::min(within.lower, pages.lower)),
              std::min(blocks.upper, std::max(whole_pages(within).upper, pages.upper))};
    if (missing(blocks) <= room) return blocks;
  }
  return pages;
}

bool Memory::make_room(const Interval& range) {
  const Interval pages = whole_pages(range);
  const Bytes lacking = missing(pages);
  const Bytes most = limit(in_use() + range.length());
  const auto excess = [&] { return mapped_ + lacking - most; };
  if (excess() > 0) reclaim(std::max(excess(), policy_->slack(most_in_use_)), pages);
  return excess() <= 0;
}

bool Memory::back(const Interval& range, const Interval& within, Bytes block, Bytes most) {
  if (range.empty()) return true;
  if (!take_addresses() || range.upper > addresses_) return false;
  const Interval pages = whole_pages(range);
  const Bytes lacking = missing(pages);
  if (lacking == 0) return true;
  // Else all that the device has would be mapped, piece by piece, before it refuses one.
  if (lacking > most && !device_->may_map(lacking - free_space.idle())) return false;
  const Interval blocks = make_room(range)
                              ? with_blocks(pages, within, block, limit(in_use() + range.length()) - mapped_)
                              : pages;
  // An extent ends where a large request does, and pages that it does not fill are extents of their own: a
  // neighbour may end or begin in them, and would pin the rest for as long as it lives.
  const bool is_exact = block <= page_size();
  const Interval filled = {align_up(range.lower, page_size()), range.upper / page_size() * page_size()};
  const Interval cuts = is_exact || range.length() >= policy_->large ? filled : Interval{};
  if (map_all(blocks, cuts, most)) return true;
  hold_ = std::min(hold_, mapped_);  // more than the device has cannot be held
  reclaim_all(pages);
  return map_all(pages, cuts, most);
}

/// Extents of `most` bytes at most for whatever lacks memory, none across an end of `cuts`. What was mapped
/// stays when the device refuses.
bool Memory::map_all(const Interval& pages, const Interval& cuts, Bytes most) {
  for (const Interval& run : lacking(pages)) {
    for (Bytes at = run.lower; at < run.upper;) {
      Bytes end = std::min(run.upper, at + align_up(std::max<Bytes>(most, 1), page_size()));
      for (const Bytes cut : {cuts.upper, cuts.lower}) {
        if (at < cut && cut < end) end = cut;
      }
      if (!map_extent({at, end})) return false;
      at = end;
    }
  }
  return true;
}

/// Such calls take from ten microseconds to milliseconds: looking at the clock costs nothing beside them.
template <typename Call>
bool Memory::timed(std::int64_t& calls, Call call) {
  const auto began = std::chrono::steady_clock::now();
  const bool went_well = call();
  const auto took = std::chrono::steady_clock::now() - began;
  statistics_.nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  ++calls;
  return went_well;
}

bool Memory::map_extent(const Interval& range) {
  if (!timed(statistics_.maps, [&] { return device_->map(pointer(range.lower), range.length()); }))
    return false;
  extents_.insert(range);
  free_space.give(range.lower, range.length(), {});
  mapped_ += range.length();
  most_mapped_ = std::max(most_mapped_, mapped_);
  return true;
}

void Memory::find_idle_extents(const Interval& keep) {
  idle_.clear();
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    const Interval& extent = extents_[i].range;
    if (!keep.empty() && overlaps(extent, keep)) continue;
    if (!is_idle(extents_[i])) continue;
    Tick freed = 0;
    each_last_use(extents_[i], [&](const LastUse& last) {
      if (!order_->is_over(last)) freed = std::max(freed, last.freed);
      return true;
    });
    const Bytes exact = is_noted(extents_[i]) ? extent.length() : 0;
    idle_.push_back({i, extent.length(), exact, overlaps(extent, spared_), freed});
  }
}

void Memory::note_begin_of_use(const Interval& range) {
  for (std::size_t i = extents_.first_above(range.upper - 1);
       i > 0 && extents_[i - 1].range.upper > range.lower; --i)
    extents_[i - 1].used += shared(extents_[i - 1].range, range);
}

void Memory::note_end_of_use(const Interval& range, LastUse last) {
  for (std::size_t i = extents_.first_above(range.upper - 1);
       i > 0 && extents_[i - 1].range.upper > range.lower; --i) {
    Extent& extent = extents_[i - 1];
    extent.used -= shared(extent.range, range);
    const bool is_all = range.lower <= extent.range.lower && extent.range.upper <= range.upper;
    const bool is_same = extent.last.stream == last.stream;
    extent.has_several_uses =
        !is_all && (extent.has_several_uses || (!is_same && extent.last.stream != kNoStream));
    // What other streams were recorded for is given back behind what was freed after it.
    const Tick before = is_same ? extent.last.freed : 0;
    extent.last = {last.stream, std::max(last.freed, before)};
  }
}

template <typename Visit>
bool Memory::each_last_use(const Extent& extent, Visit visit) const {
  if (is_noted(extent) && !extent.has_several_uses) return visit(extent.last);
  return free_space.visit(extent.range.lower, extent.range.length(),
                          [&](const Gap& gap) { return visit(gap.last); });
}

Bytes Memory::reclaim(Bytes enough, const Interval& keep) {
  if (extents_.empty() || enough <= 0) return 0;
  order_->find_what_is_over();
  find_idle_extents(keep);
  if (!idle_.empty()) order_->watch_frees(true);
  // Where requests share extents the highest first: only the fullest moments of a step come that far.
  const auto comes_later = [](const Idle& a, const Idle& b) {
    return std::tuple(a.is_spared, a.freed, b.exact, b.extent) >
           std::tuple(b.is_spared, b.freed, a.exact, a.extent);
  };
  // A few of hundreds are enough.
  std::make_heap(idle_.begin(), idle_.end(), comes_later);
  Bytes reclaimed = 0;
  for (; !idle_.empty() && reclaimed < enough; idle_.pop_back()) {
    std::pop_heap(idle_.begin(), idle_.end(), comes_later);
    Extent& extent = extents_[idle_.back().extent];
    if (idle_.back().freed > 0 && !await_work_on(extent)) continue;
    if (!unmap_extent(extent.range)) continue;
    reclaimed += idle_.back().size;
    extent.range.upper = extent.range.lower;
  }
  extents_.erase_empty();
  return reclaimed;
}

/// Whether no work uses it any more.
bool Memory::await_work_on(const Extent& extent) {
  return each_last_use(extent, [&](const LastUse& last) {
    return order_->is_over(last) || timed(statistics_.idle_waits, [&] { return order_->await(last); });
  });
}

/// Whether the device took it; the caller forgets the extent.
bool Memory::unmap_extent(const Interval& extent) {
  if (!timed(statistics_.unmaps, [&] { return device_->unmap(pointer(extent.lower), extent.length()); }))
    return false;
  free_space.take(extent.lower, extent.length());
  mapped_ -= extent.length();
  return true;
}

}  // namespace stweaver
