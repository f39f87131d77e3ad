#include "advise/front.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/base.h"

namespace stweaver {
namespace {

/// The values that a search tries for one parameter.
using Values = std::vector<int>;

Values powers_to(int most) {
  Values values;
  for (int value = 1; value <= most && value > 0; value *= 2) values.push_back(value);
  return values;
}

Values divisors_of(int number, int most) {
  Values values;
  for (int value = 1; value <= std::min(number, most); ++value)
    if (number % value == 0) values.push_back(value);
  return values;
}

/// What is tried for each parameter, in the order of the loops.
struct Ranges {
  Values gpus, tp, pp, vp, cp, ep, zero, mbs, recompute, offload;
};

int fixed_value(const std::string& name, const std::string& value) {
  if (name == "recompute") return static_cast<int>(recompute_named(value));
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < 0 || number > (1 << 20))
    fail("--fix ", name, "=", value, ": not a whole number that it can be");
  return number;
}

Ranges ranges_of(const Space& space) {
  Ranges ranges;
  for (int gpus = space.gpus; gpus >= 1; gpus /= 2) {
    ranges.gpus.insert(ranges.gpus.begin(), gpus);
    if (gpus % 2 != 0) break;
  }
  ranges.tp = powers_to(space.gpu.domain > 8 ? 16 : space.gpu.domain);
  // Stages of equally many layers, and the powers of two that larger models are cut in by hand.
  std::set<int> stages;
  for (const int pp : divisors_of(space.model.layers, 64)) stages.insert(pp);
  for (const int pp : powers_to(std::min(64, space.model.layers))) stages.insert(pp);
  ranges.pp.assign(stages.begin(), stages.end());
  ranges.vp = divisors_of(space.model.layers, 16);
  ranges.cp = powers_to(std::min(16, std::max(1, space.sequence / 4096)));
  ranges.ep = space.model.experts > 0 ? powers_to(space.model.experts) : Values{1};
  ranges.zero = {1, 3};
  ranges.mbs = powers_to(16);
  ranges.recompute = {0, 1, 2};
  ranges.offload = {0, 1};
  const std::map<std::string, Values*> named = {
      {"gpus", &ranges.gpus},      {"tp", &ranges.tp},   {"pp", &ranges.pp},
      {"vp", &ranges.vp},          {"cp", &ranges.cp},   {"ep", &ranges.ep},
      {"zero", &ranges.zero},      {"mbs", &ranges.mbs}, {"recompute", &ranges.recompute},
      {"offload", &ranges.offload}};
  for (const auto& [name, value] : space.fixed) {
    const auto found = named.find(name);
    if (found == named.end())
      fail("--fix ", name, ": no such parameter; there are gpus tp pp vp cp ep zero mbs recompute offload");
    *found->second = {fixed_value(name, value)};
  }
  return ranges;
}

/// Calls `visit` with every combination that can run, until it says no.
bool for_each(const Space& space, const std::function<bool(const Job&)>& visit) {
  const Ranges ranges = ranges_of(space);
  Job job{.model = space.model, .gpu = space.gpu, .configuration = {}};
  Configuration& how = job.configuration;
  how.sequence = space.sequence;
  how.global_batch = space.global_batch;
  how.precision = space.precision;
  const auto options = [&] {
    for (const int zero : ranges.zero)
      for (const int recompute : ranges.recompute)
        for (const int offload : ranges.offload) {
          how.zero = zero;
          how.recompute = static_cast<Recompute>(recompute);
          how.offload_optimizer = offload != 0;
          // Parameters that are gathered for each stage and micro-batch: nobody shares them over a pipeline.
          if (zero == 3 && how.pp > 1) continue;
          if (why_not(job).empty() && !visit(job)) return false;
        }
    return true;
  };
  for (const int gpus : ranges.gpus)
    for (const int tp : ranges.tp)
      for (const int pp : ranges.pp)
        for (const int cp : ranges.cp) {
          how.gpus = gpus;
          how.tp = tp;
          how.pp = pp;
          how.cp = cp;
          if (gpus < 1 || tp < 1 || pp < 1 || cp < 1 || gpus % (static_cast<std::int64_t>(tp) * pp * cp) != 0)
            continue;
          for (const int vp : ranges.vp)
            for (const int ep : ranges.ep)
              for (const int mbs : ranges.mbs) {
                if (vp < 1 || mbs < 1) continue;
                how.virtual_stages = vp;
                how.ep = ep;
                how.micro_batch = mbs;
                // Chunks are of equally many layers, and micro-batches come in rounds of one per stage.
                if (vp > 1 && (space.model.layers % (pp * vp) != 0 ||
                               space.global_batch % (static_cast<std::int64_t>(gpus / (tp * cp)) * mbs) != 0))
                  continue;
                if (!options()) return false;
              }
        }
  return true;
}

/// The choices of one number of GPUs that are not worse in both time and memory than another: by time.
void keep_staircase(std::vector<Choice>& choices) {
  std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return std::pair(a.seconds, a.memory) < std::pair(b.seconds, b.memory);
  });
  double least = std::numeric_limits<double>::infinity();
  std::erase_if(choices, [&least](const Choice& choice) {
    if (choice.memory >= least) return true;
    least = choice.memory;
    return false;
  });
}

bool dominates(const Choice& a, const Choice& b) {
  return a.configuration.gpus <= b.configuration.gpus && a.seconds <= b.seconds && a.memory <= b.memory;
}

/// What choices are compared by, in logarithms: time, memory, GPUs.
using Point = std::array<double, 3>;

Point point_of(const Choice& choice) {
  return {std::log(choice.seconds), std::log(choice.memory), std::log(choice.configuration.gpus)};
}

double distance(const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

}  // namespace

Front search_front(const Space& space, const Constants& constants, double memory,
                   const std::stop_token& stop) {
  Front front;
  std::map<int, std::vector<Choice>> by_gpus;
  constexpr std::size_t kMany = 4096;
  front.stopped = !for_each(space, [&](const Job& job) {
    ++front.evaluations;
    const RankMemory rank = fullest_rank(job);
    if (rank.peak() <= memory) {
      std::vector<Choice>& choices = by_gpus[job.configuration.gpus];
      choices.push_back({job.configuration, step_time(job, constants).total, rank.peak(), rank.stage});
      if (choices.size() >= kMany) keep_staircase(choices);
    }
    return !stop.stop_requested();
  });
  for (auto& [gpus, choices] : by_gpus) {
    keep_staircase(choices);
    for (const Choice& choice : choices)
      if (std::none_of(front.choices.begin(), front.choices.end(),
                       [&choice](const Choice& other) { return dominates(other, choice); }))
        front.choices.push_back(choice);
  }
  return front;
}

std::vector<Choice> clear_choices(const Front& front, const Gpu& gpu, std::size_t count) {
  const std::vector<Choice>& all = front.choices;
  if (all.empty() || count == 0) return {};
  std::vector<std::size_t> picked;
  const auto pick_least = [&](const auto& value) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < all.size(); ++i)
      if (value(all[i]) < value(all[best])) best = i;
    if (picked.size() < count && std::find(picked.begin(), picked.end(), best) == picked.end())
      picked.push_back(best);
  };
  pick_least([](const Choice& c) { return c.seconds; });
  pick_least([](const Choice& c) { return c.memory; });
  pick_least([](const Choice& c) { return std::pair(c.configuration.gpus, c.seconds); });
  pick_least([&gpu](const Choice& c) { return c.cost(gpu); });
  Point ideal = point_of(all.front());
  for (const Choice& choice : all) {
    const Point point = point_of(choice);
    for (std::size_t i = 0; i < ideal.size(); ++i) ideal[i] = std::min(ideal[i], point[i]);
  }
  pick_least([&ideal](const Choice& c) { return distance(point_of(c), ideal); });
  // Less than 2 % apart is not clearly different.
  constexpr double kSame = 0.02 * 0.02;
  while (picked.size() < count) {
    std::size_t farthest = 0;
    double most = -1;
    for (std::size_t i = 0; i < all.size(); ++i) {
      double nearest = std::numeric_limits<double>::infinity();
      for (const std::size_t other : picked)
        nearest = std::min(nearest, distance(point_of(all[i]), point_of(all[other])));
      if (nearest > most) {
        most = nearest;
        farthest = i;
      }
    }
    if (most < kSame) break;
    picked.push_back(farthest);
  }
  std::vector<Choice> choices;
  choices.reserve(picked.size());
  for (const std::size_t i : picked) choices.push_back(all[i]);
  std::sort(choices.begin(), choices.end(),
            [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
  return choices;
}

std::string megatron_arguments(const Job& job) {
  const Configuration& how = job.configuration;
  std::string out = text("--tensor-model-parallel-size ", how.tp, " --pipeline-model-parallel-size ", how.pp,
                         " --micro-batch-size ", how.micro_batch, " --global-batch-size ", how.global_batch,
                         " --seq-length ", how.sequence);
  if (how.virtual_stages > 1)
    out += text(" --num-layers-per-virtual-pipeline-stage ", job.model.layers / how.pp / how.virtual_stages);
  if (how.cp > 1) out += text(" --context-parallel-size ", how.cp);
  if (how.ep > 1) out += text(" --expert-model-parallel-size ", how.ep, " --expert-tensor-parallel-size 1");
  if (how.tp > 1) out += " --sequence-parallel";
  if (how.zero == 3) {
    out += " --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params";
  } else {
    out += " --use-distributed-optimizer";
  }
  out += " --overlap-grad-reduce --overlap-param-gather";
  if (how.recompute == Recompute::kFull)
    out += " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  if (how.recompute == Recompute::kSelective)
    out += " --recompute-granularity selective --recompute-modules core_attn layernorm mlp_act";
  if (how.offload_optimizer) out += " --optimizer-cpu-offload";
  out += how.precision == Precision::kBf16 ? " --bf16" : " --bf16 --fp8-format hybrid";
  return out;
}

}  // namespace stweaver
