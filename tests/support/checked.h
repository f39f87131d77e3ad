// Every placement and plan that a test makes comes through here: it is checked by code that shares nothing
// with the planner, the slow and obvious way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/checker.h"
#include "plan/instance.h"
#include "plan/synthesize.h"

namespace stweaver {

/// Something that holds bytes for a while.
struct Stretch {
  Lifespan life;
  Bytes offset = 0;
  Bytes size = 0;
  int lane = 0;  ///< -1 for persistent ones: whatever lane they are of
};

/// What a placement means, over three rounds of the cycle if there is one.
inline std::vector<Stretch> stretches_of(const Instance& instance, const Placement& placement, Bytes arena) {
  std::vector<Stretch> stretches;
  const Time length = instance.cycle.length();
  for (std::size_t i = 0; i < instance.items.size(); ++i) {
    const Item& item = instance.items[i];
    const auto add = [&](const Lifespan& life) {
      if (!life.empty()) stretches.push_back({life, placement[i], item.size, item.lane});
    };
    add(item.echo);
    if (!instance.cycle.contains(item.life.lower)) {
      add(item.life);
      continue;
    }
    Time death = item.life.upper;
    if (!item.echo.empty()) death = instance.cycle.upper + item.echo.upper - instance.cycle.lower;
    for (Time round = 0; round < 3; ++round) add({item.life.lower + round * length, death + round * length});
  }
  Bytes top = arena;
  for (const Persistent& persistent : instance.persistent) {
    top -= persistent.size;
    stretches.push_back({{persistent.birth, kForever}, top, persistent.size, -1});
  }
  return stretches;
}

/// The largest load at any birth, of each lane at its fullest moment up to one gap before, summed up afresh
/// each time.
inline Bytes naive_lower_bound(const Instance& instance) {
  std::vector<Stretch> all;
  for (const Item& item : instance.items) {
    all.push_back({item.life, 0, item.size, item.lane});
    if (!item.echo.empty()) all.push_back({item.echo, 0, item.size, item.lane});
  }
  for (const Persistent& request : instance.persistent)
    all.push_back({{request.birth, kForever}, 0, request.size, -1});
  const auto load_at = [&](Time time, int lane) {
    Bytes load = 0;
    for (const Stretch& stretch : all)
      load += stretch.lane == lane && stretch.life.contains(time) ? stretch.size : 0;
    return load;
  };
  Bytes bound = 0;
  for (const Stretch& last : all) {
    const Time end = last.life.lower;
    const Time begin = instance.lanes > 1 ? end - instance.lane_gap : end;
    Bytes load = load_at(end, -1);
    for (int lane = 0; lane < instance.lanes; ++lane) {
      Bytes fullest = load_at(begin, lane);
      for (const Stretch& other : all)
        if (Interval{begin, end + 1}.contains(other.life.lower))
          fullest = std::max(fullest, load_at(other.life.lower, lane));
      load += fullest;
    }
    bound = std::max(bound, load);
  }
  return bound;
}

/// The first pair of lanes that pass bytes on too soon, as text; nothing when there is none.
inline std::optional<std::string> lane_violation(const std::vector<Stretch>& stretches, Time gap) {
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    for (std::size_t j = i + 1; j < stretches.size(); ++j) {
      const Stretch& a = stretches[i];
      const Stretch& b = stretches[j];
      if (a.lane == b.lane) continue;
      if (a.offset >= b.offset + b.size || b.offset >= a.offset + a.size) continue;
      const Time between =
          a.life.lower < b.life.lower ? b.life.lower - a.life.upper : a.life.lower - b.life.upper;
      if (between < gap)
        return text("lanes ", a.lane, " and ", b.lane, " at ", a.life.lower, " and ", b.life.lower);
    }
  }
  return std::nullopt;
}

/// Expects a placement to keep every promise: no byte shared, lanes apart, nothing below 0, the peak as told.
inline void expect_sound(const Instance& instance, const Placement& placement) {
  ASSERT_EQ(placement.size(), instance.items.size());
  const Bytes peak = peak_of(instance, placement);
  const std::vector<Stretch> stretches = stretches_of(instance, placement, peak);
  std::vector<Lifespan> lives;
  std::vector<Bytes> sizes;
  std::vector<Bytes> offsets;
  Bytes top = 0;
  for (const Stretch& stretch : stretches) {
    lives.push_back(stretch.life);
    sizes.push_back(stretch.size);
    offsets.push_back(stretch.offset);
    top = std::max(top, stretch.offset + stretch.size);
  }
  EXPECT_THAT(check_placement(lives, sizes, offsets), testing::IsEmpty());
  EXPECT_LE(top, peak);
  EXPECT_GE(peak, lower_bound_of(instance));
  if (instance.lanes > 1) {
    EXPECT_EQ(lane_violation(stretches, instance.lane_gap), std::nullopt);
  }
}

inline void expect_sound(const Instance& instance, const std::optional<Placement>& placement) {
  ASSERT_TRUE(placement.has_value());
  expect_sound(instance, *placement);
}

/// The largest sum of planned slots that live at one time: no arena can be smaller.
inline Bytes planned_load(const Plan& plan) {
  const std::size_t length = plan.slots.size() - plan.prologue;
  std::vector<Bytes> change(plan.slots.size() + length + 1, 0);
  const auto add = [&](std::size_t birth, Time death, Bytes size) {
    change[birth] += size;
    if (death < static_cast<Time>(change.size())) change[static_cast<std::size_t>(death)] -= size;
  };
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    if (slot.offset == kUnplanned) continue;
    add(i, slot.death, slot.size);
    if (i < plan.prologue || slot.death == kForever) continue;
    add(i + length, slot.death + static_cast<Time>(length), slot.size);
  }
  Bytes load = 0;
  Bytes peak = 0;
  for (const Bytes by : change) peak = std::max(peak, load += by);
  return peak;
}

/// synthesize(), with time enough for the slowest machine, checked.
inline Plan checked_plan(const Trace& trace, SynthesizeOptions options = {}) {
  options.timeout = 20;
  Plan plan = synthesize(trace, profile_of(trace), options).plan;
  EXPECT_THAT(check_plan(plan, trace), testing::IsEmpty());
  EXPECT_GE(plan.arena, planned_load(plan));
  EXPECT_GE(plan.arena, plan.lower_bound);
  return plan;
}

}  // namespace stweaver
