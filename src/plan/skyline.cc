#include "plan/skyline.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace stweaver {
namespace {

/// The items that wait for a place: a tree over them in order of birth whose nodes know the largest key and
/// the first death below them.
class WaitingItems {
 public:
  WaitingItems(const std::vector<Item>& items, SkylineKey key) : by_birth_(items.size()) {
    std::iota(by_birth_.begin(), by_birth_.end(), ItemId{0});
    std::sort(by_birth_.begin(), by_birth_.end(), [&items](ItemId a, ItemId b) {
      return std::pair(items[a].life.lower, a) < std::pair(items[b].life.lower, b);
    });
    leaves_ = std::bit_ceil(std::max<std::size_t>(items.size(), 1));
    nodes_.resize(2 * leaves_);
    for (std::size_t rank = 0; rank < by_birth_.size(); ++rank) {
      const Item& item = items[by_birth_[rank]];
      births_.push_back(item.life.lower);
      nodes_[leaves_ + rank] = {key_of(item, key), item.life.upper};
    }
    for (std::size_t node = leaves_ - 1; node > 0; --node) update(node);
  }

  /// Removes and returns the item with the largest key that lives inside `span`; nothing if there is none.
  std::optional<ItemId> take_best(const Lifespan& span) {
    const auto first = std::lower_bound(births_.begin(), births_.end(), span.lower) - births_.begin();
    const auto end = std::lower_bound(births_.begin(), births_.end(), span.upper) - births_.begin();
    Query query{static_cast<std::size_t>(first), static_cast<std::size_t>(end), span.upper, 0, kNone};
    descend(1, 0, leaves_, query);
    if (query.best == kNone) return std::nullopt;
    nodes_[leaves_ + query.best] = Node();
    for (std::size_t node = (leaves_ + query.best) / 2; node > 0; node /= 2) update(node);
    return by_birth_[query.best];
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  struct Node {
    double key = 0;                                 ///< largest below; 0 when empty
    Time death = std::numeric_limits<Time>::max();  ///< first below
  };

  struct Query {
    std::size_t first, end;
    Time latest_death;
    double best_key;
    std::size_t best;
  };

  static double key_of(const Item& item, SkylineKey key) {
    const auto size = static_cast<double>(item.size);
    const auto length = static_cast<double>(item.life.length());
    return key == SkylineKey::kDuration ? length : key == SkylineKey::kSize ? size : size * length;
  }

  void update(std::size_t node) {
    const Node& left = nodes_[2 * node];
    const Node& right = nodes_[2 * node + 1];
    nodes_[node] = {std::max(left.key, right.key), std::min(left.death, right.death)};
  }

  void descend(std::size_t node, std::size_t first, std::size_t width, Query& query) const {
    if (first >= query.end || first + width <= query.first) return;
    if (nodes_[node].key <= query.best_key || nodes_[node].death > query.latest_death) return;
    if (width == 1) {
      query.best_key = nodes_[node].key;
      query.best = first;
      return;
    }
    descend(2 * node, first, width / 2, query);
    descend(2 * node + 1, first + width / 2, width / 2, query);
  }

  std::vector<ItemId> by_birth_;
  std::vector<Time> births_;
  std::size_t leaves_ = 1;
  std::vector<Node> nodes_;  // heap-shaped: node 1 is the root
};

/// Heights over time: adjacent segments, no two neighbours of one height.
class Segments {
 public:
  explicit Segments(const Lifespan& span) { insert(span, 0); }

  [[nodiscard]] std::pair<Lifespan, Bytes> lowest() const {
    const auto& [height, lower] = *by_height_.begin();
    return {{lower, by_time_.at(lower).upper}, height};
  }

  /// Sets the height of `life`, which lies inside the lowest segment.
  void raise_part(const Lifespan& life, Bytes to) {
    const auto [segment, height] = lowest();
    erase(segment.lower);
    if (segment.lower < life.lower) insert({segment.lower, life.lower}, height);
    if (life.upper < segment.upper) insert({life.upper, segment.upper}, height);
    insert_merged(life, to);
  }

  /// Lifts the lowest segment to its lower neighbour. Wants one: the last segment spans all items, so that
  /// every waiting item fits it.
  void lift_lowest() {
    const auto [segment, height] = lowest();
    Bytes to = std::numeric_limits<Bytes>::max();
    const auto it = by_time_.find(segment.lower);
    if (it != by_time_.begin()) to = std::min(to, std::prev(it)->second.height);
    if (std::next(it) != by_time_.end()) to = std::min(to, std::next(it)->second.height);
    erase(segment.lower);
    insert_merged(segment, to);
  }

 private:
  struct Segment {
    Time upper;
    Bytes height;
  };

  void insert(const Lifespan& life, Bytes height) {
    by_time_[life.lower] = {life.upper, height};
    by_height_.emplace(height, life.lower);
  }

  void erase(Time lower) {
    const auto it = by_time_.find(lower);
    by_height_.erase({it->second.height, lower});
    by_time_.erase(it);
  }

  /// insert(), joined with neighbours of the same height.
  void insert_merged(Lifespan life, Bytes height) {
    const auto after = by_time_.find(life.upper);
    if (after != by_time_.end() && after->second.height == height) {
      life.upper = after->second.upper;
      erase(after->first);
    }
    const auto next = by_time_.lower_bound(life.lower);
    if (next != by_time_.begin() && std::prev(next)->second.height == height &&
        std::prev(next)->second.upper == life.lower) {
      life.lower = std::prev(next)->first;
      erase(life.lower);
    }
    insert(life, height);
  }

  std::map<Time, Segment> by_time_;
  std::set<std::pair<Bytes, Time>> by_height_;
};

Lifespan hull_of(const std::vector<Item>& items) {
  Lifespan hull{std::numeric_limits<Time>::max(), std::numeric_limits<Time>::min()};
  for (const Item& item : items) {
    hull.lower = std::min(hull.lower, item.life.lower);
    hull.upper = std::max(hull.upper, item.life.upper);
  }
  return hull;
}

}  // namespace

std::optional<Placement> skyline(const Instance& instance, SkylineKey key, const Budget& budget) {
  Placement placement(instance.items.size(), 0);
  if (instance.items.empty()) return placement;
  WaitingItems waiting(instance.items, key);
  Segments segments(hull_of(instance.items));
  for (std::size_t placed = 0, steps = 0; placed < placement.size(); ++steps) {
    if (steps % 64 == 0 && budget.over()) return std::nullopt;
    const auto [span, height] = segments.lowest();
    const std::optional<ItemId> id = waiting.take_best(span);
    if (!id) {
      segments.lift_lowest();
      continue;
    }
    const Item& item = instance.items[*id];
    if (budget.exceeded_by(height + item.size + item.above)) return std::nullopt;
    placement[*id] = height;
    segments.raise_part(item.life, height + item.size);
    ++placed;
  }
  return placement;
}

}  // namespace stweaver
