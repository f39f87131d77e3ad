// What an exact search places, and time as it sees it.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/instance.h"

namespace stweaver {

/// Bytes that are taken for a while, whatever the search does.
struct Obstacle {
  Lifespan life;
  Interval bytes;
};

/// Items of one lane, to be placed around obstacles and below the persistent stack.
struct Puzzle {
  std::vector<Item> items;
  std::vector<Obstacle> obstacles;
  std::vector<Persistent> persistent;  ///< ordered by birth
};

/// Time cut into *sections*: one for each largest set of items and obstacles that live together. Two of them
/// meet in time if and only if they share a section, so that nothing is lost (the term is minimalloc's).
/// Sections without an item are left out.
struct Sections {
  struct Section {
    Bytes above = 0;                ///< what persistent requests hold
    std::vector<Interval> blocked;  ///< by obstacles; ascending, apart from each other
  };

  std::vector<Section> sections;
  std::vector<Interval> spans;   ///< by item: the sections that it lives in
  std::vector<Interval> echoes;  ///< by item: those of its echo

  [[nodiscard]] std::size_t count() const { return sections.size(); }
};

/// O(n log n) plus what obstacles block in all sections together.
Sections sections_of(const Puzzle& puzzle);

}  // namespace stweaver
