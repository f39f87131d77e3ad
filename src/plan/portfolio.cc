#include "plan/portfolio.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include "plan/best_fit.h"
#include "plan/class_sweep.h"
#include "plan/homophase.h"
#include "plan/skyline.h"
#include "plan/squeaky_wheel.h"

namespace stweaver {
namespace {

/// When the one-shot constructors join: the quick ones at once, those that are costly on large instances
/// later.
constexpr int kQuickRound = 0;
constexpr int kCostlyRound = 12;
/// A member that has not improved itself for so many rounds is done.
constexpr int kPatience = 60;
/// After this many rounds, and after each doubling, only the better half of the members goes on.
constexpr int kFirstCut = 32;

Member wheel(const Instance& instance, const std::shared_ptr<const BirthOrder>& order,
             const std::string& name, double base, const Sweep& sweep, Bytes bound) {
  const auto state =
      std::make_shared<SqueakyWheel>(instance, order, duration_classes(instance, base, 1), sweep, bound);
  return {name, 0, [state](const Budget& budget) { return state->step(budget); }};
}

/// A member that has one placement to give.
Member one_shot(const std::string& name, int first_round,
                std::function<std::optional<Placement>(const Budget&)> pack) {
  return {name, first_round, [pack = std::move(pack), done = false](const Budget& budget) mutable {
            return std::exchange(done, true) ? std::nullopt : pack(budget);
          }};
}

/// A member in the race.
struct Runner {
  Member member;
  bool running = true;
  Bytes best_peak = std::numeric_limits<Bytes>::max();
  int stale = 0;                       ///< rounds since best_peak improved
  std::optional<Placement> placement;  ///< of this round
  Bytes peak = 0;                      ///< of `placement`
};

/// Calls `work(i)` for i in [0, count) on `threads` threads. The first exception is passed on.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto loop = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < std::min(count, static_cast<std::size_t>(threads)); ++i)
      helpers.emplace_back(loop);
    loop();
  }
  if (failure) std::rethrow_exception(failure);
}

void run_round(const Instance& instance, std::vector<Runner>& runners, int round, int threads,
               const Budget& budget) {
  std::vector<Runner*> active;
  for (Runner& runner : runners) {
    if (runner.running && runner.member.first_round <= round) active.push_back(&runner);
  }
  parallel_for(active.size(), threads, [&](std::size_t i) {
    Runner& runner = *active[i];
    runner.placement = runner.member.step(budget);
    if (runner.placement) runner.peak = peak_of(instance, *runner.placement);
  });
  for (Runner* runner : active) {
    const bool improved = runner->placement && runner->peak < runner->best_peak;
    runner->stale = improved ? 0 : runner->stale + 1;
    if (improved) runner->best_peak = runner->peak;
    runner->running = runner->placement.has_value() && runner->stale < kPatience;
  }
}

/// Stops the worse half of those that have begun.
void cut(std::vector<Runner>& runners, int round) {
  std::vector<Runner*> active;
  for (Runner& runner : runners) {
    if (runner.running && runner.member.first_round <= round) active.push_back(&runner);
  }
  std::stable_sort(active.begin(), active.end(),
                   [](const Runner* a, const Runner* b) { return a->best_peak < b->best_peak; });
  for (std::size_t i = (active.size() + 1) / 2; i < active.size(); ++i) active[i]->running = false;
}

Clock::time_point deadline_after(Clock::time_point start, double seconds) {
  constexpr double kForeverSeconds = 1e9;
  if (!(seconds < kForeverSeconds)) return Clock::time_point::max();
  return start +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::max(seconds, 0.0)));
}

}  // namespace

std::vector<Member> portfolio_members(const Instance& instance, Bytes lower_bound) {
  std::vector<Member> members;
  const auto forward = std::make_shared<const BirthOrder>(birth_order(instance, false));
  const auto backward = std::make_shared<const BirthOrder>(birth_order(instance, true));
  for (const auto& [name, base, fit, mirrored] : {
           std::tuple("sweep 4 mirrored", 4.0, Fit::kFirst, true),
           std::tuple("sweep 4", 4.0, Fit::kFirst, false),
           std::tuple("sweep 8", 8.0, Fit::kFirst, false),
           std::tuple("sweep 8 mirrored", 8.0, Fit::kFirst, true),
           std::tuple("sweep 2", 2.0, Fit::kFirst, false),
           std::tuple("sweep 2 mirrored", 2.0, Fit::kFirst, true),
           std::tuple("sweep 4 best fit", 4.0, Fit::kBest, false),
           std::tuple("sweep 16", 16.0, Fit::kFirst, false),
       }) {
    members.push_back(
        wheel(instance, mirrored ? backward : forward, name, base, {fit, mirrored}, lower_bound));
  }
  const auto add = [&](const std::string& name, int round, auto pack) {
    members.push_back(one_shot(name, round, pack));
  };
  if (!is_plain(instance)) return members;
  for (const auto& [name, key] :
       {std::pair("skyline by area", SkylineKey::kArea), std::pair("skyline by size", SkylineKey::kSize),
        std::pair("skyline by duration", SkylineKey::kDuration)}) {
    add(name, kQuickRound,
        [&instance, key = key](const Budget& budget) { return skyline(instance, key, budget); });
  }
  add("homophase", kCostlyRound, [&instance](const Budget& budget) { return homophase(instance, budget); });
  for (const auto& [name, order, fit] : {
           std::tuple("best fit by size", Order::kSize, Fit::kBest),
           std::tuple("best fit by area", Order::kArea, Fit::kBest),
           std::tuple("best fit by duration", Order::kDuration, Fit::kBest),
           std::tuple("best fit by breadth", Order::kBreadth, Fit::kBest),
           std::tuple("first fit by size", Order::kSize, Fit::kFirst),
       }) {
    add(name, kCostlyRound, [&instance, order = order, fit = fit](const Budget& budget) {
      return best_fit(instance, order, fit, budget);
    });
  }
  return members;
}

PortfolioResult run_portfolio(const Instance& instance, const PortfolioOptions& options) {
  const Clock::time_point start = Clock::now();
  const int hardware = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  PortfolioResult result;
  result.threads = options.threads > 0 ? options.threads : hardware;
  result.lower_bound = lower_bound_of(instance);

  // Whatever the timeout, there is a placement: one plain sweep without a deadline.
  result.winner = "sweep";
  result.placement = *class_sweep(instance, duration_classes(instance, 4, 1), {}, Budget());
  result.peak = peak_of(instance, result.placement);

  std::vector<Runner> runners;
  for (Member& member : portfolio_members(instance, result.lower_bound))
    runners.emplace_back().member = std::move(member);
  const auto running = [](const Runner& runner) { return runner.running; };
  Budget budget{result.peak, deadline_after(start, options.timeout)};
  int next_cut = kFirstCut;
  for (int round = 0; result.peak > result.lower_bound && !budget.over() &&
                      std::any_of(runners.begin(), runners.end(), running);
       ++round) {
    if (round == next_cut) {
      cut(runners, round);
      next_cut *= 2;
    }
    run_round(instance, runners, round, result.threads, budget);
    for (Runner& runner : runners) {
      if (!runner.placement || runner.peak >= result.peak) continue;
      result.peak = runner.peak;
      result.winner = runner.member.name;
      result.placement = *std::exchange(runner.placement, std::nullopt);
    }
    budget.peak = result.peak;
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace stweaver
