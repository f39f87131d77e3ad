// A planning instance: rectangles in time and address space, and what it means to place them.
//
// This is the offline dynamic-storage-allocation problem. An *item* is as wide as its lifespan and as high as
// its size; a *placement* gives every item an offset so that no two that live at the same time share a byte.
// Time here is whatever the caller counts in (a job's plan counts requests, a CSV brings its own).
#pragma once

#include <cstdint>
#include <vector>

#include "trace/model.h"

namespace stweaver {

using ItemId = std::uint32_t;  ///< index into Instance::items

struct Item {
  Bytes size = 0;  ///< > 0, a multiple of the alignment that offsets shall have
  Lifespan life;   ///< not empty
  /// An earlier span in which the same bytes are taken too; usually empty. A tensor that every step leaves to
  /// the next lives at the end of the step and again at its beginning.
  Lifespan echo = {};
  Bytes above = 0;  ///< the most that persistent requests hold during `life`; set by stack_persistent()
  int group = -1;   ///< HomoPhase group (same birth phase, same death phase), -1 for none
  int lane = 0;     ///< which of the job's streams it lives on, numbered from 0
};

/// A request that is never freed. The persistent ones of a job are stacked in order of birth from the end of
/// the arena downwards, out of the packers' way: what they cover only grows, so no hole can open between
/// them.
struct Persistent {
  Time birth = 0;
  Bytes size = 0;
};

struct Instance {
  std::vector<Item> items;
  std::vector<Persistent> persistent;  ///< ordered by birth
  int lanes = 1;                       ///< every item's lane is below this
  /// Items of different lanes may share bytes only if one is gone for this long before the other is born:
  /// memory that changes streams needs an event wait, and a wait for what lies far back is already over.
  Time lane_gap = 0;
  /// The part of time that repeats for ever, at the end of it; empty when nothing does. The lane gap holds
  /// across its turn too. (Items of one lane need no such care: what crosses the turn has an echo.)
  Lifespan cycle;
};

/// True when items have neither lanes nor echoes: what every constructor understands.
bool is_plain(const Instance& instance);

/// Sets every item's `above` from the persistent requests, which with several lanes keep their distance too,
/// whatever lane they are of.
void stack_persistent(Instance& instance);

/// An offset per item.
using Placement = std::vector<Bytes>;

/// How large an arena must be that holds the placement: the most that an item and the persistent requests
/// above it ever reach.
Bytes peak_of(const Instance& instance, const Placement& placement);

/// The load from some time on, until the next.
struct LoadSince {
  Time time = 0;
  Bytes load = 0;
};

/// What is alive together, items with their echoes and persistent requests: ascending, one for each time at
/// which something is born or dies. O(n log n).
std::vector<LoadSince> loads_of(const Instance& instance);

/// Lower bound: the largest sum of sizes (items and persistent) that must lie apart because of when they
/// live. That is what is alive at one time; and with several lanes what each lane has alive at its own
/// fullest moment within one lane gap, for none of that may share bytes with what the others have then. No
/// placement can have a lower peak. O(n log n).
Bytes lower_bound_of(const Instance& instance);

}  // namespace stweaver
