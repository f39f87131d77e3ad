#include "plan/exact.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

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

}  // namespace

ExactResult exact_search(const Puzzle& puzzle, Bytes capacity, const ExactOptions& options) {
  ExactResult result;
  if (puzzle.items.size() > kExactItems || capacity > kExactCapacity) return result;
  const Board board(puzzle, capacity);
  const Budget budget{.deadline = options.deadline, .stop = options.stop};
  const std::int64_t first_round = options.shuffled ? kKeys : 0;
  const std::int64_t first_nodes = kFirstNodes * static_cast<std::int64_t>(puzzle.items.size() + 1);
  // Thread t makes the attempts t, t + threads, ...: who finds what does not depend on who is faster.
  struct Found {
    std::int64_t round = std::numeric_limits<std::int64_t>::max();
    Placement placement;
  };
  const int threads = std::max(1, options.threads);
  std::vector<Found> found(static_cast<std::size_t>(threads));
  std::atomic<std::int64_t> first_found = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> nodes = 0;
  std::atomic<bool> impossible = false;
  const auto work = [&](int thread) {
    exact::Nogoods nogoods;
    std::int64_t used = 0;
    for (std::int64_t round = first_round + thread;
         round < first_found && !impossible && used < options.nodes; round += threads) {
      Attempt attempt(board, strategy_of(board, round, options.seed), nogoods,
                      std::min(first_nodes * luby((round - first_round) / threads), options.nodes - used),
                      budget);
      const Verdict verdict = attempt.run();
      used += attempt.nodes();
      if (verdict == Verdict::kImpossible) impossible = true;
      if (verdict == Verdict::kFound) {
        found[static_cast<std::size_t>(thread)] = {round, attempt.placement()};
        std::int64_t first = first_found;
        while (round < first && !first_found.compare_exchange_weak(first, round)) {
        }
      }
      if (budget.over()) break;
    }
    nodes += used;
  };
  {
    std::vector<std::jthread> helpers;
    for (int thread = 1; thread < threads; ++thread) helpers.emplace_back(work, thread);
    work(0);
  }
  const auto best = std::min_element(found.begin(), found.end(),
                                     [](const Found& a, const Found& b) { return a.round < b.round; });
  result.nodes = nodes;
  if (first_found != std::numeric_limits<std::int64_t>::max()) {
    result.verdict = Verdict::kFound;
    result.placement = std::move(best->placement);
  } else if (impossible) {
    result.verdict = Verdict::kImpossible;
  }
  return result;
}

}  // namespace stweaver
