#include "plan/instance.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace stweaver {
namespace {

/// What the persistent requests born by then hold, for any time.
class PersistentLoad {
 public:
  explicit PersistentLoad(const std::vector<Persistent>& persistent) {
    for (const Persistent& request : persistent) {
      births_.push_back(request.birth);
      totals_.push_back(total() + request.size);
    }
  }

  [[nodiscard]] Bytes total() const { return totals_.empty() ? 0 : totals_.back(); }

  [[nodiscard]] Bytes at(Time time) const {
    const auto born = std::upper_bound(births_.begin(), births_.end(), time) - births_.begin();
    return born == 0 ? 0 : totals_[static_cast<std::size_t>(born - 1)];
  }

 private:
  std::vector<Time> births_;
  std::vector<Bytes> totals_;
};

constexpr int kEveryLane = -1;  ///< where persistent requests live

/// Of the load, frees before births of the same time.
struct Change {
  Time time = 0;
  Bytes by = 0;
  int lane = 0;

  auto operator<=>(const Change&) const = default;
};

std::vector<Change> changes_of(const Instance& instance) {
  std::vector<Change> changes;
  changes.reserve(2 * instance.items.size() + instance.persistent.size());
  for (const Item& item : instance.items) {
    for (const Lifespan& span : {item.life, item.echo}) {
      if (span.empty()) continue;
      changes.push_back({span.lower, item.size, item.lane});
      changes.push_back({span.upper, -item.size, item.lane});
    }
  }
  for (const Persistent& request : instance.persistent)
    changes.push_back({request.birth, request.size, kEveryLane});
  return changes;
}

/// The largest load of one lane since some time in the past, which moves on.
class RecentPeak {
 public:
  void change(Time time, Bytes by) {
    load_ += by;
    if (!steps_.empty()) steps_.back().until = time;
    while (!steps_.empty() && steps_.back().load <= load_) steps_.pop_back();
    steps_.push_back({load_, kForever});
  }
  Bytes since(Time time) {
    while (!steps_.empty() && steps_.front().until <= time) steps_.pop_front();
    return steps_.empty() ? 0 : steps_.front().load;
  }
  /// When that gets lower by itself; kForever where it does not.
  [[nodiscard]] Time until() const { return steps_.empty() ? kForever : steps_.front().until; }

 private:
  struct Step {
    Bytes load = 0;
    Time until = 0;
  };
  Bytes load_ = 0;
  std::deque<Step> steps_;  ///< each lower than the one before
};

/// The same of all lanes together: looks at those alone in which something changes.
class RecentPeaks {
 public:
  explicit RecentPeaks(int lanes)
      : lanes_(static_cast<std::size_t>(lanes)),
        loads_(static_cast<std::size_t>(lanes), 0),
        awaited_(static_cast<std::size_t>(lanes), kForever) {}

  void change(Time time, Bytes by, int lane) {
    lanes_[static_cast<std::size_t>(lane)].change(time, by);
    look_at(static_cast<std::size_t>(lane));
  }
  Bytes since(Time time) {
    since_ = time;
    while (!ends_.empty() && ends_.top().first <= time) {
      const auto [end, lane] = ends_.top();
      ends_.pop();
      if (end != awaited_[lane]) continue;  // another has taken its place
      awaited_[lane] = kForever;
      look_at(lane);
    }
    return sum_;
  }

 private:
  void look_at(std::size_t lane) {
    sum_ -= loads_[lane];
    loads_[lane] = lanes_[lane].since(since_);
    sum_ += loads_[lane];
    const Time end = lanes_[lane].until();
    if (end != kForever && end != awaited_[lane]) ends_.emplace(end, lane);
    awaited_[lane] = end;
  }

  using End = std::pair<Time, std::size_t>;
  std::vector<RecentPeak> lanes_;
  std::vector<Bytes> loads_;   ///< of each lane, since then
  std::vector<Time> awaited_;  ///< the end of each lane that counts among `ends_`; kForever for none
  Bytes sum_ = 0;
  Time since_ = std::numeric_limits<Time>::min();
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace

void stack_persistent(Instance& instance) {
  const PersistentLoad load(instance.persistent);
  const Time gap = instance.lanes > 1 ? instance.lane_gap : 0;
  for (Item& item : instance.items) item.above = load.at(item.life.upper - 1 + gap);
}

bool is_plain(const Instance& instance) {
  return instance.lanes == 1 && std::all_of(instance.items.begin(), instance.items.end(),
                                            [](const Item& item) { return item.echo.empty(); });
}

Bytes peak_of(const Instance& instance, const Placement& placement) {
  const PersistentLoad load(instance.persistent);
  Bytes peak = load.total();
  for (std::size_t i = 0; i < instance.items.size(); ++i) {
    const Item& item = instance.items[i];
    peak = std::max(peak, placement[i] + item.size + item.above);
  }
  return peak;
}

std::vector<LoadSince> loads_of(const Instance& instance) {
  std::vector<Change> changes = changes_of(instance);
  std::sort(changes.begin(), changes.end());
  std::vector<LoadSince> loads;
  Bytes load = 0;
  for (const Change& change : changes) {
    load += change.by;
    if (loads.empty() || loads.back().time != change.time) loads.push_back({change.time, 0});
    loads.back().load = load;
  }
  return loads;
}

Bytes lower_bound_of(const Instance& instance) {
  std::vector<Change> changes = changes_of(instance);
  std::sort(changes.begin(), changes.end());
  const Time gap = instance.lanes > 1 ? instance.lane_gap : 0;
  RecentPeaks lanes(instance.lanes);
  Bytes persistent = 0;
  Bytes bound = 0;
  for (const auto& [time, by, lane] : changes) {
    if (lane == kEveryLane) {
      persistent += by;
    } else {
      lanes.change(time, by, lane);
    }
    if (by >= 0) bound = std::max(bound, persistent + lanes.since(time - gap));
  }
  return bound;
}

}  // namespace stweaver
