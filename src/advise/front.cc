#include "advise/front.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/base.h"
#include "pareto/pareto.h"

namespace stweaver {
namespace {

constexpr std::array<std::pair<Objective, const char*>, 5> kObjectives = {
    {{Objective::kTime, "time"},
     {Objective::kMemory, "memory"},
     {Objective::kGpus, "gpus"},
     {Objective::kCost, "cost"},
     {Objective::kHeadroom, "headroom"}}};

/// Of what cannot run: more than any share of memory that is lacking.
constexpr double kCannotRun = 1e9;
constexpr int kLongSequence = 1 << 29;  ///< twice as many tokens are the most that are looked at
constexpr std::int64_t kNow = 8192;     ///< configurations between two signs of life
/// To look at a configuration in order takes a tenth of the time that it takes a search to find and compare
/// it.
constexpr std::int64_t kEnumerated = 10;

/// What jobs cost. Several threads use it at once.
class Costs {
 public:
  Costs(Constants constants, double limit) : constants_(std::move(constants)), limit_(limit) {}

  /// It has no time where its memory is over the limit.
  Choice of(const Job& job) {
    const RankMemory rank = fullest_rank(job, chunk_of(job));
    return {.configuration = job.configuration,
            .seconds = rank.peak() <= limit_ ? step_time(job, constants_).total : 0,
            .memory = rank.peak(),
            .stage = rank.stage,
            .headroom = headroom(job, rank.peak())};
  }

 private:
  /// How many times as long a sequence fits. Memory grows with it, but for what is gathered or made by the
  /// optimizer: between powers of two by a straight line.
  double headroom(Job job, double peak) {
    if (peak > limit_) return limit_ / peak;
    double times = 1;
    for (int& sequence = job.configuration.sequence; sequence < kLongSequence; times *= 2) {
      sequence *= 2;
      const double longer = fullest_rank(job, chunk_of(job)).peak();
      if (longer > limit_) return times * (1 + (limit_ - peak) / (longer - peak));
      peak = longer;
    }
    return times;
  }

  /// Of jobs that differ in what does not matter to it, once.
  const ChunkMemory& chunk_of(const Job& job) {
    const Configuration& how = job.configuration;
    const std::array key = {how.tp, how.cp, how.micro_batch, static_cast<int>(how.recompute), how.sequence};
    const std::scoped_lock lock(mutex_);
    const auto found = chunks_.find(key);
    return found != chunks_.end() ? found->second : chunks_.emplace(key, chunk_memory(job)).first->second;
  }

  Constants constants_;
  double limit_;
  std::mutex mutex_;
  std::map<std::array<int, 5>, ChunkMemory> chunks_;
};

std::vector<double> values_of(const Choice& choice, const std::vector<Objective>& objectives) {
  std::vector<double> values;
  values.reserve(objectives.size());
  for (const Objective objective : objectives) values.push_back(value_of(choice, objective));
  return values;
}

Front look_at_all(const Grid& grid, const Constants& constants, const FrontOptions& options) {
  Front front{.choices = {}, .evaluations = 0, .exhaustive = true, .stopped = false};
  pareto::Archive<Choice> archive;
  Costs costs(constants, options.memory);
  front.stopped = !grid.for_each([&](const Job& job) {
    ++front.evaluations;
    if (options.progress && front.evaluations % kNow == 0) options.progress(front.evaluations);
    const Choice choice = costs.of(job);
    if (choice.memory <= options.memory) archive.offer(values_of(choice, options.objectives), choice);
    return !options.stop.stop_requested();
  });
  for (const auto& entry : archive.entries()) front.choices.push_back(entry.payload);
  return front;
}

Front search(const Grid& grid, const Constants& constants, const FrontOptions& options) {
  const pareto::SearchResult result = pareto::minimize(
      front_problem(grid, constants, options),
      {.evaluations = options.evaluations, .seed = options.seed, .stop = options.stop, .archive = true});
  Front front{.choices = {},
              .evaluations = result.evaluations,
              .exhaustive = false,
              .stopped = options.stop.stop_requested()};
  Costs costs(constants, options.memory);
  for (const pareto::Solution& solution : result.archive)
    front.choices.push_back(costs.of(grid.job_of(solution.variables)));
  return front;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

std::vector<double> ideal_of(const std::vector<std::vector<double>>& points) {
  std::vector<double> ideal = points.front();
  for (const std::vector<double>& point : points)
    for (std::size_t k = 0; k < ideal.size(); ++k) ideal[k] = std::min(ideal[k], point[k]);
  return ideal;
}

/// Adds to `picked` what lies farthest from all of them, until they are `count` or nothing differs clearly.
void spread(const std::vector<std::vector<double>>& points, std::size_t count,
            std::vector<std::size_t>& picked) {
  // Less than 2 % apart is not clearly different.
  constexpr double kSame = 0.02 * 0.02;
  std::vector<double> nearest(points.size(), std::numeric_limits<double>::infinity());
  const auto measure = [&](std::size_t other) {
    for (std::size_t i = 0; i < points.size(); ++i)
      nearest[i] = std::min(nearest[i], distance(points[i], points[other]));
  };
  for (const std::size_t other : picked) measure(other);
  while (picked.size() < count) {
    const auto farthest =
        static_cast<std::size_t>(std::max_element(nearest.begin(), nearest.end()) - nearest.begin());
    if (nearest[farthest] < kSame) return;
    picked.push_back(farthest);
    measure(farthest);
  }
}

}  // namespace

std::string name_of(Objective objective) {
  return kObjectives[static_cast<std::size_t>(objective)].second;
}

Objective objective_named(const std::string& name) {
  std::string names;
  for (const auto& [objective, known] : kObjectives) {
    if (name == known) return objective;
    names += std::string(" ") + known;
  }
  fail("no objective is called ", name, "; there are", names);
}

double value_of(const Choice& choice, Objective objective) {
  switch (objective) {
    case Objective::kTime:
      return std::log(choice.seconds);
    case Objective::kMemory:
      return std::log(choice.memory);
    case Objective::kGpus:
      return std::log(choice.configuration.gpus);
    case Objective::kCost:
      return std::log(choice.cost());
    case Objective::kHeadroom:
      return -std::log(choice.headroom);
  }
  return 0;
}

pareto::Problem front_problem(const Grid& grid, const Constants& constants, const FrontOptions& options) {
  const auto count = std::make_shared<std::atomic<std::int64_t>>(0);
  const auto costs = std::make_shared<Costs>(constants, options.memory);
  pareto::Problem problem{
      .variables = grid.variables(),
      .objectives = static_cast<int>(options.objectives.size()),
      .evaluate = [&grid, costs, options, count](std::span<const double> point, std::span<double> values) {
        const std::int64_t number = ++*count;
        if (options.progress && number % kNow == 0) options.progress(number);
        const Job job = grid.job_of(point);
        if (!grid.can_run(job)) return kCannotRun;
        const Choice choice = costs->of(job);
        if (choice.memory > options.memory) return choice.memory / options.memory - 1;
        for (std::size_t k = 0; k < values.size(); ++k) values[k] = value_of(choice, options.objectives[k]);
        return 0.0;
      }};
  problem.repair = [&grid](std::span<double> point, pareto::Random&) { grid.repair(point); };
  return problem;
}

Front search_front(const Space& space, const Constants& constants, const FrontOptions& options) {
  if (options.objectives.empty()) fail("a front of no objective: name one at least");
  if (const std::string why = why_none(space); !why.empty()) fail(why);
  const Grid grid(space);
  const std::int64_t few = kEnumerated * options.evaluations;
  const bool exhaustive = options.exhaustive.value_or(grid.count(few + 1, options.stop) <= few);
  Front front = exhaustive ? look_at_all(grid, constants, options) : search(grid, constants, options);
  std::sort(front.choices.begin(), front.choices.end(), [](const Choice& a, const Choice& b) {
    return std::pair(a.seconds, a.memory) < std::pair(b.seconds, b.memory);
  });
  return front;
}

std::optional<Choice> fastest(const Space& space, const Constants& constants, const FrontOptions& options,
                              const std::function<bool(const Choice&)>& fits) {
  const Grid grid(space);
  Costs costs(constants, options.memory);
  // Goes through the space again for each that does not fit, so that it need not be held in memory.
  using Place = std::tuple<double, double, std::int64_t>;
  Place last(0, 0, -1);
  while (!options.stop.stop_requested()) {
    std::optional<Choice> next;
    Place least;
    std::int64_t number = 0;
    grid.for_each([&](const Job& job) {
      const Choice choice = costs.of(job);
      const Place place(choice.seconds, choice.memory, number++);
      if (choice.memory <= options.memory && place > last && (!next || place < least)) {
        least = place;
        next = choice;
      }
      return !options.stop.stop_requested();
    });
    if (options.stop.stop_requested()) break;
    if (!next || fits(*next)) return next;
    last = least;
  }
  return std::nullopt;
}

std::vector<Choice> clear_choices(const Front& front, const std::vector<Objective>& objectives,
                                  std::size_t count) {
  const std::vector<Choice>& all = front.choices;
  if (all.empty() || count == 0) return {};
  std::vector<std::vector<double>> points;
  points.reserve(all.size());
  for (const Choice& choice : all) points.push_back(values_of(choice, objectives));
  std::vector<std::size_t> picked;
  const auto pick_least = [&](const auto& value) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < all.size(); ++i)
      if (value(i) < value(best)) best = i;
    if (picked.size() < count && std::find(picked.begin(), picked.end(), best) == picked.end())
      picked.push_back(best);
  };
  for (std::size_t k = 0; k < objectives.size(); ++k)
    pick_least([&](std::size_t i) { return std::pair(points[i][k], all[i].seconds); });
  pick_least([&](std::size_t i) { return std::pair(1.0 * all[i].configuration.gpus, all[i].seconds); });
  pick_least([&](std::size_t i) { return all[i].cost(); });
  const std::vector<double> ideal = ideal_of(points);
  pick_least([&](std::size_t i) { return distance(points[i], ideal); });
  spread(points, count, picked);
  std::sort(picked.begin(), picked.end());  // by time, as the front is
  std::vector<Choice> choices;
  choices.reserve(picked.size());
  for (const std::size_t i : picked) choices.push_back(all[i]);
  return choices;
}

}  // namespace stweaver
