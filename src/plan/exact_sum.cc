#include "plan/exact_sum.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace stweaver {
namespace {

/// Choices that may be tried.
constexpr int kSteps = 2000;

class Choice {
 public:
  Choice(const Counts& sizes, Bytes slack) : slack_(slack) {
    Bytes unit = 0;
    Bytes total = 0;
    for (const auto& [size, count] : sizes) {
      unit = std::gcd(unit, size);
      total += size * static_cast<Bytes>(count);
      kinds_.push_back({.size = size, .count = count, .unit = unit, .total = total});
    }
    std::reverse(kinds_.begin(), kinds_.end());
  }

  std::optional<Counts> find(Bytes most) {
    if (!descend(0, most)) return std::nullopt;
    Counts taken;
    for (const Kind& kind : kinds_) taken[kind.size] = kind.taken;
    return taken;
  }

 private:
  struct Kind {
    Bytes size = 0;
    std::size_t count = 0;
    Bytes unit = 0;   ///< what all sums of this and smaller ones are multiples of
    Bytes total = 0;  ///< of this and smaller ones
    std::size_t taken = 0;
  };

  bool descend(std::size_t at, Bytes most) {
    if (most <= slack_) return true;
    if (at == kinds_.size() || ++steps_ > kSteps) return false;
    Kind& kind = kinds_[at];
    if (most - slack_ > kind.total || most % kind.unit > slack_) return false;
    kind.taken = std::min(kind.count, static_cast<std::size_t>(most / kind.size));
    for (;; --kind.taken) {
      if (descend(at + 1, most - static_cast<Bytes>(kind.taken) * kind.size)) return true;
      if (kind.taken == 0) return false;
    }
  }

  Bytes slack_;
  std::vector<Kind> kinds_;  // the largest first
  int steps_ = 0;
};

}  // namespace

Bytes sum_of(const Counts& counts) {
  Bytes sum = 0;
  for (const auto& [size, count] : counts) sum += size * static_cast<Bytes>(count);
  return sum;
}

std::optional<Counts> exact_sum(const Counts& sizes, Bytes most, Bytes slack) {
  return Choice(sizes, slack).find(most);
}

}  // namespace stweaver
