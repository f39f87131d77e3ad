// What a block would take at its ends, of whatever extents are there.
#pragma once

#include "arena/memory.h"

namespace stweaver {

inline Memory::Ends ends_of(const Memory& memory, const Interval& place) {
  std::size_t first = kNoExtent, last = kNoExtent, from = 0;
  memory.visit_numbers(place, from, [&](std::size_t number) {
    if (memory.extent(number).lower <= place.lower) first = number;
    if (memory.extent(number).upper >= place.upper) last = number;
    return true;
  });
  return memory.ends_of(place, first, last);
}

}  // namespace stweaver
