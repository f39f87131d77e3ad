#include "plan/ring.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/exact_sum.h"

namespace stweaver {
namespace {

/// So many places for the cut are looked at in each circle, but fewer where that takes more looks than these;
constexpr Bytes kPlaces = 256;
constexpr Bytes kLooks = 16'384;
/// so many of them are kept.
constexpr std::size_t kCuts = 8;
/// A line that goes round oftener is no pipeline.
constexpr Bytes kRounds = 1000;

/// The largest load in any stretch of time.
class Peaks {
 public:
  explicit Peaks(const std::vector<LoadSince>& loads) {
    tree_.assign(loads.size(), 0);
    for (const auto& [time, load] : loads) {
      times_.push_back(time);
      tree_.push_back(load);
    }
    for (std::size_t i = times_.size(); i-- > 1;) tree_[i] = std::max(tree_[2 * i], tree_[2 * i + 1]);
  }

  [[nodiscard]] Bytes in(const Lifespan& span) const {
    const auto begin = std::upper_bound(times_.begin(), times_.end(), span.lower) - times_.begin();
    const auto end = std::lower_bound(times_.begin(), times_.end(), span.upper) - times_.begin();
    std::size_t first = times_.size() + static_cast<std::size_t>(std::max<std::ptrdiff_t>(begin - 1, 0));
    std::size_t last = times_.size() + static_cast<std::size_t>(end);
    Bytes peak = 0;
    for (; first < last; first /= 2, last /= 2) {
      if (first % 2 == 1) peak = std::max(peak, tree_[first++]);
      if (last % 2 == 1) peak = std::max(peak, tree_[--last]);
    }
    return peak;
  }

 private:
  std::vector<Time> times_;  // at which the load changes
  std::vector<Bytes> tree_;  // the second half: the loads from then on; each other node: the larger of two
};

/// A circle, and where it is cut open. The best is the least.
struct Cut {
  bool loses = false;    ///< any bytes
  std::size_t rank = 0;  ///< among those of the same circle
  Bytes lost = 0;        ///< the first time that no items fill the bytes before it: how many these are
  Bytes highest = 0;     ///< load while nothing lies at the cut
  Bytes sum = 0;         ///< of the highest load each time that nothing does
  Bytes circle = 0;
  Bytes at = 0;  ///< so much of the line lies before it

  auto operator<=>(const Cut&) const = default;
};

/// Of the items from `first` to the end of their turn, those that come first.
struct Swap {
  std::size_t first = 0;
  Counts taken;
};

/// All items of class 0 in order of death, on a line without end that is to be wound up to a ring.
class Line {
 public:
  Line(const Instance& instance, const Classes& classes, Bytes capacity)
      : instance_(instance),
        turns_(turns_of(instance, classes)),
        capacity_(capacity_below(instance, turns_, capacity)) {
    for (const ItemId id : turns_.items) {
      if (begins_.back() > kMostMemory - instance.items[id].size) return;
      begins_.push_back(begins_.back() + instance.items[id].size);
    }
  }

  [[nodiscard]] std::vector<Cut> cuts(const Classes& classes) const {
    if (begins_.size() <= turns_.items.size() || total() <= capacity_ || !fits(capacity_)) return {};
    const std::vector<LoadSince> loads = loads_of(instance_);
    const Peaks peaks(loads);
    std::vector<Cut> all;
    for (const Bytes common : commons_of(instance_, classes, loads)) {
      if (common >= capacity_ || !fits(capacity_ - common)) continue;
      const std::vector<Cut> some = cuts_of(capacity_ - common, peaks);
      all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  /// Winds the line up.
  [[nodiscard]] Placement wound(const Cut& cut) const {
    std::vector<ItemId> order = turns_.items;
    for (Bytes place = cut.at; place < total(); place += cut.circle) {
      const std::size_t across = item_at(place);
      if (begins_[across] == place) continue;
      if (const std::optional<Swap> swap = swap_before(across, place)) {
        apply(*swap, order);
      } else {
        place = begins_[across];
      }
    }
    Placement placement(instance_.items.size(), kNowhere);
    Bytes at = (cut.circle - cut.at) % cut.circle;
    for (const ItemId id : order) {
      if (at + instance_.items[id].size > cut.circle) at = 0;
      placement[id] = at;
      at += instance_.items[id].size;
    }
    remove_misfits(instance_, turns_, placement);
    return placement;
  }

 private:
  [[nodiscard]] Bytes total() const { return begins_.back(); }
  [[nodiscard]] const Item& item(std::size_t i) const { return instance_.items[turns_.items[i]]; }
  [[nodiscard]] const Lifespan& life(std::size_t i) const { return item(i).life; }

  /// The item that lies at this place of the line, or begins there.
  [[nodiscard]] std::size_t item_at(Bytes place) const {
    return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), place) -
                                    begins_.begin() - 1);
  }

  [[nodiscard]] std::size_t begin_of_turn(std::size_t i) const {
    return static_cast<std::size_t>(
        std::lower_bound(turns_.numbers.begin(), turns_.numbers.end(), turns_.numbers[i]) -
        turns_.numbers.begin());
  }
  [[nodiscard]] std::size_t end_of_turn(std::size_t i) const {
    return static_cast<std::size_t>(
        std::upper_bound(turns_.numbers.begin(), turns_.numbers.end(), turns_.numbers[i]) -
        turns_.numbers.begin());
  }

  /// True when what lies on the line from the first to the last of the living never exceeds the circle.
  [[nodiscard]] bool fits(Bytes circle) const {
    if (total() / kRounds > circle) return false;
    std::size_t dead = 0;
    Bytes end = 0;
    for (const std::size_t born : turns_.births) {
      while (life(dead).upper <= life(born).lower) ++dead;
      end = std::max(end, begins_[born + 1]);
      if (end - begins_[dead] > circle) return false;
    }
    return true;
  }

  /// The best cuts of a circle.
  [[nodiscard]] std::vector<Cut> cuts_of(Bytes circle, const Peaks& peaks) const {
    std::vector<Cut> cuts;
    const std::size_t round = item_at(std::min(circle, total() - 1)) + 1;
    const Bytes looks = std::clamp<Bytes>(kLooks / (total() / circle + 1), 1, kPlaces);
    const std::size_t places = std::min(static_cast<std::size_t>(looks), round);
    for (std::size_t i = 0; i < places; ++i) {
      Cut cut{.circle = circle, .at = begins_[i * round / places]};
      weigh(cut, peaks);
      cuts.push_back(cut);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.resize(std::min(cuts.size(), kCuts));
    for (Cut& cut : cuts) {
      cut.lost = first_loss(cut);
      cut.loses = cut.lost > 0;
    }
    std::sort(cuts.begin(), cuts.end());
    for (std::size_t i = 0; i < cuts.size(); ++i) cuts[i].rank = i;
    return cuts;
  }

  /// The load while nothing lies at the cut: before the first item does, between one and the next, after the
  /// last.
  void weigh(Cut& cut, const Peaks& peaks) const {
    Time since = std::numeric_limits<Time>::min();
    const auto free_until = [&](Time time) {
      const Bytes peak = peaks.in({since, time});
      cut.highest = std::max(cut.highest, peak);
      cut.sum += peak;
    };
    for (Bytes place = cut.at; place < total(); place += cut.circle) {
      const Lifespan& there = life(item_at(place));
      free_until(there.lower);
      since = there.upper;
    }
    free_until(std::numeric_limits<Time>::max());
  }

  [[nodiscard]] Bytes first_loss(const Cut& cut) const {
    for (Bytes place = cut.at; place < total(); place += cut.circle) {
      const std::size_t across = item_at(place);
      if (begins_[across] != place && !swap_before(across, place)) return place - begins_[across];
    }
    return 0;
  }

  /// Makes some items of a turn end at `place`, where `across` lies; as few as possible that come before it
  /// lose their places.
  [[nodiscard]] std::optional<Swap> swap_before(std::size_t across, Bytes place) const {
    Counts sizes;
    for (std::size_t i = across, end = end_of_turn(across); i < end; ++i) ++sizes[item(i).size];
    const std::size_t begin = begin_of_turn(across);
    for (std::size_t first = across, back = 1;; back *= 2) {
      if (std::optional<Counts> taken = exact_sum(sizes, place - begins_[first]))
        return Swap{first, std::move(*taken)};
      if (first == begin) return std::nullopt;
      for (std::size_t i = 0; i < back && first > begin; ++i) ++sizes[item(--first).size];
    }
  }

  void apply(const Swap& swap, std::vector<ItemId>& order) const {
    Counts left = swap.taken;
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(swap.first);
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(end_of_turn(swap.first));
    std::stable_partition(begin, end, [&](ItemId id) {
      std::size_t& wanted = left[instance_.items[id].size];
      const bool comes_first = wanted > 0;
      if (comes_first) --wanted;
      return comes_first;
    });
  }

  const Instance& instance_;
  Turns turns_;
  Bytes capacity_;
  std::vector<Bytes> begins_{0};  // of each of turns_.items on the line, and the end of all
};

}  // namespace

NextFrame rings_of(const Instance& instance, const Classes& classes, Bytes capacity) {
  const auto line = std::make_shared<const Line>(instance, classes, capacity);
  return [line, cuts = line->cuts(classes), next = std::size_t{0}]() mutable -> std::optional<Placement> {
    if (next == cuts.size()) return std::nullopt;
    return line->wound(cuts[next++]);
  };
}

}  // namespace stweaver
