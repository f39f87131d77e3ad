#include "plan/homophase.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/best_fit.h"

namespace stweaver {
namespace {

/// A group that fills less of its rectangle than this is planned item by item (released code, 0.7).
constexpr double kLeastUsage = 0.7;

struct BlockPart {
  ItemId id = 0;
  Bytes offset = 0;  ///< within the block
};

/// Items that are moved as one.
struct Block {
  Bytes height = 0;
  Lifespan life;
  std::vector<BlockPart> parts;
};

double product(Bytes size, const Lifespan& life) {
  return static_cast<double>(size) * static_cast<double>(life.length());
}

/// The share of the block's time-memory product that its items fill.
double usage_of(const Block& block, const std::vector<Item>& items) {
  double used = 0;
  for (const BlockPart& part : block.parts) used += product(items[part.id].size, items[part.id].life);
  return used / product(block.height, block.life);
}

void stack(Block& block, ItemId id, const Item& item) {
  const bool first = block.parts.empty();
  block.life = first ? item.life
                     : Lifespan{std::min(block.life.lower, item.life.lower),
                                std::max(block.life.upper, item.life.upper)};
  block.parts.push_back({id, block.height});
  block.height += item.size;
}

/// One block per HomoPhase group that is dense enough, one per item for the rest.
std::vector<Block> form_blocks(const std::vector<Item>& items, std::vector<Block>& groups) {
  std::map<int, Block> by_group;
  for (ItemId id = 0; id < items.size(); ++id) {
    if (items[id].group >= 0) stack(by_group[items[id].group], id, items[id]);
  }
  std::vector<bool> grouped(items.size(), false);
  for (auto& [_, block] : by_group) {
    if (block.parts.size() < 2 || usage_of(block, items) < kLeastUsage) continue;
    for (const BlockPart& part : block.parts) grouped[part.id] = true;
    groups.push_back(std::move(block));
  }
  std::vector<Block> singles;
  for (ItemId id = 0; id < items.size(); ++id) {
    if (grouped[id]) continue;
    stack(singles.emplace_back(), id, items[id]);
  }
  return singles;
}

bool partly_overlap(const Lifespan& a, const Lifespan& b) {
  return overlaps(a, b) && ((a.lower < b.lower) == (a.upper < b.upper)) && a.lower != b.lower &&
         a.upper != b.upper;
}

/// Both groups in one block: the base stacked as a staircase that leans away from the other group, the
/// other's items let down onto it.
Block fuse(const Block& base, const Block& other, const std::vector<Item>& items) {
  const bool base_first = base.life.lower < other.life.lower;
  std::vector<ItemId> base_ids;
  base_ids.reserve(base.parts.size());
  for (const BlockPart& part : base.parts) base_ids.push_back(part.id);
  std::sort(base_ids.begin(), base_ids.end(), [&](ItemId a, ItemId b) {
    return base_first ? items[a].life.upper > items[b].life.upper : items[a].life.lower < items[b].life.lower;
  });
  std::vector<ItemId> other_ids;
  other_ids.reserve(other.parts.size());
  for (const BlockPart& part : other.parts) other_ids.push_back(part.id);
  std::sort(other_ids.begin(), other_ids.end(), [&](ItemId a, ItemId b) {
    return base_first ? items[a].life.lower > items[b].life.lower : items[a].life.upper < items[b].life.upper;
  });

  Instance pair;
  std::vector<ItemId> order(base_ids.size() + other_ids.size());
  std::iota(order.begin(), order.end(), ItemId{0});
  base_ids.insert(base_ids.end(), other_ids.begin(), other_ids.end());
  for (const ItemId id : base_ids) pair.items.push_back(items[id]);
  const std::optional<Placement> placement = place_in_order(pair, order, Fit::kFirst, Budget());

  Block fused;
  fused.life = {std::min(base.life.lower, other.life.lower), std::max(base.life.upper, other.life.upper)};
  for (const ItemId local : order) {
    fused.parts.push_back({base_ids[local], (*placement)[local]});
    fused.height = std::max(fused.height, (*placement)[local] + pair.items[local].size);
  }
  return fused;
}

/// Fuses pairs of groups, the highest first, as long as that pays; a group is fused once.
bool fuse_groups(std::vector<Block>& groups, const std::vector<Item>& items, const Budget& budget) {
  std::sort(groups.begin(), groups.end(), [](const Block& a, const Block& b) { return a.height > b.height; });
  std::vector<double> usage;
  usage.reserve(groups.size());
  for (const Block& group : groups) usage.push_back(usage_of(group, items));
  std::vector<bool> gone(groups.size(), false);
  for (std::size_t base = 0; base < groups.size(); ++base) {
    for (std::size_t other = base + 1; other < groups.size() && !gone[base]; ++other) {
      if (gone[other] || !partly_overlap(groups[base].life, groups[other].life)) continue;
      if (budget.over()) return false;
      Block fused = fuse(groups[base], groups[other], items);
      const double fused_usage = usage_of(fused, items);
      if (fused_usage * fused_usage <= usage[base] * usage[other]) continue;
      groups[base] = std::move(fused);
      gone[other] = true;
      break;
    }
  }
  std::vector<Block> kept;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!gone[i]) kept.push_back(std::move(groups[i]));
  }
  groups = std::move(kept);
  return true;
}

/// A HomoSize layer: an address range of one height and what stands in it over time.
class Layer {
 public:
  Layer(Bytes base, Bytes height) : base_(base), height_(height) {
    tops_[std::numeric_limits<Time>::min()] = 0;
  }

  [[nodiscard]] Bytes base() const { return base_; }
  [[nodiscard]] Bytes height() const { return height_; }

  /// The lowest place above everything that stands there during `life`, within the layer.
  [[nodiscard]] Bytes top_during(const Lifespan& life) const {
    Bytes top = 0;
    for (auto it = std::prev(tops_.upper_bound(life.lower)); it != tops_.end() && it->first < life.upper;
         ++it) {
      top = std::max(top, it->second);
    }
    return top;
  }

  void raise(const Lifespan& life, Bytes top) {
    const Bytes after = std::prev(tops_.upper_bound(life.upper))->second;
    tops_.erase(tops_.lower_bound(life.lower), tops_.upper_bound(life.upper));
    tops_[life.lower] = top;
    tops_[life.upper] = after;
  }

 private:
  Bytes base_;
  Bytes height_;
  std::map<Time, Bytes> tops_;  // height from that time on
};

/// Colours the blocks (of any heights, the highest first) into layers.
std::optional<Placement> form_layers(std::vector<Block> blocks, std::size_t items, const Budget& budget) {
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    return a.height != b.height ? a.height > b.height : a.life.lower < b.life.lower;
  });
  Placement placement(items, 0);
  std::vector<Layer> layers;
  Bytes end = 0;
  for (const Block& block : blocks) {
    if (budget.over()) return std::nullopt;
    Layer* home = nullptr;
    Bytes top = 0;
    for (Layer& layer : layers) {
      top = layer.top_during(block.life);
      if (top + block.height > layer.height()) continue;
      home = &layer;
      break;
    }
    if (home == nullptr) {
      home = &layers.emplace_back(end, block.height);
      end += block.height;
      top = 0;
    }
    home->raise(block.life, top + block.height);
    for (const BlockPart& part : block.parts) placement[part.id] = home->base() + top + part.offset;
  }
  return placement;
}

}  // namespace

std::optional<Placement> homophase(const Instance& instance, const Budget& budget) {
  std::vector<Block> groups;
  std::vector<Block> blocks = form_blocks(instance.items, groups);
  if (!fuse_groups(groups, instance.items, budget)) return std::nullopt;
  std::move(groups.begin(), groups.end(), std::back_inserter(blocks));
  const std::optional<Placement> layered = form_layers(std::move(blocks), instance.items.size(), budget);
  if (!layered) return std::nullopt;

  std::vector<ItemId> upwards(instance.items.size());
  std::iota(upwards.begin(), upwards.end(), ItemId{0});
  std::sort(upwards.begin(), upwards.end(), [&layered](ItemId a, ItemId b) {
    return std::pair((*layered)[a], a) < std::pair((*layered)[b], b);
  });
  return place_in_order(instance, upwards, Fit::kFirst, budget);
}

}  // namespace stweaver
