// `diff`: what two jobs hold at their peaks.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "report/moments.h"

namespace stweaver {

/// Requests alike in both jobs: made at one line of code or, where a trace knows none, of one size; of one
/// class.
struct Change {
  std::string what;
  LifeClass life = LifeClass::kPersistent;
  std::array<Bytes, 2> bytes{};           ///< alive at the peak, of the first and of the second job
  std::array<std::size_t, 2> requests{};  ///< how many those are
};

struct Difference {
  std::array<std::string, 2> names;
  std::array<Bytes, 2> peaks{};
  std::array<Time, 2> peak_times{};                   ///< of the events that reach them
  bool by_line = false;                               ///< both traces know lines of code
  std::array<std::array<Bytes, 2>, 3> class_bytes{};  ///< per LifeClass
  std::vector<Change> changes;                        ///< where bytes differ, the largest difference first
};

Difference difference_of(const Trace& a, const Trace& b);

/// The `top` largest changes as a table.
std::string diff_text(const Difference& difference, std::size_t top);
nlohmann::ordered_json diff_json(const Difference& difference);

}  // namespace stweaver
