#include "plan/witnesses.h"

#include <utility>

namespace stweaver::exact {

void Witnesses::set(std::uint32_t section, Rank u) {
  if (of_[section] != kNone) {
    (previous_[section] == kNone ? first_[of_[section]] : next_[previous_[section]]) = next_[section];
    if (next_[section] != kNone) previous_[next_[section]] = previous_[section];
  }
  of_[section] = u;
  if (u == kNone) return;
  previous_[section] = kNone;
  next_[section] = std::exchange(first_[u], section);
  if (next_[section] != kNone) previous_[next_[section]] = section;
}

}  // namespace stweaver::exact
