#include "runtime/free_form.h"

#include <algorithm>
#include <vector>

#include "runtime/meters.h"

namespace stweaver {
namespace {

/// The addresses are cut into so many parts, the last one for small requests.
constexpr Bytes kParts = 4;
/// So small a share of what is mapped is not worth a synchronization: neither to collect it when it is idle
/// nor to avoid mapping it.
constexpr Bytes kWorthCollecting = 1024;
/// But as there is one, this share is collected if so much is idle.
constexpr Bytes kCollected = 128;
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

void FreeForm::pause(Tick now) {
  closed_until_ = now + kPause;
}

void FreeForm::retry() {
  closed_until_ = 0;
  scattered_ = 0;
}

void FreeForm::start_anew() {
  ceiling_ = 0;
  retry();
}

std::optional<Window> FreeForm::find_window(Bytes room, LaneId lane, const Interval& keep) {
  const Interval region = region_of(room);
  const auto no_wait = [&](const LastUse& last) { return order_->ordered(lane, last); };
  if (!overlaps(keep, region)) return stweaver::find_window(*arena_, room, region, no_wait);
  const auto below = stweaver::find_window(*arena_, room, {region.lower, keep.lower}, no_wait);
  const auto above = stweaver::find_window(*arena_, room, {keep.upper, region.upper}, no_wait);
  return below && (!above || below->missing <= above->missing) ? below : above;
}

Bytes FreeForm::make_room(const Window& window, const Interval& keep) {
  const auto excess = [&] { return arena_->mapped() + window.missing - ceiling_; };
  if (excess() <= 0) return 0;
  const Bytes worth = arena_->mapped() / kWorthCollecting;
  scattered_ = std::min(scattered_, idle(window.range));
  if (idle(window.range) - scattered_ > worth) {
    const Bytes before = arena_->mapped();
    arena_->unmap_idle(keep, std::max(window.missing, before / kCollected), window.range);
    const bool was_enough = before - arena_->mapped() >= std::max(window.missing, worth);
    scattered_ = was_enough ? 0 : idle(window.range);
  }
  return std::max(excess(), Bytes{0});
}

std::optional<Bytes> FreeForm::extend(const Window& window, const Interval& keep) {
  const Bytes extent = arena_->small_extent(arena_->mapped() + window.missing);
  bool has_memory = arena_->map(with_some_ahead(window, keep, extent), extent);
  if (!has_memory) {
    arena_->unmap_idle(keep, Arena::kAll, window.range);
    has_memory = arena_->map(window.range, extent);
  }
  if (arena_->mapped() > ceiling_) ceiling_ = arena_->mapped() + arena_->mapped() / kWorthCollecting;
  return has_memory ? std::optional(window.range.lower) : std::nullopt;
}

/// A whole extent at a time, where there are addresses for it, until it would be more than ever: the next
/// request needs no call then.
Interval FreeForm::with_some_ahead(const Window& window, const Interval& keep, Bytes extent) const {
  const Bytes end = align_up(window.range.upper, arena_->page_size());
  const Bytes ahead = extent - window.missing;
  if (window.missing == 0 || ahead <= 0 || grows_beyond_ever(extent)) return window.range;
  Bytes limit = region_of(window.range.length()).upper;
  if (end <= keep.lower) limit = std::min(limit, keep.lower);
  const std::vector<Interval> above = arena_->mapped_in({end, std::min(limit, end + ahead)});
  if (!above.empty()) limit = above.front().lower;
  return {window.range.lower, std::max(std::min(end + ahead, limit), window.range.upper)};
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
