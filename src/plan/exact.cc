#include "plan/exact.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "base/parallel_for.h"
#include "plan/attempt.h"
#include "plan/board.h"

namespace stweaver {
namespace {

using exact::Attempt;
using exact::Board;
using exact::Strategy;

/// Nodes of the first attempts, for each item; Luby's sequence multiplies it. Without a failure it takes one.
constexpr std::int64_t kFirstNodes = 2;
/// What items are ordered by; so many attempts come before those that shuffle.
constexpr std::int64_t kKeys = 4;

/// Luby's sequence: 1 1 2 1 1 2 4 1 1 2 ...; the number `i` from 0.
std::int64_t luby(std::int64_t i) {
  // It begins with itself up to before a power of two, and then has that power.
  auto n = static_cast<std::uint64_t>(i) + 1;
  while (!std::has_single_bit(n + 1)) n -= std::bit_floor(n) - 1;
  return static_cast<std::int64_t>((n + 1) / 2);
}

/// Attempt number `round` tries the largest items first, by length, area, size, or by how full it gets where
/// they live, shuffled a little from the fifth attempt on; four attempts go by choices alone, the next four
/// by failures too.
Strategy strategy_of(const Board& board, std::int64_t round, std::uint64_t seed) {
  constexpr double kNoise = 0.6;
  std::mt19937_64 random(exact::hash_of(seed) + static_cast<std::uint64_t>(round));
  const auto noise = [&] {
    if (round < kKeys) return 1.0;
    constexpr double kRange = 1 << 20;
    return std::exp(kNoise * (2 * static_cast<double>(random() % (1 << 20)) / kRange - 1));
  };
  std::vector<double> keys;
  for (ItemId id = 0; id < board.puzzle.items.size(); ++id) {
    const Interval& span = board.sections.spans[id];
    const auto length = static_cast<double>(span.length());
    const auto size = static_cast<double>(board.puzzle.items[id].size);
    const Bytes fullest = *std::max_element(board.load.begin() + span.lower, board.load.begin() + span.upper);
    const std::array<double, kKeys> key = {length, size * length, size,
                                           static_cast<double>(fullest) + length};
    keys.push_back(key[static_cast<std::size_t>(round % kKeys)] * noise());
  }
  std::vector<ItemId> order(keys.size());
  std::iota(order.begin(), order.end(), ItemId{0});
  std::stable_sort(order.begin(), order.end(), [&](ItemId a, ItemId b) { return keys[a] > keys[b]; });
  return {std::move(order), round / kKeys % 2 == 1};
}

constexpr std::int64_t kNobody = std::numeric_limits<std::int64_t>::max();

}  // namespace

struct ExactSearch::State {
  /// Makes every so many-th attempt: who finds what does not depend on who is faster.
  struct Worker {
    std::int64_t next = 0;  ///< attempt
    exact::Nogoods nogoods = {};
    std::int64_t nodes = 0;  ///< looked at
    Placement placement = {};
  };
  /// What the workers tell each other.
  struct Outcome {
    std::atomic<std::int64_t> first_found = kNobody;  ///< attempt
    std::atomic<bool> is_impossible = false;
  };

  State(const Puzzle& puzzle, Bytes capacity, ExactOptions own_options)
      : board(puzzle, capacity),
        options(std::move(own_options)),
        budget{.deadline = options.deadline, .stop = options.stop},
        workers(static_cast<std::size_t>(std::max(1, options.threads))) {
    for (std::size_t i = 0; i < workers.size(); ++i) workers[i].next = static_cast<std::int64_t>(i);
  }

  /// The attempt that runs out of `nodes` is not made again: what failed in it is known.
  void work(Worker& worker, std::int64_t nodes, Outcome& outcome) const {
    const auto threads = static_cast<std::int64_t>(workers.size());
    const std::int64_t first_nodes = kFirstNodes * static_cast<std::int64_t>(board.puzzle.items.size() + 1);
    const std::int64_t shift = options.shuffled ? kKeys : 0;
    const std::int64_t end = worker.nodes + std::min(nodes, kNobody - worker.nodes);
    while (worker.next < outcome.first_found && !outcome.is_impossible && worker.nodes < end &&
           !budget.over()) {
      Attempt attempt(board, strategy_of(board, worker.next + shift, options.seed), worker.nogoods,
                      std::min(first_nodes * luby(worker.next / threads), end - worker.nodes), budget);
      const Verdict verdict = attempt.run();
      worker.nodes += attempt.nodes();
      if (verdict == Verdict::kImpossible) outcome.is_impossible = true;
      if (verdict == Verdict::kFound) {
        worker.placement = attempt.placement();
        std::int64_t first = outcome.first_found;
        while (worker.next < first && !outcome.first_found.compare_exchange_weak(first, worker.next)) {
        }
        return;
      }
      worker.next += threads;
    }
  }

  Board board;
  ExactOptions options;
  Budget budget;
  std::vector<Worker> workers;
};

ExactSearch::ExactSearch(const Puzzle& puzzle, Bytes capacity, const ExactOptions& options) {
  if (puzzle.items.size() <= kExactItems && capacity <= kMostMemory)
    state_ = std::make_unique<State>(puzzle, capacity, options);
}

ExactSearch::~ExactSearch() = default;

ExactResult ExactSearch::run(std::int64_t nodes, Clock::time_point deadline) {
  ExactResult result;
  if (!state_) return result;
  state_->budget.deadline = std::min(state_->options.deadline, deadline);
  std::vector<State::Worker>& workers = state_->workers;
  State::Outcome outcome;
  parallel_for(workers.size(), static_cast<int>(workers.size()),
               [&](std::size_t i) { state_->work(workers[i], nodes, outcome); });
  for (const State::Worker& worker : workers) result.nodes += worker.nodes;
  if (outcome.first_found != kNobody) {
    result.verdict = Verdict::kFound;
    result.placement = workers[static_cast<std::size_t>(outcome.first_found) % workers.size()].placement;
  } else if (outcome.is_impossible) {
    result.verdict = Verdict::kImpossible;
  }
  return result;
}

ExactResult exact_search(const Puzzle& puzzle, Bytes capacity, const ExactOptions& options) {
  return ExactSearch(puzzle, capacity, options).run(options.nodes);
}

}  // namespace stweaver
