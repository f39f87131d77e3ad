#include "plan/instance.h"

#include <algorithm>
#include <cstddef>
#include <utility>

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

Bytes lower_bound_of(const Instance& instance) {
  std::vector<std::pair<Time, Bytes>> changes;  // sorts frees before births of the same time
  changes.reserve(2 * instance.items.size() + instance.persistent.size());
  for (const Item& item : instance.items) {
    for (const Lifespan& span : {item.life, item.echo}) {
      if (span.empty()) continue;
      changes.emplace_back(span.lower, item.size);
      changes.emplace_back(span.upper, -item.size);
    }
  }
  for (const Persistent& request : instance.persistent) changes.emplace_back(request.birth, request.size);
  std::sort(changes.begin(), changes.end());

  Bytes load = 0;
  Bytes peak = 0;
  for (const auto& [time, change] : changes) {
    load += change;
    peak = std::max(peak, load);
  }
  return peak;
}

}  // namespace stweaver
