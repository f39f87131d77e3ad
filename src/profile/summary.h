// What a job asks for, in a few numbers.
#pragma once

#include <array>
#include <cstddef>

#include "profile/pattern.h"

namespace stweaver {

struct Summary {
  std::size_t requests = 0;
  std::size_t steps = 0;
  std::size_t streams = 0;  ///< different streams that requests were made on
  std::size_t sizes = 0;    ///< different sizes
  Bytes peak_requested = 0;
  Bytes lower_bound = 0;                  ///< the same with each size rounded up to the alignment
  std::array<std::size_t, 3> by_class{};  ///< requests per LifeClass
  std::array<Bytes, 3> peak_by_class{};   ///< the most bytes of each LifeClass alive at one time
  std::array<std::size_t, 3> by_kind{};   ///< positions of the step per PositionKind
};

/// The largest sum of sizes alive at one time, each rounded up to `alignment`.
Bytes rounded_peak(const Trace& trace, Bytes alignment);

Summary summarize(const Trace& trace, const Steps& steps, const std::vector<LifeClass>& classes,
                  const Pattern& pattern);

}  // namespace stweaver
