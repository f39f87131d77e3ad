#include "plan/restack.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>

namespace stweaver {
namespace {

/// The highest end of what was put down so far at each time of the step, as a tree of maxima over time.
class Skyline {
 public:
  Skyline(Time length, Bytes floor)
      : leaves_(std::bit_ceil(static_cast<std::size_t>(std::max<Time>(length, 1)))),
        whole_(2 * leaves_, floor),
        any_(2 * leaves_, floor) {}

  [[nodiscard]] Bytes highest(const Interval& times) const {
    Bytes highest = 0;
    each_node(times, [&](std::size_t node) {
      highest = std::max(highest, any_[node]);
      for (; node > 0; node /= 2) highest = std::max(highest, whole_[node]);
    });
    return highest;
  }

  void raise(const Interval& times, Bytes height) {
    each_node(times, [&](std::size_t node) {
      whole_[node] = std::max(whole_[node], height);
      for (; node > 0; node /= 2) any_[node] = std::max(any_[node], height);
    });
  }

 private:
  /// The fewest nodes that cover these times.
  template <typename Visit>
  void each_node(const Interval& times, Visit visit) const {
    std::size_t begin = leaves_ + static_cast<std::size_t>(times.lower);
    std::size_t end = leaves_ + static_cast<std::size_t>(times.upper);
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) visit(begin++);
      if (end % 2 == 1) visit(--end);
    }
  }

  std::size_t leaves_;        ///< a power of two
  std::vector<Bytes> whole_;  ///< of all times below a node
  std::vector<Bytes> any_;    ///< of the highest time below a node
};

class Restacker {
 public:
  explicit Restacker(const Plan& plan)
      : plan_(plan),
        length_(static_cast<Time>(plan.slots.size() - plan.prologue)),
        floor_(end_of_persistent(plan)) {}

  std::vector<Bytes> operator()(const std::vector<Bytes>& sizes) {
    std::vector<Bytes> offsets;
    offsets.reserve(plan_.slots.size());
    for (const Slot& slot : plan_.slots) offsets.push_back(slot.offset);
    for (const std::size_t i : by_offset()) {
      offsets[i] = highest_below(i);
      raise(i, offsets[i] + sizes[i]);
    }
    return offsets;
  }

 private:
  /// What lives for ever ends there.
  [[nodiscard]] static Bytes end_of_persistent(const Plan& plan) {
    Bytes floor = 0;
    for (std::size_t i = 0; i < plan.prologue; ++i) {
      const Slot& slot = plan.slots[i];
      if (slot.death == kForever && slot.offset != kUnplanned)
        floor = std::max(floor, slot.offset + slot.size);
    }
    return floor;
  }

  /// Those that have a place, the lowest first.
  [[nodiscard]] std::vector<std::size_t> by_offset() const {
    std::vector<std::size_t> order;
    for (std::size_t i = plan_.prologue; i < plan_.slots.size(); ++i) {
      if (plan_.slots[i].offset != kUnplanned) order.push_back(i);
    }
    std::ranges::stable_sort(order, {}, [this](std::size_t i) { return plan_.slots[i].offset; });
    return order;
  }

  [[nodiscard]] Bytes highest_below(std::size_t i) {
    const Stream own = plan_.slots[i].stream;
    skylines_.try_emplace(own, length_, floor_);
    Bytes highest = 0;
    for (const auto& entry : skylines_) {
      const Skyline& skyline = entry.second;
      each_span(i, entry.first == own ? 0 : plan_.stream_gap,
                [&](const Interval& times) { highest = std::max(highest, skyline.highest(times)); });
    }
    return highest;
  }

  void raise(std::size_t i, Bytes height) {
    Skyline& skyline = skylines_.at(plan_.slots[i].stream);
    each_span(i, 0, [&](const Interval& times) { skyline.raise(times, height); });
  }

  /// Calls visit(times) for the parts of the step in which a slot lives, widened by `gap` on both sides: the
  /// step is a circle.
  template <typename Visit>
  void each_span(std::size_t slot, Time gap, Visit visit) const {
    const auto prologue = static_cast<Time>(plan_.prologue);
    const Time born = static_cast<Time>(slot) - prologue - gap;
    const Time death = plan_.slots[slot].death;
    const Time died = death == kForever ? born + length_ : std::max(death - prologue + gap, born + 1);
    if (died - born >= length_) return visit({0, length_});
    const Time begin = (born + length_) % length_;
    const Time end = begin + died - born;
    visit({begin, std::min(end, length_)});
    if (end > length_) visit({0, end - length_});
  }

  const Plan& plan_;
  Time length_;  ///< of the step, in slots
  Bytes floor_;
  std::map<Stream, Skyline> skylines_;
};

/// What grows with no power of the length may need all of its size in a shorter step, too.
double growth_of(const Slot& slot, double share) {
  if (slot.power == 0) return std::max(share, 1.0);
  return slot.power == 2 ? share * share : share;
}

}  // namespace

std::vector<Bytes> sizes_at(const Plan& plan, const std::vector<double>& shares) {
  std::vector<Bytes> sizes;
  sizes.reserve(plan.slots.size());
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    const bool is_longer = slot.varying && i >= plan.prologue;
    const auto longer =
        static_cast<Bytes>(growth_of(slot, shares[slot.length]) * static_cast<double>(slot.size));
    const Bytes in_tiles = slot.tile > 0 ? align_up(longer, slot.tile) : longer;
    sizes.push_back(is_longer ? align_up(in_tiles, plan.alignment) : slot.size);
  }
  return sizes;
}

std::vector<Bytes> restacked(const Plan& plan, const std::vector<Bytes>& sizes) {
  return Restacker(plan)(sizes);
}

}  // namespace stweaver
