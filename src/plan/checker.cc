#include "plan/checker.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace stweaver {
namespace {

/// It comes, is let go of, and is free. Steps begin at events, no two at the same.
constexpr std::size_t kEventsOfRequest = 3;

/// Something that holds bytes for a while.
struct Rectangle {
  Lifespan life;
  Bytes offset = 0;
  Bytes size = 0;
  Stream stream = 0;
  std::string_view kind;                ///< with the number its name: most have nothing to be named for
  std::optional<std::size_t> number{};  ///< none where the kind is a name
};

std::string name_of(const Rectangle& rectangle) {
  return rectangle.number ? text(rectangle.kind, " ", *rectangle.number) : std::string(rectangle.kind);
}

/// Collects offences up to a limit.
class Violations {
 public:
  explicit Violations(std::size_t most) : most_(most) {}

  template <typename... Parts>
  void add(const Parts&... parts) {
    if (lines_.size() < most_) lines_.push_back(text(parts...));
  }

  [[nodiscard]] bool full() const { return lines_.size() >= most_; }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::size_t most_;
  std::vector<std::string> lines_;
};

/// Reports rectangles that share a byte at one time (one of no bytes shares none): a sweep over time that
/// keeps the living ones by address. As long as no overlap was reported they are disjoint, so that only the
/// two neighbours of a new one need a look.
void check_overlaps(const std::vector<Rectangle>& rectangles, Violations& violations) {
  struct Event {
    Time time;
    bool birth;  // deaths sort before births of the same time
    std::size_t index;
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < rectangles.size(); ++i) {
    if (rectangles[i].life.empty() || rectangles[i].size <= 0) continue;
    events.push_back({rectangles[i].life.lower, true, i});
    events.push_back({rectangles[i].life.upper, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.birth != b.birth ? b.birth : a.index < b.index;
  });

  std::map<Bytes, std::size_t> alive;  // offset -> rectangle
  std::vector<bool> placed(rectangles.size(), false);
  for (const Event& event : events) {
    if (violations.full()) return;
    const Rectangle& rectangle = rectangles[event.index];
    if (!event.birth) {
      if (placed[event.index]) alive.erase(rectangle.offset);
      continue;
    }
    const auto above = alive.lower_bound(rectangle.offset);
    const Rectangle* hit = nullptr;
    if (above != alive.end() && above->first < rectangle.offset + rectangle.size)
      hit = &rectangles[above->second];
    if (above != alive.begin()) {
      const Rectangle& below = rectangles[std::prev(above)->second];
      if (below.offset + below.size > rectangle.offset) hit = &below;
    }
    if (hit != nullptr) {
      violations.add(name_of(rectangle), " and ", name_of(*hit), " share bytes at time ", event.time);
      continue;
    }
    placed[event.index] = true;
    alive.emplace(rectangle.offset, event.index);
  }
}

/// Reports bytes that pass from one stream to another in less than `gap`. Keeps, by address, who used a
/// stretch of the arena last and until when.
void check_stream_gaps(std::vector<Rectangle> rectangles, Time gap, Violations& violations) {
  struct LastUse {
    Bytes end;
    Time until;
    Stream stream;
    std::size_t index;
  };
  std::sort(rectangles.begin(), rectangles.end(),
            [](const Rectangle& a, const Rectangle& b) { return a.life.lower < b.life.lower; });
  std::map<Bytes, LastUse> last;  // offset -> stretch, disjoint
  for (std::size_t i = 0; i < rectangles.size(); ++i) {
    if (violations.full()) return;
    const Rectangle& rectangle = rectangles[i];
    const Bytes end = rectangle.offset + rectangle.size;
    auto it = last.upper_bound(rectangle.offset);
    if (it != last.begin() && std::prev(it)->second.end > rectangle.offset) --it;
    while (it != last.end() && it->first < end) {
      const auto [offset, use] = *it;
      if (use.stream != rectangle.stream && rectangle.life.lower - use.until < gap) {
        violations.add(name_of(rectangle), " takes bytes of another stream's ",
                       name_of(rectangles[use.index]), " after ", rectangle.life.lower - use.until,
                       " requests, less than the plan's ", gap);
      }
      it = last.erase(it);
      if (offset < rectangle.offset)
        last.emplace(offset, LastUse{rectangle.offset, use.until, use.stream, use.index});
      if (use.end > end) it = last.emplace(end, use).first;
    }
    last[rectangle.offset] = {end, rectangle.life.upper, rectangle.stream, i};
  }
}

Time later(Time time, Time by) {
  return time > kForever - by ? kForever : time + by;
}

/// Whether a range may be one of a process, and can be added to.
bool is_address(const Interval& range) {
  return !range.empty() && range.lower >= 0 && range.upper <= kMostMemory;
}

/// True when the slot's bytes are some of the arena's. What this refuses could not even be added up.
bool inside_arena(const Plan& plan, const Slot& slot) {
  return slot.size > 0 && slot.offset >= 0 && slot.size <= plan.arena &&
         slot.offset <= plan.arena - slot.size;
}

/// The slots of each of the steps that take turns.
std::size_t step_length(const Plan& plan) {
  return (plan.slots.size() - plan.prologue) / plan.steps;
}

/// An empty request still holds its slot's first byte: its address is in use.
Bytes held_by(const Request& request) {
  return std::max<Bytes>(request.size, 1);
}

/// Where each slot lies, empty for none: those in gaps as if behind the arena.
std::vector<Interval> places_of(const Plan& plan) {
  std::vector<Interval> places;
  places.reserve(plan.slots.size());
  for (const Slot& slot : plan.slots) {
    places.push_back(inside_arena(plan, slot) ? Interval{slot.offset, slot.offset + slot.size} : Interval{});
  }
  for (const auto& [slot, place] : plan.in_gaps) {
    if (slot < places.size() && is_address(place))
      places[slot] = {plan.arena + place.lower, plan.arena + place.upper};
  }
  return places;
}

/// The slots that have a place, over the prologue and two rounds of the step: enough to see one step meet the
/// next.
std::vector<Rectangle> unrolled(const Plan& plan) {
  const std::vector<Interval> places = places_of(plan);
  std::vector<Rectangle> rectangles;
  const auto add = [&](std::size_t number, Time shift) {
    const Slot& slot = plan.slots[number];
    const Interval& place = places[number];
    if (place.empty()) return;
    const Time birth = static_cast<Time>(number) + shift;
    rectangles.push_back(
        {{birth, later(slot.death, shift)}, place.lower, place.length(), slot.stream, "slot", number});
  };
  const auto length = static_cast<Time>(plan.slots.size() - plan.prologue);
  for (std::size_t i = 0; i < plan.slots.size(); ++i) add(i, 0);
  for (std::size_t i = plan.prologue; i < plan.slots.size(); ++i) add(i, length);
  return rectangles;
}

void check_each_slot(const Plan& plan, Violations& violations) {
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    if (slot.size <= 0 || slot.size % plan.alignment != 0)
      violations.add("slot ", i, " has ", slot.size, " bytes, and slots have multiples of ", plan.alignment);
    if (slot.death <= static_cast<Time>(i)) violations.add("slot ", i, " dies before it is born");
    if (slot.offset == kUnplanned) continue;
    if (!inside_arena(plan, slot))
      violations.add("slot ", i, " at ", slot.offset, " does not fit the arena of ", plan.arena, " bytes");
    if (slot.offset % plan.alignment != 0)
      violations.add("slot ", i, " at ", slot.offset, " is not aligned to ", plan.alignment);
    if (slot.death == kForever && i >= plan.prologue)
      violations.add("slot ", i, " of the step is never freed");
  }
}

/// Reports steps that take turns and are not alike. Sizes differ only where one of the two is for several.
void check_turns(const Plan& plan, Violations& violations) {
  const std::size_t length = step_length(plan);
  for (std::size_t i = plan.prologue; i + length < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    const Slot& next = plan.slots[i + length];
    const bool same_size = slot.size == next.size || slot.varying || next.varying;
    if (!same_size || slot.stream != next.stream ||
        later(slot.death, static_cast<Time>(length)) != next.death)
      violations.add("slot ", i, " is unlike slot ", i + length, ", its own in the next step");
  }
}

/// Reports what lies below what lives for ever: in longer steps it would need more room than it has there.
void check_lengths(const Plan& plan, Violations& violations) {
  if (plan.shape != StepShape::kVarying) return;
  const auto lasting_end = [&](const Slot& slot) {
    return slot.death == kForever && inside_arena(plan, slot) ? slot.offset + slot.size : 0;
  };
  Bytes floor = 0;
  for (std::size_t i = 0; i < plan.prologue; ++i) floor = std::max(floor, lasting_end(plan.slots[i]));
  for (std::size_t i = plan.prologue; i < plan.slots.size(); ++i) {
    const Bytes offset = plan.slots[i].offset;
    if (offset != kUnplanned && offset < floor)
      violations.add("slot ", i, " at ", offset, " lies below what lives for ever, which ends at ", floor);
  }
}

/// Reports an arena that no slot needs to its end. In plans of lengths it may go on: what lives for ever was
/// put below the rest, and a slot that was in the way has lost its place.
void check_arena(const Plan& plan, Violations& violations) {
  Bytes end = 0;
  for (const Slot& slot : plan.slots)
    if (inside_arena(plan, slot)) end = std::max(end, slot.offset + slot.size);
  if (plan.arena > end && plan.shape != StepShape::kVarying)
    violations.add("the arena of ", plan.arena, " bytes goes on behind ", end, ", where the last slot ends");
  if (plan.lower_bound < 0 || plan.lower_bound > plan.arena)
    violations.add("a lower bound of ", plan.lower_bound, " bytes cannot be, with an arena of ", plan.arena);
}

void check_each_gap(const Plan& plan, Violations& violations) {
  for (const auto& [number, place] : plan.in_gaps) {
    if (number >= plan.slots.size()) {
      violations.add("a gap is for slot ", number, ", which the plan does not have");
      continue;
    }
    const Slot& slot = plan.slots[number];
    if (slot.offset != kUnplanned) violations.add("slot ", number, " lies in the arena and in a gap");
    if (!is_address(place) || place.length() != slot.size)
      violations.add("slot ", number, " of ", slot.size, " bytes lies in a gap from ", place.lower, " to ",
                     place.upper);
    if (place.lower % plan.alignment != 0)
      violations.add("slot ", number, " at ", place.lower, " is not aligned to ", plan.alignment);
  }
}

/// Whether it has the form of a plan, so that the rest can be asked.
bool check_form(const Plan& plan, Violations& violations) {
  if (plan.alignment < 1) {
    violations.add("the plan's alignment is ", plan.alignment);
  } else if (plan.prologue > plan.slots.size()) {
    violations.add("the plan's prologue of ", plan.prologue, " is longer than the plan");
  } else if (plan.steps < 1 || (plan.slots.size() - plan.prologue) % plan.steps != 0) {
    violations.add("what repeats, ", plan.slots.size() - plan.prologue, " slots, is no ", plan.steps,
                   " steps");
  } else if (plan.prologue_steps > kEventsOfRequest * plan.prologue) {
    violations.add("a prologue of ", plan.prologue, " requests has no ", plan.prologue_steps, " steps");
  } else {
    return true;
  }
  return false;
}

/// What a plan says without its trace. Whether it has the form of a plan at all.
bool check_slots(const Plan& plan, Violations& violations) {
  if (!check_form(plan, violations)) return false;
  check_each_slot(plan, violations);
  check_each_gap(plan, violations);
  check_turns(plan, violations);
  const std::vector<Rectangle> slots = unrolled(plan);
  check_overlaps(slots, violations);
  check_stream_gaps(slots, plan.stream_gap, violations);
  check_lengths(plan, violations);
  check_arena(plan, violations);
  return true;
}

/// Whether a run comes behind another as the job makes its requests: of the slots only those of the step come
/// again.
bool follows(const Plan& plan, const Run& run, const Run& before) {
  const bool comes_again = run.slot >= plan.prologue;
  return run.request >= before.request + std::uint64_t{before.count} &&
         (comes_again || run.slot >= before.slot + std::uint64_t{before.count});
}

/// The slot of every request, -1 for none; reports runs that make no sense.
std::vector<std::int64_t> slots_of_requests(const Plan& plan, const Trace& trace, Violations& violations) {
  std::vector<std::int64_t> slot_of(trace.requests.size(), -1);
  Run before;
  for (const Run& run : plan.runs) {
    if (!follows(plan, run, before))
      violations.add("the run from request ", run.request, " on does not follow the one before it");
    before = run;
    if (run.request > trace.requests.size() || run.count > trace.requests.size() - run.request ||
        run.slot > plan.slots.size() || run.count > plan.slots.size() - run.slot) {
      violations.add("the plan speaks of requests ", run.request, " to ",
                     run.request + std::uint64_t{run.count}, ", which the trace or the plan does not have");
      continue;
    }
    for (std::uint32_t i = 0; i < run.count; ++i) slot_of[run.request + i] = std::int64_t{run.slot} + i;
  }
  return slot_of;
}

/// Reports slots that stand for no request, or are of the prologue and stand for several. Of steps that
/// repeat together, one that has the request is enough.
void check_counts(const Plan& plan, const std::vector<std::int64_t>& slot_of, Violations& violations) {
  const std::size_t length = step_length(plan);
  const auto in_first_step = [&](std::size_t slot) {
    return slot < plan.prologue ? slot : plan.prologue + (slot - plan.prologue) % length;
  };
  std::vector<std::size_t> requests(plan.prologue + length, 0);
  for (const std::int64_t slot : slot_of)
    if (slot >= 0) ++requests[in_first_step(static_cast<std::size_t>(slot))];
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    if (requests[in_first_step(i)] == 0) violations.add("slot ", i, " stands for no request");
    if (requests[in_first_step(i)] > 1 && i < plan.prologue)
      violations.add("slot ", i, " of the prologue stands for ", requests[i], " requests");
  }
}

/// Reports requests that live when their slot's death has come, counted in slots as the plan counts.
void check_deaths(const Plan& plan, const Trace& trace, const std::vector<std::int64_t>& slot_of,
                  Violations& violations) {
  const auto length = static_cast<Time>(plan.slots.size() - plan.prologue);
  std::vector<Time> births, numbers, shifts;  // of requests with a slot
  std::vector<std::size_t> requests;
  Time shift = 0;
  std::int64_t last = -1;
  for (std::size_t i = 0; i < slot_of.size(); ++i) {
    if (slot_of[i] < 0) continue;
    if (slot_of[i] <= last) shift += length;  // the next step
    last = slot_of[i];
    requests.push_back(i);
    births.push_back(trace.requests[i].life.lower);
    numbers.push_back(last + shift);
    shifts.push_back(shift);
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto slot = static_cast<std::size_t>(slot_of[requests[i]]);
    const auto next = std::lower_bound(births.begin(), births.end(), trace.requests[requests[i]].life.upper);
    const Time alive_at = numbers[static_cast<std::size_t>(next - births.begin()) - 1];
    if (alive_at >= later(plan.slots[slot].death, shifts[i]))
      violations.add("request ", requests[i], " lives longer than slot ", slot);
  }
}

/// Reports requests that are not what their slot is for.
void check_match(const Plan& plan, const Trace& trace, const std::vector<std::int64_t>& slot_of,
                 Violations& violations) {
  for (std::size_t i = 0; i < slot_of.size(); ++i) {
    if (slot_of[i] < 0) continue;
    const Slot& slot = plan.slots[static_cast<std::size_t>(slot_of[i])];
    const Request& request = trace.requests[i];
    const Bytes held = held_by(request);
    if (held > slot.size || (!slot.varying && slot.size - held >= plan.alignment))
      violations.add("request ", i, " of ", request.size, " bytes does not match slot ", slot_of[i], " of ",
                     slot.size);
    if (request.stream != slot.stream)
      violations.add("request ", i, " is on another stream than slot ", slot_of[i]);
  }
}

void check_requests(const Plan& plan, const Trace& trace, Violations& violations) {
  const std::vector<std::int64_t> slot_of = slots_of_requests(plan, trace, violations);
  const std::vector<Interval> places = places_of(plan);
  check_counts(plan, slot_of, violations);
  check_match(plan, trace, slot_of, violations);
  check_deaths(plan, trace, slot_of, violations);
  std::vector<Rectangle> rectangles;
  for (std::size_t i = 0; i < slot_of.size(); ++i) {
    if (slot_of[i] < 0) continue;
    const Interval& place = places[static_cast<std::size_t>(slot_of[i])];
    if (place.empty()) continue;
    const Request& request = trace.requests[i];
    rectangles.push_back({request.life, place.lower, std::min(held_by(request), place.length()),
                          request.stream, "request", i});
  }
  check_overlaps(rectangles, violations);
}

}  // namespace

std::vector<std::string> check_plan(const Plan& plan, const Trace& trace, std::size_t most) {
  Violations violations(most);
  if (plan.fingerprint != fingerprint_of(trace)) {
    violations.add("the plan was made from another trace (", plan.source, ")");
    return violations.take();
  }
  if (!check_slots(plan, violations)) return violations.take();
  check_requests(plan, trace, violations);
  return violations.take();
}

std::vector<std::string> check_plan(const Plan& plan, std::size_t most) {
  Violations violations(most);
  (void)check_slots(plan, violations);
  return violations.take();
}

std::vector<std::string> check_placement(const std::vector<Lifespan>& lives, const std::vector<Bytes>& sizes,
                                         const std::vector<Bytes>& offsets,
                                         const std::vector<std::string>& names, std::size_t most) {
  Violations violations(most);
  std::vector<Rectangle> rectangles;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    Rectangle item{lives[i], offsets[i], sizes[i], 0, "item", i};
    if (!names.empty()) {
      item.kind = names[i];
      item.number.reset();
    }
    if (offsets[i] < 0) violations.add(name_of(item), " lies below 0");
    if (sizes[i] > std::numeric_limits<Bytes>::max() - std::max<Bytes>(offsets[i], 0)) {
      violations.add(name_of(item), " at ", offsets[i], " ends beyond all numbers");
      continue;
    }
    rectangles.push_back(item);
  }
  check_overlaps(rectangles, violations);
  return violations.take();
}

}  // namespace stweaver
