#include "plan/members.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "plan/best_fit.h"
#include "plan/class_sweep.h"
#include "plan/core.h"
#include "plan/homophase.h"
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
/// From one class of durations to the next, around a frame.
constexpr double kFrameBase = 8;

/// What the members of one instance share, each part of it made by the first that asks.
class Shared {
 public:
  Shared(const Instance& of, Bytes lower_bound) : instance(of), bound(lower_bound) {}

  const Instance& instance;
  const Bytes bound;

  std::shared_ptr<const BirthOrder> order(bool mirrored) {
    Births& births = births_[mirrored ? 1 : 0];
    std::call_once(births.once, [&] {
      births.order = std::make_shared<const BirthOrder>(birth_order(instance, mirrored));
    });
    return births.order;
  }

  /// The rings or the rows; each copy goes through all of them.
  NextFrame frames(Part part) {
    const bool is_ring = part == Part::kRings;
    Frames& frames = is_ring ? rings_ : rows_;
    std::call_once(frames.once, [&] {
      frames.first = (is_ring ? rings_of : rows_of)(instance, gap_classes(instance, 1), bound);
    });
    return frames.first;
  }

 private:
  struct Births {
    std::once_flag once;
    std::shared_ptr<const BirthOrder> order;
  };
  struct Frames {
    std::once_flag once;
    NextFrame first;
  };

  std::array<Births, 2> births_;
  Frames rings_, rows_;
};

using SharedPtr = std::shared_ptr<Shared>;

std::string with_options(std::string name, const Sweep& options) {
  if (options.mirrored) name += " mirrored";
  if (options.fit == Fit::kBest) name += " best fit";
  return name;
}

/// A squeaky wheel, made when its turn comes: in classes by duration, `base` times as long each, or, where
/// that is 0, cut at the widest gap.
Member sweep(const SharedPtr& shared, int base, const Sweep& options) {
  const std::string name = "sweep " + (base == 0 ? "cut" : std::to_string(base));
  const auto wheel = std::make_shared<std::optional<SqueakyWheel>>();
  return {with_options(name, options), Part::kSweeps, 0, [=](const Budget& budget) {
            if (!*wheel) {
              const Instance& instance = shared->instance;
              wheel->emplace(instance, shared->order(options.mirrored),
                             base == 0 ? gap_classes(instance, 1) : duration_classes(instance, base, 1),
                             options, shared->bound);
            }
            return (*wheel)->step(budget);
          }};
}

/// The best of what a squeaky wheel makes around one frame.
std::optional<Placement> around(Shared& shared, const Placement& frame, const Classes& classes,
                                const Sweep& options, const Budget& budget) {
  SqueakyWheel wheel(shared.instance, shared.order(options.mirrored), classes, options, shared.bound, frame);
  std::optional<Placement> best;
  Bytes peak = Budget().peak;
  for (int round = 0; round < kFrameRounds && peak > shared.bound; ++round) {
    std::optional<Placement> placement = wheel.step(budget);
    if (!placement) break;
    const Bytes own = peak_of(shared.instance, *placement);
    if (own >= peak) continue;
    peak = own;
    best = std::move(placement);
  }
  return best;
}

/// Wheels around one frame after the other: most frames are good for the bound or for nothing, so that each
/// is done with at once.
Member framed(const SharedPtr& shared, Part part, const Sweep& options) {
  const std::string name = part == Part::kRings ? "ring" : "row";
  return {with_options(name, options), part, 0,
          [=, next = NextFrame(), classes = Classes()](const Budget& budget) mutable {
            if (!next) {
              next = shared->frames(part);
              classes = duration_classes(shared->instance, kFrameBase, 1);
            }
            const std::optional<Placement> frame = next();
            return frame ? around(*shared, *frame, classes, options, budget) : std::nullopt;
          }};
}

/// A member that has one placement to give.
Member one_shot(const std::string& name, Part part,
                std::function<std::optional<Placement>(const Budget&)> pack) {
  return {name, part, 0, [pack = std::move(pack), done = false](const Budget& budget) mutable {
            return std::exchange(done, true) ? std::nullopt : pack(budget);
          }};
}

Member skyline_by(const SharedPtr& shared, const std::string& name, SkylineKey key) {
  return one_shot("skyline by " + name, Part::kSkylines,
                  [=](const Budget& budget) { return skyline(shared->instance, key, budget); });
}

Member fit_by(const SharedPtr& shared, const std::string& name, Order order, Fit fit) {
  return one_shot((fit == Fit::kBest ? "best fit by " : "first fit by ") + name, Part::kBestFits,
                  [=](const Budget& budget) { return best_fit(shared->instance, order, fit, budget); });
}

Member homophase_groups(const SharedPtr& shared) {
  return one_shot("homophase", Part::kHomophase,
                  [=](const Budget& budget) { return homophase(shared->instance, budget); });
}

/// The core at the bound.
Member exact_core(const SharedPtr& shared) {
  return one_shot("core", Part::kCore, [=](const Budget& budget) -> std::optional<Placement> {
    const Bytes bound = shared->bound;
    const Bytes missing = budget.peak == Budget().peak ? 0 : std::min(budget.peak - bound, bound);
    const Bytes slack = std::max(missing, bound / kCoreShare);
    for (Bytes times = 1; times <= kWidestCore; ++times) {
      const CoreOptions options{.capacity = bound, .slack = times * slack, .steps = kCoreSteps};
      std::optional<Placement> placement = core_first(shared->instance, options, budget);
      if (placement && peak_of(shared->instance, *placement) <= bound) return placement;
    }
    return std::nullopt;
  });
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

/// The quick ones, in the order in which they join, a few at a time.
std::vector<Member> quick_members(const SharedPtr& shared, bool plain) {
  constexpr bool kMirrored = true;
  std::vector<Member> members;
  members.push_back(sweep(shared, 0, {}));
  members.push_back(sweep(shared, 0, {Fit::kFirst, kMirrored}));
  members.push_back(sweep(shared, 8, {Fit::kFirst, kMirrored}));
  if (plain) {
    members.push_back(skyline_by(shared, "size", SkylineKey::kSize));
    members.push_back(skyline_by(shared, "area", SkylineKey::kArea));
    members.push_back(skyline_by(shared, "duration", SkylineKey::kDuration));
  }
  members.push_back(sweep(shared, 4, {Fit::kFirst, kMirrored}));
  members.push_back(sweep(shared, 4, {}));
  members.push_back(sweep(shared, 8, {}));
  members.push_back(sweep(shared, 4, {Fit::kBest}));
  members.push_back(sweep(shared, 2, {}));
  members.push_back(sweep(shared, 2, {Fit::kFirst, kMirrored}));
  members.push_back(sweep(shared, 16, {}));
  members.push_back(sweep(shared, 8, {Fit::kBest, kMirrored}));
  return members;
}

/// Those that look at every pair of items that meet.
std::vector<Member> costly_members(const SharedPtr& shared) {
  return {homophase_groups(shared),
          fit_by(shared, "size", Order::kSize, Fit::kBest),
          fit_by(shared, "area", Order::kArea, Fit::kBest),
          fit_by(shared, "duration", Order::kDuration, Fit::kBest),
          fit_by(shared, "breadth", Order::kBreadth, Fit::kBest),
          fit_by(shared, "size", Order::kSize, Fit::kFirst)};
}

}  // namespace

std::vector<Member> portfolio_members(const Instance& instance, Bytes bound) {
  const auto shared = std::make_shared<Shared>(instance, bound);
  const bool plain = is_plain(instance);
  std::vector<Member> members = quick_members(shared, plain);
  const std::size_t items = std::max<std::size_t>(1, instance.items.size());
  const std::size_t per_round = std::max<std::size_t>(2, kRoundWork / items);
  for (std::size_t i = 0; i < members.size(); ++i) members[i].first_round = static_cast<int>(i / per_round);
  if (!plain) return members;

  const auto join = [&](int round, Member member) {
    member.first_round = round;
    members.push_back(std::move(member));
  };
  // Jobs that are no pipelines have no frames, which shows before anything is placed: these are second.
  members.insert(members.begin() + 1, {framed(shared, Part::kRings, {}), framed(shared, Part::kRows, {})});
  join(kCoreRound, framed(shared, Part::kRings, {.mirrored = true}));
  join(kCoreRound, framed(shared, Part::kRows, {.mirrored = true}));
  if (instance.items.size() <= kCoreItems && bound <= kMostMemory) join(kCoreRound, exact_core(shared));
  if (pairs_that_meet(instance, kCostlyPairs) == kCostlyPairs) return members;
  for (Member& member : costly_members(shared)) join(kCostlyRound, std::move(member));
  return members;
}

}  // namespace stweaver
