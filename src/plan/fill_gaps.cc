#include "plan/fill_gaps.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace stweaver {
namespace {

std::array<Lifespan, 2> spans_of(const Item& item) {
  return {item.life, item.echo};
}

bool meet(const Item& a, const Item& b) {
  return std::ranges::any_of(spans_of(a), [&](const Lifespan& of_a) {
    return std::ranges::any_of(spans_of(b), [&](const Lifespan& of_b) {
      return !of_a.empty() && !of_b.empty() && overlaps(of_a, of_b);
    });
  });
}

bool lives_at(const Item& item, Time time) {
  return item.life.contains(time) || item.echo.contains(time);
}

/// One gap, and what was put there.
class FilledGap {
 public:
  explicit FilledGap(const Interval& range) : range_(range) {}

  [[nodiscard]] Bytes length() const { return range_.length(); }

  /// The lowest place in it for the item, if there is one.
  [[nodiscard]] std::optional<Interval> place_for(const Item& item) const {
    if (!blocks_.empty() && blocks_.front().item->lane != item.lane) return std::nullopt;
    Bytes at = range_.lower;
    for (const Block& block : blocks_) {
      if (!meet(*block.item, item)) continue;
      if (at + item.size <= block.place.lower) break;
      at = std::max(at, block.place.upper);
    }
    const Interval place = {at, at + item.size};
    return place.upper <= range_.upper ? std::optional(place) : std::nullopt;
  }

  void put(const Item& item, const Interval& place) {
    const auto above = std::ranges::upper_bound(blocks_, place.lower, {},
                                                [](const Block& block) { return block.place.lower; });
    blocks_.insert(above, {place, &item});
  }

 private:
  struct Block {
    Interval place;
    const Item* item;
  };
  Interval range_;
  std::vector<Block> blocks_;  ///< by lower end
};

/// What is alive outside of the gaps.
class Load {
 public:
  explicit Load(const Instance& instance) : loads_(loads_of(instance)) {}

  [[nodiscard]] Time fullest() const { return std::ranges::max_element(loads_, {}, &LoadSince::load)->time; }

  void remove(const Item& item) {
    for (const Lifespan& span : spans_of(item)) {
      auto at = std::ranges::lower_bound(loads_, span.lower, {}, &LoadSince::time);
      for (; at != loads_.end() && at->time < span.upper; ++at) at->load -= item.size;
    }
  }

 private:
  std::vector<LoadSince> loads_;
};

class GapFiller {
 public:
  GapFiller(const Instance& instance, const std::vector<bool>& may, std::vector<Interval> gaps)
      : instance_(instance), may_(may), load_(instance), places_(instance.items.size()) {
    std::ranges::sort(gaps, {}, [](const Interval& gap) { return std::pair(gap.length(), gap.lower); });
    for (const Interval& gap : gaps) gaps_.emplace_back(gap);
  }

  std::vector<Interval> operator()() {
    while (lower_the_fullest()) {
    }
    return places_;
  }

 private:
  /// Whether less is alive now at the time that was the fullest.
  bool lower_the_fullest() {
    const Time fullest = load_.fullest();
    bool is_lower = false;
    for (const ItemId id : candidates_at(fullest)) {
      may_[id] = false;  // gaps only get fuller
      if (!put(id)) continue;
      is_lower = true;
      load_.remove(instance_.items[id]);
      if (load_.fullest() != fullest) break;
    }
    return is_lower;
  }

  /// The largest first.
  [[nodiscard]] std::vector<ItemId> candidates_at(Time time) const {
    std::vector<ItemId> found;
    for (ItemId id = 0; id < instance_.items.size(); ++id) {
      if (may_[id] && lives_at(instance_.items[id], time)) found.push_back(id);
    }
    std::ranges::stable_sort(found, std::ranges::greater(),
                             [&](ItemId id) { return instance_.items[id].size; });
    return found;
  }

  bool put(ItemId id) {
    const Item& item = instance_.items[id];
    auto gap = std::ranges::lower_bound(gaps_, item.size, {}, &FilledGap::length);
    for (; gap != gaps_.end(); ++gap) {
      const std::optional<Interval> place = gap->place_for(item);
      if (!place) continue;
      gap->put(item, *place);
      places_[id] = *place;
      return true;
    }
    return false;
  }

  const Instance& instance_;
  std::vector<bool> may_;  ///< and was not tried yet
  Load load_;
  std::vector<FilledGap> gaps_;  ///< by length
  std::vector<Interval> places_;
};

}  // namespace

std::vector<Interval> fill_gaps(const Instance& instance, const std::vector<bool>& may,
                                std::vector<Interval> gaps) {
  if (instance.items.empty() || gaps.empty()) return std::vector<Interval>(instance.items.size());
  return GapFiller(instance, may, std::move(gaps))();
}

}  // namespace stweaver
