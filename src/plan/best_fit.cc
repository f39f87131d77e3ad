#include "plan/best_fit.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace stweaver {
namespace {

/// The placed items, asked which of them live in a span of time: a tree over the items in order of birth
/// whose nodes know the last death below them. O(k log n) for k answers.
class PlacedItems {
 public:
  explicit PlacedItems(const std::vector<Item>& items) : items_(items), by_birth_(items.size()) {
    std::iota(by_birth_.begin(), by_birth_.end(), ItemId{0});
    std::sort(by_birth_.begin(), by_birth_.end(), [&items](ItemId a, ItemId b) {
      return std::pair(items[a].life.lower, a) < std::pair(items[b].life.lower, b);
    });
    rank_.resize(items.size());
    births_.reserve(items.size());
    for (std::size_t rank = 0; rank < by_birth_.size(); ++rank) {
      rank_[by_birth_[rank]] = rank;
      births_.push_back(items[by_birth_[rank]].life.lower);
    }
    leaves_ = std::bit_ceil(std::max<std::size_t>(items.size(), 1));
    last_death_.assign(2 * leaves_, kNever);
  }

  void insert(ItemId id) {
    const Time death = items_[id].life.upper;
    for (std::size_t node = leaves_ + rank_[id]; node > 0; node /= 2) {
      last_death_[node] = std::max(last_death_[node], death);
    }
  }

  /// Calls `visit(id)` for every placed item that lives at some time in `span`.
  template <typename Visit>
  void for_each_alive(const Lifespan& span, const Visit& visit) const {
    const auto end = std::lower_bound(births_.begin(), births_.end(), span.upper) - births_.begin();
    descend(1, 0, leaves_, static_cast<std::size_t>(end), span.lower, visit);
  }

 private:
  static constexpr Time kNever = std::numeric_limits<Time>::min();

  template <typename Visit>
  void descend(std::size_t node, std::size_t first, std::size_t width, std::size_t end, Time after,
               const Visit& visit) const {
    if (first >= end || last_death_[node] <= after) return;
    if (width == 1) {
      visit(by_birth_[first]);
      return;
    }
    descend(2 * node, first, width / 2, end, after, visit);
    descend(2 * node + 1, first + width / 2, width / 2, end, after, visit);
  }

  const std::vector<Item>& items_;
  std::vector<ItemId> by_birth_;
  std::vector<std::size_t> rank_;  // of each item in by_birth_
  std::vector<Time> births_;       // of by_birth_
  std::size_t leaves_ = 1;
  std::vector<Time> last_death_;  // heap-shaped: node 1 is the root
};

/// The largest load met during each item's lifespan (Pisarchyk and Lee's breadth), as far as a sweep over
/// births tells: the load at its own birth and at every birth while it lives.
std::vector<double> breadths(const Instance& instance) {
  struct Change {
    Time time;
    bool birth;
    ItemId id;
  };
  std::vector<Change> changes;
  for (ItemId id = 0; id < instance.items.size(); ++id) {
    changes.push_back({instance.items[id].life.lower, true, id});
    changes.push_back({instance.items[id].life.upper, false, id});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tuple(a.time, a.birth, a.id) < std::tuple(b.time, b.birth, b.id);
  });
  // Loads in order of time with a monotone stack: the maximum since an item's birth is found by binary
  // search.
  std::vector<std::pair<std::size_t, Bytes>> stack;  // (position, load), loads descending
  std::vector<std::size_t> born(instance.items.size());
  std::vector<double> breadth(instance.items.size());
  Bytes load = 0;
  for (std::size_t position = 0; position < changes.size(); ++position) {
    const Change& change = changes[position];
    const Bytes size = instance.items[change.id].size;
    if (change.birth) {
      load += size;
      born[change.id] = position;
      while (!stack.empty() && stack.back().second <= load) stack.pop_back();
      stack.emplace_back(position, load);
    } else {
      const auto since = std::lower_bound(stack.begin(), stack.end(), std::pair(born[change.id], Bytes{0}));
      breadth[change.id] = static_cast<double>(since->second);
      load -= size;
    }
  }
  return breadth;
}

std::vector<ItemId> ordered(const Instance& instance, Order order) {
  const std::vector<Item>& items = instance.items;
  std::vector<double> key(items.size());
  if (order == Order::kBreadth) {
    key = breadths(instance);
  } else {
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto size = static_cast<double>(items[i].size);
      const auto length = static_cast<double>(items[i].life.length());
      key[i] = order == Order::kSize ? size : order == Order::kArea ? size * length : length;
    }
  }
  std::vector<ItemId> ids(items.size());
  std::iota(ids.begin(), ids.end(), ItemId{0});
  std::sort(ids.begin(), ids.end(), [&](ItemId a, ItemId b) {
    if (key[a] != key[b]) return key[a] > key[b];
    if (items[a].size != items[b].size) return items[a].size > items[b].size;
    if (items[a].life.lower != items[b].life.lower) return items[a].life.lower < items[b].life.lower;
    return a < b;
  });
  return ids;
}

}  // namespace

std::optional<Placement> place_in_order(const Instance& instance, const std::vector<ItemId>& order, Fit fit,
                                        const Budget& budget) {
  Placement placement(instance.items.size(), 0);
  PlacedItems placed(instance.items);
  std::vector<Interval> taken;
  std::size_t count = 0;
  for (const ItemId id : order) {
    if (++count % 64 == 0 && budget.over()) return std::nullopt;
    const Item& item = instance.items[id];
    taken.clear();
    placed.for_each_alive(item.life, [&](ItemId other) {
      taken.push_back({placement[other], placement[other] + instance.items[other].size});
    });
    std::ranges::sort(taken, {}, &Interval::lower);
    GapSearch search(item.size, fit);
    for (const Interval& block : taken) {
      if (search.show(block)) break;
    }
    placement[id] = search.offset();
    if (budget.exceeded_by(placement[id] + item.size + item.above)) return std::nullopt;
    placed.insert(id);
  }
  return placement;
}

std::optional<Placement> best_fit(const Instance& instance, Order order, Fit fit, const Budget& budget) {
  return place_in_order(instance, ordered(instance, order), fit, budget);
}

}  // namespace stweaver
