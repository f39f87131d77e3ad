#include "plan/class_sweep.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/live_blocks.h"

namespace stweaver {
namespace {

/// An item of an earlier class in its place.
struct Fixed {
  Lifespan life;
  Interval block;
};

Lifespan oriented(const Lifespan& life, bool mirrored) {
  return mirrored ? Lifespan{-life.upper, -life.lower} : life;
}

// Lambdas rather than functions: they are inlined where they are passed.
constexpr auto kBornEarlier = [](const Fixed& a, const Fixed& b) { return a.life.lower < b.life.lower; };
constexpr auto kBornLater = [](const Fixed& a, const Fixed& b) { return a.life.lower > b.life.lower; };
constexpr auto kDiesLater = [](const auto& a, const auto& b) { return a.death > b.death; };
constexpr auto kLower = [](const auto& a, const auto& b) { return a.block.lower < b.block.lower; };

/// What one lane sees of all placed items, swept over time: its own items in their lifespans, those of other
/// lanes widened by the lane gap. Blocks of other lanes may therefore overlap each other here.
class View {
 public:
  void begin_class() {
    old_size_ = fixed_.size();
    next_ = 0;
    seen_ = 0;
    now_ = std::numeric_limits<Time>::min();
    live_.clear();
    deaths_.clear();
    unborn_.clear();
    in_order_ = 0;
    pending_.clear();
  }

  /// Moves on to `time`; never backwards within a class. What was born and died since the last time costs
  /// next to nothing, so that lanes with few items are cheap.
  void advance(Time time) {
    now_ = time;
    while (!deaths_.empty() && deaths_.front().death <= time) {
      live_.erase(deaths_.front().block);
      std::pop_heap(deaths_.begin(), deaths_.end(), kDiesLater);
      deaths_.pop_back();
    }
    for (; next_ < old_size_ && fixed_[next_].life.lower <= time; ++next_) enter(fixed_[next_]);
    while (!pending_.empty() && pending_.front().life.lower <= time) {
      enter(pending_.front());
      std::pop_heap(pending_.begin(), pending_.end(), kBornLater);
      pending_.pop_back();
    }
  }

  /// The offset of a gap that stays free during `life`, where life.lower is the time advanced to.
  [[nodiscard]] Bytes find_gap(Bytes size, const Lifespan& life, Fit fit) {
    look_ahead(life.upper);
    GapSearch search(size, fit);
    auto unborn = unborn_.begin();
    const auto show_unborn_below = [&](Bytes offset) {
      for (; unborn != unborn_.end() && unborn->block.lower < offset; ++unborn) {
        if (unborn->birth <= now_ || unborn->birth >= life.upper) continue;
        if (search.show(unborn->block)) return true;
      }
      return false;
    };
    bool found = false;
    const Bytes top = live_.for_each_gap(size, [&](Bytes lower, Bytes upper) {
      search.raise(lower);
      found = show_unborn_below(upper) || search.show({upper, upper});
      return found;
    });
    if (!found) {
      search.raise(top);
      show_unborn_below(std::numeric_limits<Bytes>::max());
    }
    return search.offset();
  }

  /// A block of the class being placed.
  void add(const Fixed& placed) {
    fixed_.push_back(placed);
    if (placed.life.lower <= now_) {
      enter(placed);
    } else {
      pending_.push_back(placed);
      std::push_heap(pending_.begin(), pending_.end(), kBornLater);
      unborn_.push_back({placed.life.lower, placed.block});
    }
  }

  void end_class() {
    const auto middle = fixed_.begin() + static_cast<std::ptrdiff_t>(old_size_);
    if (!std::is_sorted(middle, fixed_.end(), kBornEarlier))
      std::stable_sort(middle, fixed_.end(), kBornEarlier);
    std::inplace_merge(fixed_.begin(), middle, fixed_.end(), kBornEarlier);
  }

 private:
  struct Unborn {
    Time birth = 0;
    Interval block;
  };

  struct Living {
    Time death = 0;
    Interval block;
  };

  void enter(const Fixed& placed) {
    if (placed.life.upper <= now_) return;
    live_.insert(placed.block);
    deaths_.push_back({placed.life.upper, placed.block});
    std::push_heap(deaths_.begin(), deaths_.end(), kDiesLater);
  }

  /// Makes unborn_ hold everything that will be born before `end`, in address order. It may hold what was
  /// born in the meantime and what will be born later.
  void look_ahead(Time end) {
    seen_ = std::max(seen_, next_);
    for (; seen_ < old_size_ && fixed_[seen_].life.lower < end; ++seen_) {
      unborn_.push_back({fixed_[seen_].life.lower, fixed_[seen_].block});
    }
    const std::size_t added = unborn_.size() - in_order_;
    if (added == 0) return;
    const auto first = unborn_.begin() + static_cast<std::ptrdiff_t>(in_order_);
    if (added <= kFew) {  // std::inplace_merge() allocates
      for (auto it = first; it != unborn_.end(); ++it) {
        std::rotate(std::upper_bound(unborn_.begin(), it, *it, kLower), it, it + 1);
      }
    } else {
      std::sort(first, unborn_.end(), kLower);
      std::inplace_merge(unborn_.begin(), first, unborn_.end(), kLower);
    }
    if (unborn_.size() > crowded_) {
      std::erase_if(unborn_, [this](const Unborn& other) { return other.birth <= now_; });
      crowded_ = 2 * unborn_.size() + kFew;
    }
    in_order_ = unborn_.size();
  }

  static constexpr std::size_t kFew = 16;

  std::vector<Fixed> fixed_;  // ordered by birth up to old_size_, then those of the class being placed
  std::size_t old_size_ = 0;
  std::size_t next_ = 0;  // the first of fixed_ that is not born yet
  std::size_t seen_ = 0;  // the first of fixed_ that unborn_ never held
  Time now_ = 0;
  LiveBlocks live_;
  std::vector<Living> deaths_;  // a heap of the live, the first to die on top
  std::vector<Fixed> pending_;  // of the class being placed, not born yet
  std::vector<Unborn> unborn_;
  std::size_t crowded_ = 0;   // with more than so many of them the born are thrown out
  std::size_t in_order_ = 0;  // so many of unborn_ are in address order
};

class Sweeper {
 public:
  Sweeper(const Instance& instance, const BirthOrder& order, const Sweep& options, const Budget& budget)
      : instance_(instance),
        order_(order),
        options_(options),
        budget_(budget),
        placement_(instance.items.size(), 0),
        is_placed_(instance.items.size(), false),
        views_(static_cast<std::size_t>(instance.lanes)) {}

  std::optional<Placement> run(const Classes& classes) {
    stack_echoing();
    return sweep(classes);
  }

  std::optional<Placement> run_around(const Placement& fixed, const Classes& classes) {
    take(fixed);
    return sweep(classes);
  }

 private:
  std::optional<Placement> sweep(const Classes& classes) {
    for (const std::vector<ItemId>& members : members_of(classes)) {
      if (!place_class(members)) return std::nullopt;
    }
    return std::move(placement_);
  }

  [[nodiscard]] Lifespan oriented(const Lifespan& life) const {
    return stweaver::oriented(life, options_.mirrored);
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
      is_placed_[id] = true;
      for (const Lifespan& span : {item.life, item.echo}) add(item, oriented(span), {top, top + item.size});
      top += item.size;
    }
    for (View& view : views_) view.end_class();
  }

  void take(const Placement& fixed) {
    placement_ = fixed;
    for (View& view : views_) view.begin_class();
    for (ItemId id = 0; id < fixed.size(); ++id) {
      if (fixed[id] == kNowhere) continue;
      const Item& item = instance_.items[id];
      is_placed_[id] = true;
      add(item, life_of(id), {fixed[id], fixed[id] + item.size});
    }
    for (View& view : views_) view.end_class();
  }

  /// Items that are not placed yet by class, each class in order of birth.
  [[nodiscard]] std::vector<std::vector<ItemId>> members_of(const Classes& classes) const {
    std::vector<std::vector<ItemId>> by_class;
    for (const ItemId id : order_) {
      if (is_placed_[id]) continue;
      const auto index = static_cast<std::size_t>(classes[id]);
      if (by_class.size() <= index) by_class.resize(index + 1);
      by_class[index].push_back(id);
    }
    return by_class;
  }

  bool place_class(const std::vector<ItemId>& members) {
    if (budget_.over()) return false;
    for (View& view : views_) view.begin_class();
    std::size_t placed = 0;
    for (const ItemId id : members) {
      if (++placed % 1024 == 0 && budget_.over()) return false;
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
  void add(const Item& item, const Lifespan& life, const Interval& block) {
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
  const BirthOrder& order_;
  const Sweep& options_;
  const Budget& budget_;
  Placement placement_;
  std::vector<bool> is_placed_;  // before the first class
  std::vector<View> views_;      // by lane
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

Classes gap_classes(const Instance& instance, std::size_t cuts) {
  // Bins of a sixteenth of an octave; below 8 all is one, as small whole numbers lie far apart.
  constexpr Time kShortest = 8;
  constexpr double kBins = 16;
  const auto bin_of = [=](const Item& item) {
    return static_cast<std::size_t>(
        kBins * std::log2(static_cast<double>(std::max(item.life.length(), kShortest)) / kShortest));
  };
  std::vector<std::size_t> bins;
  bins.reserve(instance.items.size());
  for (const Item& item : instance.items) bins.push_back(bin_of(item));
  std::vector<bool> used(bins.empty() ? 0 : *std::max_element(bins.begin(), bins.end()) + 1, false);
  for (const std::size_t bin : bins) used[bin] = true;

  std::vector<std::pair<std::size_t, std::size_t>> gaps;  // width, the bin above
  std::size_t last = 0;
  for (std::size_t bin = 0; bin < used.size(); ++bin) {
    if (!used[bin]) continue;
    if (bin > last) gaps.emplace_back(bin - last, bin);
    last = bin;
  }
  std::sort(gaps.begin(), gaps.end(), std::greater<>());
  gaps.resize(std::min(gaps.size(), cuts));
  std::vector<int> class_of(used.size(), 0);
  for (std::size_t bin = 0; bin < used.size(); ++bin) {
    for (const auto& [_, above] : gaps) class_of[bin] += bin < above ? 1 : 0;
  }
  Classes classes;
  classes.reserve(bins.size());
  for (const std::size_t bin : bins) classes.push_back(class_of[bin]);
  return classes;
}

BirthOrder birth_order(const Instance& instance, bool mirrored) {
  struct Entry {
    Time birth;
    Bytes size;
    ItemId id;
  };
  std::vector<Entry> entries;
  entries.reserve(instance.items.size());
  for (ItemId id = 0; id < instance.items.size(); ++id) {
    const Item& item = instance.items[id];
    entries.push_back({oriented(item.life, mirrored).lower, item.size, id});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    if (a.birth != b.birth) return a.birth < b.birth;
    return a.size != b.size ? a.size > b.size : a.id < b.id;
  });
  BirthOrder order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(entry.id);
  return order;
}

std::optional<Placement> class_sweep(const Instance& instance, const BirthOrder& order,
                                     const Classes& classes, const Sweep& options, const Budget& budget) {
  return Sweeper(instance, order, options, budget).run(classes);
}

std::optional<Placement> class_sweep(const Instance& instance, const Classes& classes, const Sweep& options,
                                     const Budget& budget) {
  return class_sweep(instance, birth_order(instance, options.mirrored), classes, options, budget);
}

std::optional<Placement> class_sweep_around(const Instance& instance, const Placement& fixed,
                                            const BirthOrder& order, const Classes& classes,
                                            const Sweep& options, const Budget& budget) {
  return Sweeper(instance, order, options, budget).run_around(fixed, classes);
}

std::optional<Placement> class_sweep_around(const Instance& instance, const Placement& fixed,
                                            const Classes& classes, const Budget& budget) {
  return class_sweep_around(instance, fixed, birth_order(instance, false), classes, {}, budget);
}

}  // namespace stweaver
