// Random numbers that are the same on every machine; the distributions of <random> are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace stweaver::pareto {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// In the open interval (0, 1).
  double uniform() { return (static_cast<double>(engine_() >> 11U) + 0.5) * 0x1p-53; }

  /// In [0, count), for a count above 0.
  std::size_t below(std::size_t count) {
    return static_cast<std::size_t>(uniform() * static_cast<double>(count));
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace stweaver::pareto
