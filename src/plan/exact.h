// Exact search: places every item below a capacity, or proves that nobody can.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <stop_token>

#include "plan/packer.h"
#include "plan/puzzle.h"

namespace stweaver {

/// More items than this are refused (kUndecided): what the search keeps grows with their square. So are
/// capacities above kMostMemory.
inline constexpr std::size_t kExactItems = 4000;

enum class Verdict : std::uint8_t {
  kFound,
  kImpossible,  ///< proven: nothing fits below the capacity
  kUndecided,   ///< out of nodes or time
};

struct ExactOptions {
  int threads = 1;
  std::int64_t nodes =
      std::numeric_limits<std::int64_t>::max();  ///< to look at, on each thread; of exact_search()
  Clock::time_point deadline = Clock::time_point::max();
  std::uint64_t seed = 1;
  bool shuffled = false;  ///< no attempt in an order that is the same for every seed
  std::stop_token stop = {};
};

struct ExactResult {
  Verdict verdict = Verdict::kUndecided;
  Placement placement;  ///< with kFound; no item ends above capacity - Item::above
  std::int64_t nodes = 0;
};

/// A tree search from the floor upwards. At a *well*, a stretch of sections whose floor is lower than at both
/// of its ends, nothing that reaches over an end can lie on the floor. So for any section of the well, either
/// one of the items that live there and inside the well lies on the floor, or nobody does and the bytes up to
/// the next possible height are lost; a section can lose only what its load leaves. The search goes on where
/// the choices are fewest; it settles parts of time that no item connects one by one, knows states that
/// failed before, and begins anew in another order when it gets stuck (Luby et al. 1993).
///
/// The outcome depends on the puzzle, the options, threads included, and the nodes of each run, not on
/// timing, unless the deadline strikes. (States are told apart by 64-bit hashes; a collision could prove
/// impossible what is not, at odds of about one to a million million for a million states.)
class ExactSearch {
 public:
  /// `puzzle` must outlive this.
  ExactSearch(const Puzzle& puzzle, Bytes capacity, const ExactOptions& options);
  ~ExactSearch();
  ExactSearch(const ExactSearch&) = delete;
  ExactSearch& operator=(const ExactSearch&) = delete;

  /// Goes on where the last run stopped, with so many nodes more on each thread, until the options' deadline
  /// or this one.
  ExactResult run(std::int64_t nodes, Clock::time_point deadline = Clock::time_point::max());

 private:
  struct State;
  std::unique_ptr<State> state_;  ///< none: refused
};

/// One run of options.nodes.
ExactResult exact_search(const Puzzle& puzzle, Bytes capacity, const ExactOptions& options);

}  // namespace stweaver
