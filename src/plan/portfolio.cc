#include "plan/portfolio.h"

#include <algorithm>
#include <cstddef>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/parallel_for.h"

namespace stweaver {
namespace {

// Work is counted in placements of one item, so that what a large instance gets does not depend on the
// machine.

/// The portfolio has no more to give after so much work without a better placement.
constexpr std::size_t kPatienceWork = 6'000'000;
/// A member that has not improved itself for so many rounds is done.
constexpr int kPatience = 60;
/// After this many rounds, and after each doubling, only the better half of the members goes on.
constexpr int kFirstCut = 32;

/// A member in the race.
struct Runner {
  Member member;
  bool running = true;
  Bytes best_peak = std::numeric_limits<Bytes>::max();
  int stale = 0;                       ///< rounds since best_peak improved
  std::optional<Placement> placement;  ///< of this round
  Bytes peak = 0;                      ///< of `placement`
};

std::vector<Runner*> active_in(std::vector<Runner>& runners, int round) {
  std::vector<Runner*> active;
  for (Runner& runner : runners) {
    if (runner.running && runner.member.first_round <= round) active.push_back(&runner);
  }
  return active;
}

/// One step of each. Who meets the goal stops all behind it, so that the first of those who meet it is the
/// same however fast each of them is.
void run_round(const Instance& instance, const std::vector<Runner*>& active, int threads, Bytes goal,
               const Budget& budget) {
  std::vector<std::stop_source> stops(active.size());
  const bool is_first = budget.peak == Budget().peak;
  // Whatever the timeout and whoever stops the rest, there is a placement: the very first step knows neither.
  const std::stop_callback stop_all(budget.stop, [&] {
    for (std::size_t i = is_first ? 1 : 0; i < stops.size(); ++i) stops[i].request_stop();
  });
  parallel_for(active.size(), threads, [&](std::size_t i) {
    Runner& runner = *active[i];
    Budget own = budget;
    own.stop = stops[i].get_token();
    if (is_first && i == 0) own.deadline = Clock::time_point::max();
    runner.placement = own.over() ? std::nullopt : runner.member.step(own);
    if (!runner.placement) return;
    runner.peak = peak_of(instance, *runner.placement);
    if (runner.peak > goal) return;
    for (std::size_t behind = i + 1; behind < active.size(); ++behind) stops[behind].request_stop();
  });
  for (Runner* runner : active) {
    const bool improved = runner->placement && runner->peak < runner->best_peak;
    runner->stale = improved ? 0 : runner->stale + 1;
    if (improved) runner->best_peak = runner->peak;
    runner->running = runner->placement.has_value() && runner->stale < kPatience;
  }
}

/// Stops the worse half.
void cut(std::vector<Runner*> active) {
  std::stable_sort(active.begin(), active.end(),
                   [](const Runner* a, const Runner* b) { return a->best_peak < b->best_peak; });
  for (std::size_t i = (active.size() + 1) / 2; i < active.size(); ++i) active[i]->running = false;
}

}  // namespace

PortfolioResult run_portfolio(const Instance& instance, const PortfolioOptions& options) {
  const Clock::time_point start = Clock::now();
  const int hardware = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  PortfolioResult result;
  result.threads = options.threads > 0 ? options.threads : hardware;
  result.lower_bound = lower_bound_of(instance);
  const Bytes goal = align_up(result.lower_bound, options.page);

  std::vector<Runner> runners;
  for (Member& member : portfolio_members(instance, result.lower_bound)) {
    if (std::find(options.without.begin(), options.without.end(), member.part) == options.without.end())
      runners.emplace_back().member = std::move(member);
  }
  Budget budget{.deadline = deadline_after(start, options.timeout), .stop = options.stop};
  result.peak = budget.peak;
  int next_cut = kFirstCut;
  std::size_t stale = 0;  // work since the last improvement
  for (int round = 0; stale < kPatienceWork; ++round) {
    if (round == next_cut) {
      cut(active_in(runners, round));
      next_cut *= 2;
    }
    const std::vector<Runner*> active = active_in(runners, round);
    const bool more = std::any_of(runners.begin(), runners.end(), [](const Runner& r) { return r.running; });
    if (!more) break;
    run_round(instance, active, result.threads, goal, budget);
    stale += active.size() * std::max<std::size_t>(1, instance.items.size());
    for (Runner* runner : active) {
      if (!runner->placement || runner->peak >= result.peak) continue;
      result.peak = runner->peak;
      result.winner = runner->member.name;
      result.placement = *std::exchange(runner->placement, std::nullopt);
      stale = 0;
      if (options.improved) options.improved(result.peak);
    }
    budget.peak = result.peak;
    if (result.peak <= goal || budget.over()) break;
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace stweaver
