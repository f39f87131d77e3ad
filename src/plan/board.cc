#include "plan/board.h"

#include <algorithm>
#include <utility>

namespace stweaver::exact {

Board::Board(const Puzzle& of, Bytes capacity) : puzzle(of), sections(sections_of(of)) {
  load.resize(sections.count());
  for (std::size_t s = 0; s < sections.count(); ++s) {
    const Bytes below = capacity - sections.sections[s].above;
    slack.push_back(below - blocked(s, 0, below));
  }
  for (ItemId id = 0; id < puzzle.items.size(); ++id) {
    std::vector<Interval> met;
    for (const Interval& span : {sections.spans[id], sections.echoes[id]}) {
      if (!span.empty()) ++pieces;
      for (auto s = static_cast<std::size_t>(span.lower); s < static_cast<std::size_t>(span.upper); ++s) {
        slack[s] -= puzzle.items[id].size;
        load[s] += puzzle.items[id].size;
        met.insert(met.end(), sections.sections[s].blocked.begin(), sections.sections[s].blocked.end());
      }
    }
    ceilings.push_back(capacity - puzzle.items[id].above);
    join(met);
    blocked_for.push_back(std::move(met));
  }
}

Bytes Board::blocked(std::size_t s, Bytes from, Bytes to) const {
  Bytes sum = 0;
  for (const Interval& interval : sections.sections[s].blocked) {
    if (interval.lower >= to) break;
    sum += std::max<Bytes>(0, std::min(interval.upper, to) - std::max(interval.lower, from));
  }
  return sum;
}

Bytes Board::next_top(std::size_t s, Bytes height) const {
  for (const Interval& interval : sections.sections[s].blocked) {
    if (interval.upper > height) return interval.upper;
  }
  return kNever;
}

Bytes Board::fit(ItemId id, Bytes from) const {
  const Bytes size = puzzle.items[id].size;
  for (const Interval& interval : blocked_for[id]) {
    if (interval.lower >= from + size) break;
    from = std::max(from, interval.upper);
  }
  return from + size <= ceilings[id] ? from : kNever;
}
}  // namespace stweaver::exact
