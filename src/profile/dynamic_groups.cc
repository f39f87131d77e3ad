#include "profile/dynamic_groups.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/base.h"

namespace stweaver {
namespace {

/// So many positions apart may neighbours in a group be born, and so many may they die.
constexpr Time kBirths = 16;
constexpr Time kDeaths = 64;

bool is_grouped(const Pattern& pattern, std::uint32_t p) {
  const Position& position = pattern.positions[p];
  const bool outlives = position.death == kForever ||
                        position.death - static_cast<Time>(p) > static_cast<Time>(pattern.positions.size());
  return position.kind == PositionKind::kDynamic && position.pool == 0 && !outlives;
}

/// Each position goes to the group whose last member dies nearest to it, if one is near enough.
std::vector<DynamicGroup> find_members(const Pattern& pattern) {
  std::vector<DynamicGroup> groups;
  std::vector<std::size_t> open;  // groups that may still grow
  for (std::uint32_t p = 0; p < pattern.positions.size(); ++p) {
    if (!is_grouped(pattern, p)) continue;
    const Position& position = pattern.positions[p];
    std::erase_if(open, [&](std::size_t g) { return p - groups[g].members.back() > kBirths; });
    const auto distance = [&](std::size_t g) {
      return std::abs(pattern.positions[groups[g].members.back()].death - position.death);
    };
    const auto nearest = std::min_element(
        open.begin(), open.end(), [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
    const bool joins =
        nearest != open.end() && distance(*nearest) <= kDeaths && groups[*nearest].stream == position.stream;
    if (!joins) {
      open.push_back(groups.size());
      groups.push_back({.members = {}, .life = {p, position.death}, .stream = position.stream});
    }
    DynamicGroup& group = groups[joins ? *nearest : groups.size() - 1];
    group.members.push_back(p);
    group.life.upper = std::max(group.life.upper, position.death);
  }
  return groups;
}

/// The most bytes that are alive at one time.
Bytes peak_of(std::vector<std::pair<Time, Bytes>>& changes) {
  std::sort(changes.begin(), changes.end());  // what dies makes room for what is born then
  Bytes alive = 0;
  Bytes peak = 0;
  for (const auto& [time, change] : changes) {
    alive = checked_add(alive, change, "the sum of a dynamic group's sizes");
    peak = std::max(peak, alive);
  }
  return peak;
}

}  // namespace

std::vector<DynamicGroup> find_dynamic_groups(const Pattern& pattern, const Trace& trace, Bytes alignment) {
  std::vector<DynamicGroup> groups = find_members(pattern);
  std::vector<Bytes> size_of(pattern.positions.size());
  std::vector<std::pair<Time, Bytes>> changes;
  for (const AlignedStep& step : pattern.steps) {
    std::fill(size_of.begin(), size_of.end(), 0);
    for (std::size_t i = 0; i < step.position_of.size(); ++i) {
      const Bytes size = std::max<Bytes>(trace.requests[step.first + i].size, 1);
      size_of[step.position_of[i]] = checked_align_up(size, alignment, "a request's size");
    }
    for (DynamicGroup& group : groups) {
      changes.clear();
      for (const std::uint32_t p : group.members) {
        changes.emplace_back(p, size_of[p]);
        changes.emplace_back(pattern.positions[p].death, -size_of[p]);
      }
      group.size = std::max(group.size, peak_of(changes));
    }
  }
  return groups;
}

}  // namespace stweaver
