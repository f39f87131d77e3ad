#include "plan/class_sweep.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace stweaver {
namespace {

/// A stretch of addresses that is taken.
struct Block {
  Bytes offset = 0;
  Bytes end = 0;
};

/// An item of an earlier class in its place.
struct Fixed {
  Lifespan life;
  Block block;
};

bool lower_block(const Block& a, const Block& b) {
  return a.offset != b.offset ? a.offset < b.offset : a.end < b.end;
}

bool born_earlier(const Fixed& a, const Fixed& b) {
  return a.life.lower < b.life.lower;
}

bool dies_later(const Fixed& a, const Fixed& b) {
  return a.life.upper > b.life.upper;
}

/// What one lane sees of all placed items, swept over time: its own items in their lifespans, those of other
/// lanes widened by the lane gap. Blocks of other lanes may therefore overlap each other here.
class View {
 public:
  void begin_class() {
    old_size_ = fixed_.size();
    next_ = 0;
    live_.clear();
    deaths_.clear();
    pending_.clear();
  }

  /// Moves on to `time`; never backwards within a class. What was born and died since the last time costs
  /// next to nothing, so that lanes with few items are cheap.
  void advance(Time time) {
    bury_until(time);
    for (; next_ < old_size_ && fixed_[next_].life.lower <= time; ++next_) enter(fixed_[next_], time);
    std::erase_if(pending_, [&](const Fixed& placed) {
      const bool born = placed.life.lower <= time;
      if (born) enter(placed, time);
      return born;
    });
  }

  /// The offset of a gap that stays free during `life`, where life.lower is the time advanced to.
  [[nodiscard]] Bytes find_gap(Bytes size, const Lifespan& life, Fit fit) {
    unborn_.clear();
    for (std::size_t i = next_; i < old_size_ && fixed_[i].life.lower < life.upper; ++i) {
      unborn_.push_back(fixed_[i].block);
    }
    for (const Fixed& placed : pending_) {
      if (placed.life.lower < life.upper) unborn_.push_back(placed.block);
    }
    std::sort(unborn_.begin(), unborn_.end(), lower_block);

    GapSearch search(size, fit);
    auto live = live_.begin();
    auto unborn = unborn_.begin();
    while (live != live_.end() || unborn != unborn_.end()) {
      const bool take_live =
          unborn == unborn_.end() || (live != live_.end() && live->offset <= unborn->offset);
      const Block& block = take_live ? *live++ : *unborn++;
      if (search.show(block.offset, block.end)) break;
    }
    return search.offset();
  }

  /// A block of the class being placed.
  void add(const Fixed& placed) {
    fixed_.push_back(placed);
    pending_.push_back(placed);
  }

  void end_class() {
    const auto middle = fixed_.begin() + static_cast<std::ptrdiff_t>(old_size_);
    std::sort(middle, fixed_.end(), born_earlier);
    std::inplace_merge(fixed_.begin(), middle, fixed_.end(), born_earlier);
  }

 private:
  void enter(const Fixed& placed, Time now) {
    if (placed.life.upper <= now) return;
    live_.insert(std::upper_bound(live_.begin(), live_.end(), placed.block, lower_block), placed.block);
    deaths_.push_back(placed);
    std::push_heap(deaths_.begin(), deaths_.end(), dies_later);
  }

  void bury_until(Time time) {
    while (!deaths_.empty() && deaths_.front().life.upper <= time) {
      live_.erase(std::lower_bound(live_.begin(), live_.end(), deaths_.front().block, lower_block));
      std::pop_heap(deaths_.begin(), deaths_.end(), dies_later);
      deaths_.pop_back();
    }
  }

  std::vector<Fixed> fixed_;  // ordered by birth up to old_size_, then those of the class being placed
  std::size_t old_size_ = 0;
  std::size_t next_ = 0;        // the first of fixed_ that is not born yet
  std::vector<Block> live_;     // in address order
  std::vector<Fixed> deaths_;   // a heap of the live, the first to die on top
  std::vector<Fixed> pending_;  // of the class being placed, since the last advance or not born yet
  std::vector<Block> unborn_;   // scratch
};

class Sweeper {
 public:
  Sweeper(const Instance& instance, const Sweep& options, const Budget& budget)
      : instance_(instance),
        options_(options),
        budget_(budget),
        placement_(instance.items.size(), 0),
        views_(static_cast<std::size_t>(instance.lanes)) {}

  std::optional<Placement> run(const Classes& classes) {
    stack_echoing();
    for (const std::vector<ItemId>& members : members_of(classes)) {
      if (!place_class(members)) return std::nullopt;
    }
    return std::move(placement_);
  }

 private:
  [[nodiscard]] Lifespan oriented(const Lifespan& life) const {
    return options_.mirrored ? Lifespan{-life.upper, -life.lower} : life;
  }
  [[nodiscard]] Lifespan life_of(ItemId id) const { return oriented(instance_.items[id].life); }

  /// Items with an echo come first, one on top of the other: at the turn of the step they all live together
  /// anyway.
  void stack_echoing() {
    for (View& view : views_) view.begin_class();
    Bytes top = 0;
    for (ItemId id = 0; id < instance_.items.size(); ++id) {
      const Item& item = instance_.items[id];
      if (item.echo.empty()) continue;
      placement_[id] = top;
      for (const Lifespan& span : {item.life, item.echo}) add(item, oriented(span), {top, top + item.size});
      top += item.size;
    }
    for (View& view : views_) view.end_class();
  }

  /// Items without an echo by class, each class in order of birth, the larger first.
  [[nodiscard]] std::vector<std::vector<ItemId>> members_of(const Classes& classes) const {
    std::vector<std::vector<ItemId>> by_class;
    for (ItemId id = 0; id < classes.size(); ++id) {
      if (!instance_.items[id].echo.empty()) continue;
      const auto index = static_cast<std::size_t>(classes[id]);
      if (by_class.size() <= index) by_class.resize(index + 1);
      by_class[index].push_back(id);
    }
    for (std::vector<ItemId>& members : by_class) {
      std::sort(members.begin(), members.end(), [this](ItemId a, ItemId b) {
        const Time born_a = life_of(a).lower;
        const Time born_b = life_of(b).lower;
        if (born_a != born_b) return born_a < born_b;
        const Bytes size_a = instance_.items[a].size;
        const Bytes size_b = instance_.items[b].size;
        return size_a != size_b ? size_a > size_b : a < b;
      });
    }
    return by_class;
  }

  bool place_class(const std::vector<ItemId>& members) {
    if (budget_.over()) return false;
    for (View& view : views_) view.begin_class();
    for (const ItemId id : members) {
      const Item& item = instance_.items[id];
      const Lifespan life = life_of(id);
      view_of(item).advance(life.lower);
      const Bytes offset = view_of(item).find_gap(item.size, life, options_.fit);
      if (budget_.exceeded_by(offset + item.size + item.above)) return false;
      placement_[id] = offset;
      add(item, life, {offset, offset + item.size});
    }
    for (View& view : views_) view.end_class();
    return true;
  }

  View& view_of(const Item& item) { return views_[static_cast<std::size_t>(item.lane)]; }

  /// Shows a block to all lanes. The others see it widened by the gap and, if it belongs to what repeats, one
  /// round earlier and later too.
  void add(const Item& item, const Lifespan& life, const Block& block) {
    const Time gap = instance_.lane_gap;
    const Lifespan cycle = oriented(instance_.cycle);
    const bool repeats = instance_.cycle.contains(item.life.lower);
    for (View& view : views_) {
      if (&view == &view_of(item)) {
        view.add({life, block});
        continue;
      }
      const Lifespan seen{life.lower - gap, life.upper + gap};
      view.add({seen, block});
      for (const Time round : {-cycle.length(), cycle.length()}) {
        const Lifespan again{seen.lower + round, seen.upper + round};
        if (repeats && overlaps(again, cycle)) view.add({again, block});
      }
    }
  }

  const Instance& instance_;
  const Sweep& options_;
  const Budget& budget_;
  Placement placement_;
  std::vector<View> views_;  // by lane
};

}  // namespace

Classes duration_classes(const Instance& instance, double base, Time tail) {
  const double scale = 1 / std::log(base);
  Classes classes;
  classes.reserve(instance.items.size());
  int longest = 0;
  for (const Item& item : instance.items) {
    const Time length = item.life.length();
    const int level = length <= tail ? 0 : static_cast<int>(std::log(static_cast<double>(length)) * scale);
    classes.push_back(level);
    longest = std::max(longest, level);
  }
  for (int& index : classes) index = longest - index;
  return classes;
}

std::optional<Placement> class_sweep(const Instance& instance, const Classes& classes, const Sweep& options,
                                     const Budget& budget) {
  return Sweeper(instance, options, budget).run(classes);
}

}  // namespace stweaver
