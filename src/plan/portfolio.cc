#include "plan/portfolio.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "plan/best_fit.h"
#include "plan/class_sweep.h"
#include "plan/core.h"
#include "plan/exact.h"
#include "plan/homophase.h"
#include "plan/parallel_for.h"
#include "plan/ring.h"
#include "plan/row.h"
#include "plan/skyline.h"
#include "plan/squeaky_wheel.h"

namespace stweaver {
namespace {

// Work is counted in placements of one item, so that what a large instance gets does not depend on the
// machine.

/// Members join as long as one step of all that have joined places no more items than this (but two each
/// round): most large instances are solved by the first few.
constexpr std::size_t kRoundWork = 1'000'000;
/// The portfolio has no more to give after so much work without a better placement.
constexpr std::size_t kPatienceWork = 6'000'000;
/// The constructors that look at every pair of items that meet join after this many rounds, if at all.
constexpr int kCostlyRound = 12;
constexpr std::size_t kCostlyPairs = 30'000'000;
/// The core, where there are no more items than this, and mirrored frames join after so many: what is easy is
/// solved by then.
constexpr int kCoreRound = 4;
constexpr std::size_t kCoreItems = 100'000;
constexpr std::int64_t kCoreSteps = 2'000'000;
/// The core is what lives where less than this share of the bound is free, or than what is missing if that is
/// more. Where that leads nowhere, twice or three times as much may: it brings up what stands in the way.
constexpr Bytes kCoreShare = 256;
constexpr Bytes kWidestCore = 3;
/// The wheel turns so often around one frame, if the bound is not met before.
constexpr int kFrameRounds = 6;
/// A member that has not improved itself for so many rounds is done.
constexpr int kPatience = 60;
/// After this many rounds, and after each doubling, only the better half of the members goes on.
constexpr int kFirstCut = 32;

/// What the sweeps of one instance share, made by the first that asks.
class Orders {
 public:
  explicit Orders(const Instance& instance) : instance_(instance) {}

  std::shared_ptr<const BirthOrder> get(bool mirrored) {
    std::call_once(once_[mirrored ? 1 : 0], [this, mirrored] {
      orders_[mirrored ? 1 : 0] = std::make_shared<const BirthOrder>(birth_order(instance_, mirrored));
    });
    return orders_[mirrored ? 1 : 0];
  }

 private:
  const Instance& instance_;
  std::array<std::once_flag, 2> once_;
  std::array<std::shared_ptr<const BirthOrder>, 2> orders_;
};

/// A squeaky wheel, made when its turn comes.
Member wheel(const Instance& instance, const std::shared_ptr<Orders>& orders, const std::string& name,
             const std::function<Classes(const Instance&)>& classes, const Sweep& sweep, Bytes bound) {
  const auto state = std::make_shared<std::optional<SqueakyWheel>>();
  return {name, Part::kSweeps, 0, [=, &instance](const Budget& budget) {
            if (!*state)
              state->emplace(instance, orders->get(sweep.mirrored), classes(instance), sweep, bound);
            return (*state)->step(budget);
          }};
}

/// One frame after the other, and the best of what a squeaky wheel makes around it: most frames are good for
/// the bound or for nothing, so that each is done with at once.
class FrameWheels {
 public:
  FrameWheels(const Instance& instance, std::shared_ptr<const BirthOrder> order, const Sweep& sweep,
              Bytes bound, NextFrame next_frame)
      : instance_(instance),
        order_(std::move(order)),
        sweep_(sweep),
        classes_(duration_classes(instance, kBase, 1)),
        bound_(bound),
        next_frame_(std::move(next_frame)) {}

  std::optional<Placement> step(const Budget& budget) {
    std::optional<Placement> frame = next_frame_();
    if (!frame) return std::nullopt;
    SqueakyWheel wheel(instance_, order_, classes_, sweep_, bound_, std::move(*frame));
    std::optional<Placement> best;
    Bytes peak = Budget().peak;
    for (int round = 0; round < kFrameRounds && peak > bound_; ++round) {
      std::optional<Placement> placement = wheel.step(budget);
      if (!placement) break;
      const Bytes own = peak_of(instance_, *placement);
      if (own >= peak) continue;
      peak = own;
      best = std::move(placement);
    }
    return best;
  }

 private:
  static constexpr double kBase = 8;

  const Instance& instance_;
  std::shared_ptr<const BirthOrder> order_;
  Sweep sweep_;
  Classes classes_;
  Bytes bound_;
  NextFrame next_frame_;
};

/// The rings and rows of one instance, looked for when the first asks; each copy goes through all of them.
class Frames {
 public:
  Frames(const Instance& instance, Bytes bound) : instance_(instance), bound_(bound) {}

  NextFrame get(Part part) {
    const bool is_ring = part == Part::kRings;
    NextFrame& first = is_ring ? rings_ : rows_;
    std::call_once(is_ring ? ring_once_ : row_once_, [&] {
      first = (is_ring ? rings_of : rows_of)(instance_, gap_classes(instance_, 1), bound_);
    });
    return first;
  }

 private:
  const Instance& instance_;
  Bytes bound_;
  std::once_flag ring_once_, row_once_;
  NextFrame rings_, rows_;
};

/// Wheels around one frame after the other.
Member framed(const Instance& instance, const std::shared_ptr<Orders>& orders,
              const std::shared_ptr<Frames>& frames, const std::string& name, Part part, const Sweep& sweep,
              Bytes bound) {
  const auto state = std::make_shared<std::optional<FrameWheels>>();
  return {name, part, 0, [=, &instance](const Budget& budget) {
            if (!*state)
              state->emplace(instance, orders->get(sweep.mirrored), sweep, bound, frames->get(part));
            return (*state)->step(budget);
          }};
}

/// A member that has one placement to give.
Member one_shot(const std::string& name, Part part,
                std::function<std::optional<Placement>(const Budget&)> pack) {
  return {name, part, 0, [pack = std::move(pack), done = false](const Budget& budget) mutable {
            return std::exchange(done, true) ? std::nullopt : pack(budget);
          }};
}

/// The core at the bound.
std::optional<Placement> core(const Instance& instance, Bytes bound, const Budget& budget) {
  const Bytes missing = budget.peak == Budget().peak ? 0 : std::min(budget.peak - bound, bound);
  const Bytes slack = std::max(missing, bound / kCoreShare);
  for (Bytes times = 1; times <= kWidestCore; ++times) {
    const CoreOptions options{.capacity = bound, .slack = times * slack, .steps = kCoreSteps};
    std::optional<Placement> placement = core_first(instance, options, budget);
    if (placement && peak_of(instance, *placement) <= bound) return placement;
  }
  return std::nullopt;
}

/// How many pairs of items live at the same time, counted up to `most`.
std::size_t pairs_that_meet(const Instance& instance, std::size_t most) {
  std::vector<Time> births;
  std::vector<Time> deaths;
  for (const Item& item : instance.items) {
    births.push_back(item.life.lower);
    deaths.push_back(item.life.upper);
  }
  std::sort(births.begin(), births.end());
  std::sort(deaths.begin(), deaths.end());
  std::size_t pairs = 0;
  std::size_t dead = 0;
  for (std::size_t born = 0; born < births.size() && pairs < most; ++born) {
    while (deaths[dead] <= births[born]) ++dead;
    pairs += born - dead;
  }
  return std::min(pairs, most);
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

std::vector<Runner*> active_in(std::vector<Runner>& runners, int round) {
  std::vector<Runner*> active;
  for (Runner& runner : runners) {
    if (runner.running && runner.member.first_round <= round) active.push_back(&runner);
  }
  return active;
}

/// One step of each. Who meets the bound stops all behind it, so that the first of those who meet it is the
/// same however fast each of them is.
void run_round(const Instance& instance, const std::vector<Runner*>& active, int threads, Bytes bound,
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
    if (runner.peak > bound) return;
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

// In this order, which breaks ties: of the members that meet the bound the first wins.
std::vector<Member> portfolio_members(const Instance& instance, Bytes lower_bound) {
  std::vector<Member> members;
  const auto orders = std::make_shared<Orders>(instance);
  const bool plain = is_plain(instance);
  const auto join = [&](int round, Member member) {
    member.first_round = round;
    members.push_back(std::move(member));
  };
  // The quick ones join a few at a time.
  const std::size_t per_round =
      std::max<std::size_t>(2, kRoundWork / std::max<std::size_t>(1, instance.items.size()));
  std::size_t joined = 0;
  const auto join_soon = [&](Member member) {
    join(static_cast<int>(joined++ / per_round), std::move(member));
  };
  const auto cut_sweep = [&](const std::string& name, bool mirrored) {
    const auto classes = [](const Instance& of) { return gap_classes(of, 1); };
    return wheel(instance, orders, name, classes, {Fit::kFirst, mirrored}, lower_bound);
  };
  const auto sweep = [&](const std::string& name, double base, Fit fit, bool mirrored) {
    const auto classes = [base](const Instance& of) { return duration_classes(of, base, 1); };
    return wheel(instance, orders, name, classes, {fit, mirrored}, lower_bound);
  };
  const auto sky = [&](const std::string& name, SkylineKey key) {
    return one_shot(name, Part::kSkylines,
                    [&instance, key](const Budget& budget) { return skyline(instance, key, budget); });
  };
  const auto frames = std::make_shared<Frames>(instance, lower_bound);
  const auto around = [&](const std::string& name, Part part, bool mirrored) {
    return framed(instance, orders, frames, name, part, {Fit::kFirst, mirrored}, lower_bound);
  };
  const auto fit_in_order = [&](const std::string& name, Order order, Fit fit) {
    return one_shot(name, Part::kBestFits, [&instance, order, fit](const Budget& budget) {
      return best_fit(instance, order, fit, budget);
    });
  };

  join_soon(cut_sweep("sweep cut", false));
  if (plain) {  // jobs that are no pipelines have no frames, which shows before anything is placed
    join(0, around("ring", Part::kRings, false));
    join(0, around("row", Part::kRows, false));
  }
  join_soon(cut_sweep("sweep cut mirrored", true));
  join_soon(sweep("sweep 8 mirrored", 8, Fit::kFirst, true));
  if (plain) {
    join_soon(sky("skyline by size", SkylineKey::kSize));
    join_soon(sky("skyline by area", SkylineKey::kArea));
    join_soon(sky("skyline by duration", SkylineKey::kDuration));
  }
  join_soon(sweep("sweep 4 mirrored", 4, Fit::kFirst, true));
  join_soon(sweep("sweep 4", 4, Fit::kFirst, false));
  join_soon(sweep("sweep 8", 8, Fit::kFirst, false));
  join_soon(sweep("sweep 4 best fit", 4, Fit::kBest, false));
  join_soon(sweep("sweep 2", 2, Fit::kFirst, false));
  join_soon(sweep("sweep 2 mirrored", 2, Fit::kFirst, true));
  join_soon(sweep("sweep 16", 16, Fit::kFirst, false));
  join_soon(sweep("sweep 8 mirrored best fit", 8, Fit::kBest, true));
  if (!plain) return members;
  join(kCoreRound, around("ring mirrored", Part::kRings, true));
  join(kCoreRound, around("row mirrored", Part::kRows, true));
  if (instance.items.size() <= kCoreItems && lower_bound <= kMostMemory) {
    join(kCoreRound, one_shot("core", Part::kCore, [&instance, lower_bound](const Budget& budget) {
           return core(instance, lower_bound, budget);
         }));
  }
  if (pairs_that_meet(instance, kCostlyPairs) == kCostlyPairs) return members;
  join(kCostlyRound, one_shot("homophase", Part::kHomophase,
                              [&instance](const Budget& budget) { return homophase(instance, budget); }));
  join(kCostlyRound, fit_in_order("best fit by size", Order::kSize, Fit::kBest));
  join(kCostlyRound, fit_in_order("best fit by area", Order::kArea, Fit::kBest));
  join(kCostlyRound, fit_in_order("best fit by duration", Order::kDuration, Fit::kBest));
  join(kCostlyRound, fit_in_order("best fit by breadth", Order::kBreadth, Fit::kBest));
  join(kCostlyRound, fit_in_order("first fit by size", Order::kSize, Fit::kFirst));
  return members;
}

PortfolioResult run_portfolio(const Instance& instance, const PortfolioOptions& options) {
  const Clock::time_point start = Clock::now();
  const int hardware = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  PortfolioResult result;
  result.threads = options.threads > 0 ? options.threads : hardware;
  result.lower_bound = lower_bound_of(instance);

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
    run_round(instance, active, result.threads, result.lower_bound, budget);
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
    if (result.peak <= result.lower_bound || budget.over()) break;
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace stweaver
