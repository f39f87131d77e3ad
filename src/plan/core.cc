#include "plan/core.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "plan/class_sweep.h"
#include "plan/exact.h"
#include "plan/puzzle.h"

namespace stweaver {
namespace {

/// Nodes for one window: a window that has a solution usually shows it within some hundreds.
constexpr std::int64_t kWindowNodes = 5000;
/// Solutions of one window that are tried before the search goes back.
constexpr int kTries = 4;
/// So many sizes of a block keep one item loose.
constexpr std::size_t kLooseSizes = 4;
/// A block smaller than this many times an item keeps it: what is left would be no block.
constexpr Bytes kLeastShare = 3;

/// Stretches of time in which the load is above `level`, ascending.
std::vector<Lifespan> summits_of(const Instance& instance, Bytes level) {
  std::vector<Lifespan> summits;
  bool is_open = false;
  for (const auto& [time, load] : loads_of(instance)) {
    if (!is_open && load > level) summits.push_back({time, time});
    if (is_open && load <= level) summits.back().upper = time;
    is_open = load > level;
  }
  if (is_open && !summits.empty()) summits.back().upper = std::numeric_limits<Time>::max();
  return summits;
}

/// Items of the core that are placed as one, upwards in this order.
struct Block {
  std::vector<ItemId> items;
  Item whole;             ///< all of them, for as long as any of them lives
  std::size_t first = 0;  ///< the first summit that it sees
  std::size_t last = 0;   ///< one past the last
};

class Core {
 public:
  Core(const Instance& instance, Bytes slack)
      : instance_(instance), summits_(summits_of(instance, lower_bound_of(instance) - slack)) {
    form_blocks();
  }

  [[nodiscard]] const std::vector<Block>& blocks() const { return blocks_; }
  [[nodiscard]] std::size_t summits() const { return summits_.size(); }

 private:
  /// The summits during which the item lives.
  [[nodiscard]] Interval seen_by(const Item& item) const {
    const auto first = std::upper_bound(summits_.begin(), summits_.end(), item.life.lower,
                                        [](Time time, const Lifespan& s) { return time < s.upper; });
    const auto last = std::lower_bound(first, summits_.end(), item.life.upper,
                                       [](const Lifespan& s, Time time) { return s.lower < time; });
    return {first - summits_.begin(), last - summits_.begin()};
  }

  /// Items that share all sections meet the same others: for the search they are one.
  void form_blocks() {
    std::vector<ItemId> ids;
    Puzzle puzzle{.items = {}, .obstacles = {}, .persistent = instance_.persistent};
    for (ItemId id = 0; id < instance_.items.size(); ++id) {
      if (seen_by(instance_.items[id]).empty()) continue;
      ids.push_back(id);
      puzzle.items.push_back(instance_.items[id]);
    }
    const Sections sections = sections_of(puzzle);
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<ItemId>> alike;
    for (std::size_t i = 0; i < ids.size(); ++i)
      alike[{sections.spans[i].lower, sections.spans[i].upper}].push_back(ids[i]);
    for (auto& [_, items] : alike) split(std::move(items));
    std::stable_sort(blocks_.begin(), blocks_.end(),
                     [](const Block& a, const Block& b) { return a.first < b.first; });
  }

  /// Takes one item of each of the sizes that hold most bytes out of those that are alike; the rest is one
  /// block.
  void split(std::vector<ItemId> items) {
    std::map<Bytes, Bytes> held;  // by size
    Bytes left = 0;
    for (const ItemId id : items) {
      held[size_of(id)] += size_of(id);
      left += size_of(id);
    }
    std::vector<std::pair<Bytes, Bytes>> sizes;  // bytes, size
    sizes.reserve(held.size());
    for (const auto& [size, bytes] : held) sizes.emplace_back(bytes, size);
    std::sort(sizes.rbegin(), sizes.rend());
    sizes.resize(std::min(sizes.size(), kLooseSizes));
    for (const auto& held_by_size : sizes) {
      const Bytes size = held_by_size.second;
      if (left <= kLeastShare * size) continue;
      const auto loose =
          std::find_if(items.begin(), items.end(), [&](ItemId id) { return size_of(id) == size; });
      add_block({*loose});
      items.erase(loose);
      left -= size;
    }
    std::stable_sort(items.begin(), items.end(), [this](ItemId a, ItemId b) {
      return instance_.items[a].life.length() > instance_.items[b].life.length();
    });
    add_block(std::move(items));
  }

  void add_block(std::vector<ItemId> items) {
    Block block;
    block.whole.life = instance_.items[items.front()].life;
    block.items = std::move(items);
    for (const ItemId id : block.items) {
      const Item& item = instance_.items[id];
      block.whole.size += item.size;
      block.whole.above = std::max(block.whole.above, item.above);
      block.whole.life = {std::min(block.whole.life.lower, item.life.lower),
                          std::max(block.whole.life.upper, item.life.upper)};
    }
    const Interval seen = seen_by(block.whole);
    block.first = static_cast<std::size_t>(seen.lower);
    block.last = static_cast<std::size_t>(seen.upper);
    blocks_.push_back(std::move(block));
  }

  [[nodiscard]] Bytes size_of(ItemId id) const { return instance_.items[id].size; }

  const Instance& instance_;
  std::vector<Lifespan> summits_;
  std::vector<Block> blocks_;  // by their first summit
};

/// Places blocks window by window.
class Windows {
 public:
  Windows(const Instance& instance, const Core& core, const CoreOptions& options, const Budget& budget)
      : instance_(instance),
        blocks_(core.blocks()),
        options_(options),
        budget_(budget),
        begins_(core.summits() + 1, 0),
        tries_(core.summits(), 0),
        offsets_(core.blocks().size(), 0) {
    for (const Block& block : blocks_) {
      ++begins_[block.first + 1];
      width_ = std::max(width_, block.last - block.first + 1);
    }
    for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
  }

  /// The offset of each block.
  std::optional<std::vector<Bytes>> run() {
    std::size_t at = 0;
    while (at < tries_.size()) {
      if (budget_.over() || steps_ >= options_.steps) return std::nullopt;
      if (solve(at)) {
        if (at + width_ >= tries_.size()) return offsets_;
        tries_[++at] = 0;
      } else if (tries_[at] >= kTries) {
        while (at > 0 && tries_[at] >= kTries) --at;
        if (tries_[at] >= kTries) return std::nullopt;
      }
    }
    return offsets_;
  }

 private:
  /// Places what is first seen at the summits from `at` on, for one width; true when that succeeded.
  bool solve(std::size_t at) {
    const std::size_t begin = begins_[at];
    const std::size_t end = begins_[std::min(at + width_, tries_.size())];
    Puzzle puzzle{.items = {}, .obstacles = {}, .persistent = instance_.persistent};
    Time start = std::numeric_limits<Time>::max();
    for (std::size_t i = begin; i < end; ++i) {
      puzzle.items.push_back(blocks_[i].whole);
      start = std::min(start, blocks_[i].whole.life.lower);
    }
    for (std::size_t i = 0; i < begin; ++i) {
      const Item& fixed = blocks_[i].whole;
      if (fixed.life.upper <= start) continue;
      puzzle.obstacles.push_back({fixed.life, {offsets_[i], offsets_[i] + fixed.size}});
    }
    ++tries_[at];
    const ExactResult found = exact_search(puzzle, options_.capacity,
                                           {.threads = 1,
                                            .nodes = kWindowNodes,
                                            .deadline = budget_.deadline,
                                            .seed = ++seed_,
                                            .shuffled = tries_[at] > 1,
                                            .stop = budget_.stop});
    steps_ += (found.nodes + 1) * static_cast<std::int64_t>(puzzle.items.size() + 1);
    if (found.verdict == Verdict::kImpossible) tries_[at] = kTries;
    if (found.verdict != Verdict::kFound) return false;
    std::copy(found.placement.begin(), found.placement.end(),
              offsets_.begin() + static_cast<std::ptrdiff_t>(begin));
    return true;
  }

  const Instance& instance_;
  const std::vector<Block>& blocks_;
  const CoreOptions& options_;
  const Budget& budget_;
  std::vector<std::size_t> begins_;  // by summit: the first block that is not seen before it
  std::size_t width_ = 1;            // of a window, in summits
  std::vector<int> tries_;           // by the summit at which a window begins
  std::vector<Bytes> offsets_;       // by block
  std::int64_t steps_ = 0;
  std::uint64_t seed_ = 0;
};

}  // namespace

std::optional<Placement> core_first(const Instance& instance, const CoreOptions& options,
                                    const Budget& budget) {
  if (options.capacity > kMostMemory) return std::nullopt;
  const Core core(instance, options.slack);
  const std::optional<std::vector<Bytes>> offsets = Windows(instance, core, options, budget).run();
  if (!offsets) return std::nullopt;
  Placement fixed(instance.items.size(), kNowhere);
  for (std::size_t i = 0; i < core.blocks().size(); ++i) {
    Bytes offset = (*offsets)[i];
    for (const ItemId id : core.blocks()[i].items) {
      fixed[id] = offset;
      offset += instance.items[id].size;
    }
  }
  return class_sweep_around(instance, fixed, gap_classes(instance, 1), budget);
}

}  // namespace stweaver
