// All that is worth keeping of what a search has seen, however much that is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace stweaver::pareto {

/// The non-dominated of all points that were offered, each with what belongs to it. Of points with equal
/// objectives it keeps the last.
template <typename Payload>
class Archive {
 public:
  struct Entry {
    std::vector<double> objectives;
    Payload payload;
  };

  /// Keeps the point, and lets go those that it is at least as good as, unless one that is kept is better
  /// somewhere and nowhere worse. Returns whether it did. All points have equally many objectives.
  bool offer(std::span<const double> objectives, Payload payload) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!is_nowhere_above(entries_[i].objectives, objectives)) continue;
      if (std::ranges::equal(entries_[i].objectives, objectives)) {
        entries_[i].payload = std::move(payload);
        return true;
      }
      // Who turns away one point is likely to turn away the next: it is asked earlier.
      std::swap(entries_[i], entries_[i / 2]);
      return false;
    }
    std::erase_if(entries_,
                  [&](const Entry& entry) { return is_nowhere_above(objectives, entry.objectives); });
    entries_.push_back({{objectives.begin(), objectives.end()}, std::move(payload)});
    return true;
  }

  /// In no order that means anything.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  static bool is_nowhere_above(std::span<const double> a, std::span<const double> b) {
    return std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) { return x <= y; });
  }

  std::vector<Entry> entries_;
};

}  // namespace stweaver::pareto
