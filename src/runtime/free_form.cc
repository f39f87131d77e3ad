#include "runtime/free_form.h"

#include <algorithm>

#include "runtime/meters.h"

namespace stweaver {
namespace {

/// The addresses are cut into so many parts, the last one for small requests.
constexpr Bytes kParts = 4;
/// So small a share of what is mapped is not worth a synchronization: neither to collect it when it is idle
/// nor to avoid mapping it.
constexpr Bytes kWorthCollecting = 128;
/// So many calls are not tried after the device had no memory.
constexpr Tick kPause = 1000;

}  // namespace

Interval FreeForm::region_of(Bytes room) const {
  const Bytes addresses = arena_->addresses();
  if (addresses == 0) return {};
  const Bytes border = addresses / kParts * (kParts - 1) / arena_->page_size() * arena_->page_size();
  return room <= kSmallSize ? Interval{border, addresses} : Interval{0, border};
}

std::optional<Bytes> FreeForm::find(Bytes room, LaneId lane, const Interval& keep) {
  const Interval region = region_of(room);
  const auto first_fit = [&](Bytes lower, Bytes upper) {
    const auto no_wait = [&](const LastUse& last) { return order_->ordered(lane, last); };
    return arena_->free_space.first_fit(room, {lower, upper}, no_wait);
  };
  if (!overlaps(keep, region)) return first_fit(region.lower, region.upper);
  const std::optional<Bytes> below = first_fit(region.lower, keep.lower);
  return below ? below : first_fit(keep.upper, region.upper);
}

void FreeForm::start_anew() {
  ceiling_ = scattered_ = 0;
  closed_until_ = 0;
}

Bytes FreeForm::make_room(Bytes room, const Interval& keep) {
  const auto excess = [&] { return arena_->mapped() + room - ceiling_; };
  if (excess() <= 0) return 0;
  const Bytes idle = arena_->free_space.idle();
  const Bytes worth = arena_->mapped() / kWorthCollecting;
  scattered_ = std::min(scattered_, idle);
  if (idle - scattered_ > worth) {
    const Bytes wanted = std::max(room, worth);
    const Bytes before = arena_->mapped();
    arena_->unmap_idle(keep, wanted);
    scattered_ = before - arena_->mapped() < wanted ? arena_->free_space.idle() : 0;
  }
  return std::max(excess(), Bytes{0});
}

std::optional<Bytes> FreeForm::extend(Bytes room, LaneId lane, const Interval& keep, Tick now) {
  std::optional<Bytes> place = map_behind(room, lane, keep);
  if (!place) {
    arena_->unmap_idle(keep);
    place = map_behind(room, lane, keep);
  }
  if (!place) closed_until_ = now + kPause;
  if (arena_->mapped() > ceiling_) ceiling_ = arena_->mapped() + arena_->mapped() / kWorthCollecting;
  return place;
}

/// Behind the highest memory of the region; what is idle at its end is part of the place.
std::optional<Bytes> FreeForm::map_behind(Bytes room, LaneId lane, const Interval& keep) {
  const Interval region = region_of(room);
  const Bytes end = std::max(arena_->mapped_end(region.upper), region.lower);
  Bytes begin = end;
  (void)arena_->free_space.visit(end - 1, 1, [&](const Gap& gap) {
    if (order_->ordered(lane, gap.last)) begin = std::max(gap.offset, region.lower);
    return true;
  });
  if (overlaps(keep, {begin, begin + room})) begin = keep.upper;
  const Bytes extent = arena_->small_extent(arena_->mapped());
  if (room > region.upper - begin || !arena_->map({begin, begin + room}, extent)) return std::nullopt;
  return begin;
}

Bytes FreeForm::idle(const Interval& keep) const {
  Bytes idle = arena_->free_space.idle();
  (void)arena_->free_space.visit(keep.lower, keep.length(), [&](const Gap& gap) {
    idle -= std::min(gap.end, keep.upper) - std::max(gap.offset, keep.lower);
    return true;
  });
  return idle;
}

}  // namespace stweaver
