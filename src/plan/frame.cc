#include "plan/frame.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

namespace stweaver {
namespace {

/// At about so many sums no more are made.
constexpr std::size_t kCommons = 16;

void number_turns(const Instance& instance, Turns& turns) {
  const auto life = [&](std::size_t i) { return instance.items[turns.items[i]].life; };
  std::size_t turn = 0;
  std::pair<std::ptrdiff_t, std::ptrdiff_t> last;
  for (std::size_t i = 0; i < turns.items.size(); ++i) {
    const auto died = std::partition_point(turns.items.begin(), turns.items.end(), [&](ItemId id) {
      return instance.items[id].life.upper <= life(i).lower;
    });
    const auto born = std::partition_point(turns.births.begin(), turns.births.end(), [&](std::size_t other) {
      return life(other).lower < life(i).upper;
    });
    const std::pair now{died - turns.items.begin(), born - turns.births.begin()};
    if (i > 0 && now != last) ++turn;
    last = now;
    turns.numbers.push_back(turn);
  }
}

}  // namespace

Turns turns_of(const Instance& instance, const Classes& classes) {
  Turns turns;
  for (ItemId id = 0; id < instance.items.size(); ++id) {
    if (classes[id] == 0) turns.items.push_back(id);
  }
  std::sort(turns.items.begin(), turns.items.end(), [&](ItemId a, ItemId b) {
    const Lifespan& x = instance.items[a].life;
    const Lifespan& y = instance.items[b].life;
    if (x.upper != y.upper) return x.upper < y.upper;
    return x.lower != y.lower ? x.lower > y.lower : a < b;
  });
  turns.births.resize(turns.items.size());
  std::iota(turns.births.begin(), turns.births.end(), std::size_t{0});
  std::stable_sort(turns.births.begin(), turns.births.end(), [&](std::size_t a, std::size_t b) {
    return instance.items[turns.items[a]].life.lower < instance.items[turns.items[b]].life.lower;
  });
  number_turns(instance, turns);
  return turns;
}

Bytes capacity_below(const Instance& instance, const Turns& turns, Bytes capacity) {
  Bytes above = 0;
  for (const ItemId id : turns.items) above = std::max(above, instance.items[id].above);
  return capacity - above;
}

std::vector<Bytes> commons_of(const Instance& instance, const Classes& classes,
                              const std::vector<LoadSince>& loads) {
  const auto fullest = std::max_element(
      loads.begin(), loads.end(), [](const LoadSince& a, const LoadSince& b) { return a.load < b.load; });
  std::vector<Bytes> sizes;
  for (ItemId id = 0; id < classes.size(); ++id) {
    const Item& other = instance.items[id];
    if (classes[id] != 0 && other.life.contains(fullest->time)) sizes.push_back(other.size);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  std::vector<Bytes> sums{0};
  for (std::size_t i = 0; i < sizes.size() && sums.size() <= kCommons; ++i) {
    const std::size_t count = sums.size();
    for (std::size_t k = 0; k < count; ++k) sums.push_back(sums[k] + sizes[i]);
    std::sort(sums.begin(), sums.end());
    sums.erase(std::unique(sums.begin(), sums.end()), sums.end());
  }
  return sums;
}

void remove_misfits(const Instance& instance, const Turns& turns, Placement& placement) {
  struct Taken {
    Bytes end = 0;
    Time until = 0;
  };
  std::map<Bytes, Taken> taken;  // by offset; the dead stay until somebody takes their place
  for (const std::size_t i : turns.births) {
    const ItemId id = turns.items[i];
    const Item& item = instance.items[id];
    Bytes& offset = placement[id];
    if (offset == kNowhere) continue;
    const Bytes end = offset + item.size;
    auto last = taken.lower_bound(offset);
    auto first = last;
    while (first != taken.begin() && std::prev(first)->second.end > offset) --first;
    while (last != taken.end() && last->first < end) ++last;
    const bool is_free =
        std::all_of(first, last, [&](const auto& other) { return other.second.until <= item.life.lower; });
    if (is_free) {
      taken.erase(first, last);
      taken[offset] = {end, item.life.upper};
    } else {
      offset = kNowhere;
    }
  }
}

}  // namespace stweaver
