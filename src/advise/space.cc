#include "advise/space.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "advise/layers.h"
#include "base/base.h"

namespace stweaver {
namespace {

using Values = std::vector<int>;

constexpr int kNode = 8;
constexpr const char* kGpus = "gpus";

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

Values numbers_to(int most) {
  Values values;
  for (int value = 0; value <= most; ++value) values.push_back(value);
  return values;
}

Values gpus_of(const Space& space) {
  const int node = std::min(space.gpu.domain, kNode);
  Values values = powers_to(std::min(space.gpus, node));
  for (int gpus = values.back() == node ? 2 * node : node; gpus <= space.gpus; gpus += node)
    values.push_back(gpus);
  if (values.back() != space.gpus) values.push_back(space.gpus);
  return values;
}

Values in_order(Values values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

/// Stages of equally many layers, and powers of two, which share_out_layers() knows to deal with.
Values stages_of(const Space& space) {
  constexpr int kMost = 64;
  Values values = divisors_of(space.model.layers, kMost);
  const Values powers = powers_to(std::min(kMost, space.model.layers));
  values.insert(values.end(), powers.begin(), powers.end());
  return in_order(values);
}

/// Layers that chunks share, where embedding and output layer each take the place of one.
int layers_with_ends(const ModelShape& model) {
  return model.layers + 2;
}

Values chunks_of(const Space& space) {
  constexpr int kMost = 16;
  Values values = divisors_of(space.model.layers, kMost);
  const Values others = divisors_of(layers_with_ends(space.model), kMost);
  values.insert(values.end(), others.begin(), others.end());
  return in_order(values);
}

/// Ranks of a pipeline with its tensor and context parallel groups.
std::int64_t ranks_of(const Configuration& how) {
  return static_cast<std::int64_t>(how.tp) * how.cp * how.pp;
}

/// So many pipelines side by side; no GPU where they are more than there can be.
void set_data_parallel(Configuration& how, int value) {
  const double gpus = 1.0 * how.tp * how.cp * how.pp * value;
  how.gpus = gpus <= std::numeric_limits<int>::max() ? static_cast<int>(gpus) : 0;
}

bool splits(std::int64_t number, std::int64_t parts) {
  return parts > 0 && number % parts == 0;
}

/// Whether chunks have equally many layers. Where stages do not, the first chunk has the embedding and the
/// last the output layer in place of one.
bool splits_into_chunks(const Job& job) {
  const std::int64_t chunks = std::int64_t{job.configuration.pp} * job.configuration.virtual_stages;
  return splits(job.model.layers, chunks) ||
         (job.configuration.first_layers > 0 && splits(layers_with_ends(job.model), chunks));
}

/// Whether groups of so many ranks fill one of these numbers of GPUs.
bool fills(const Values& gpus, std::int64_t ranks) {
  return std::any_of(gpus.begin(), gpus.end(), [&](int number) { return splits(number, ranks); });
}

/// Whether tensor parallel groups, which are of neighbours, fill domains or divide them: none has some ranks
/// in one and some in the next.
bool lies_in_domains(const Job& job) {
  const int tp = job.configuration.tp, domain = job.gpu.domain;
  return job.configuration.gpus <= domain || splits(domain, tp) || splits(tp, domain);
}

struct Rule {
  const char* name;
  bool ordered;
  Values (*values)(const Space&);
  void (*set)(Configuration&, int);
  /// Whether it goes with the parameters before it, and all of them with one of these numbers of GPUs.
  bool (*fits)(const Job&, const Values& gpus);
};

// The number of GPUs is none of them, but what the others come to: most numbers have no factors to be split
// by, so that a search which changes one at a time would not get from one number to the next that has some.
// A number of stages has to leave a share of the global batch to each data parallel rank, and chunks are of
// equally many layers and take micro-batches in rounds of one per stage. Parameters that are gathered for
// each stage and micro-batch: nobody shares them over a pipeline. Keys and values are split by whole heads
// unless they are made of one latent vector, and with context parallelism a rank has a piece of the sequence
// from either end, so that causality leaves all of them equally much to do. Of attention with sinks
// TransformerEngine has no kernel for that (get_attention_backend, pytorch/attention/dot_product_attention/
// utils.py). Megatron-LM has hybrids with Mamba blocks, but no virtual stages for them, and it recomputes
// none of their layers whole, whatever it is told (core/ssm/mamba_block.py).
constexpr std::array<Rule, 12> kRules = {{
    {"tp", true,
     [](const Space& space) { return powers_to(space.gpu.domain > kNode ? 16 : space.gpu.domain); },
     [](Configuration& how, int value) { how.tp = value; },
     [](const Job& job, const Values& gpus) {
       const int tp = job.configuration.tp;
       const bool shares_keys = job.model.kv_lora > 0 || splits(job.model.kv_heads, tp);
       return splits(job.model.heads, tp) && shares_keys && splits(job.configuration.sequence, tp) &&
              fills(gpus, tp);
     }},
    {"cp", true, [](const Space& space) { return powers_to(std::max(space.sequence / 4096, 1)); },
     [](Configuration& how, int value) { how.cp = value; },
     [](const Job& job, const Values& gpus) {
       const Configuration& how = job.configuration;
       const std::int64_t ranks = static_cast<std::int64_t>(how.tp) * how.cp;
       return splits(how.sequence, ranks) && (how.cp == 1 || !job.model.sinks) &&
              (how.cp == 1 || splits(how.sequence, std::int64_t{2} * how.cp)) && fills(gpus, ranks);
     }},
    {"pp", true, stages_of,
     [](Configuration& how, int value) {
       how.pp = value;
       how.short_last = false;  // until they are chosen
       how.virtual_stages = 1;
     },
     [](const Job& job, const Values& gpus) {
       const Configuration& how = job.configuration;
       const bool shared_out = how.first_layers > 0 || splits(job.model.layers, how.pp);
       return shared_out && std::any_of(gpus.begin(), gpus.end(), [&](int number) {
                return splits(number, ranks_of(how)) && splits(how.global_batch, number / ranks_of(how));
              });
     }},
    {"short_last", false,
     [](const Space&) {
       return Values{0, 1};
     },
     [](Configuration& how, int value) { how.short_last = value != 0; },
     [](const Job& job, const Values&) {
       return !job.configuration.short_last || job.configuration.last_layers > 0;
     }},
    {"dp", true, [](const Space& space) { return divisors_of(space.global_batch, space.gpus); },
     set_data_parallel,
     [](const Job& job, const Values& gpus) {
       return std::binary_search(gpus.begin(), gpus.end(), job.configuration.gpus) && lies_in_domains(job);
     }},
    {"mbs", true, [](const Space&) { return powers_to(16); },
     [](Configuration& how, int value) { how.micro_batch = value; },
     [](const Job& job, const Values&) {
       const Configuration& how = job.configuration;
       return splits(how.global_batch / data_parallel(how), how.micro_batch);
     }},
    {"vp", true, chunks_of, [](Configuration& how, int value) { how.virtual_stages = value; },
     [](const Job& job, const Values&) {
       const Configuration& how = job.configuration;
       if (how.virtual_stages > 1 && job.model.mamba_layers > 0) return false;
       return how.virtual_stages == 1 || (how.pp > 1 && !how.short_last && splits_into_chunks(job) &&
                                          splits(micro_batches(how), how.pp));
     }},
    {"ep", true,
     [](const Space& space) { return space.model.experts > 0 ? powers_to(space.model.experts) : Values{1}; },
     [](Configuration& how, int value) { how.ep = value; },
     [](const Job& job, const Values&) {
       const Configuration& how = job.configuration;
       return how.ep == 1 || (splits(job.model.experts, how.ep) && splits(how.gpus / how.pp, how.ep));
     }},
    {"zero", false,
     [](const Space&) {
       return Values{1, 3};
     },
     [](Configuration& how, int value) { how.zero = value; },
     [](const Job& job, const Values&) { return job.configuration.zero != 3 || job.configuration.pp == 1; }},
    {"recompute", false,
     [](const Space& space) {
       Values values = {static_cast<int>(Recompute::kNone), static_cast<int>(Recompute::kSelective)};
       // torchtitan's: others have it where it is asked for.
       if (space.runs) values.push_back(static_cast<int>(Recompute::kOperators));
       values.push_back(static_cast<int>(Recompute::kFull));
       return values;
     },
     [](Configuration& how, int value) { how.recompute = static_cast<Recompute>(value); },
     // Selective recomputation that has nothing to do is another word for none.
     [](const Job& job, const Values&) {
       const Recompute recompute = job.configuration.recompute;
       if (recompute == Recompute::kFull) return job.model.mamba_layers == 0;
       return recompute != Recompute::kSelective || has_cheap_operators(job);
     }},
    {"recompute_layers", true, [](const Space& space) { return numbers_to(space.model.layers); },
     [](Configuration& how, int value) { how.recompute_layers = value; },
     [](const Job& job, const Values&) {
       const Configuration& how = job.configuration;
       if (how.recompute != Recompute::kFull) return how.recompute_layers == 0;
       return how.recompute_layers > 0 && how.recompute_layers <= chunk_layers(job);
     }},
    {"offload", false,
     [](const Space&) {
       return Values{0, 1};
     },
     [](Configuration& how, int value) { how.offload_optimizer = value != 0; },
     // What Megatron-LM's FSDP shares cannot be on the host (its issue 1986).
     [](const Job& job, const Values&) {
       const Configuration& how = job.configuration;
       return !how.offload_optimizer || how.zero != 3 || !how.megatron;
     }},
}};

/// Sets the parameter, and what follows from it.
void set(std::size_t parameter, int value, Job& job) {
  kRules[parameter].set(job.configuration, value);
  share_out_layers(job);
  job.configuration.overlap_experts = can_overlap_experts(job);
}

/// Sets the parameter; whether its value goes with those before it.
bool fits(std::size_t parameter, int value, Job& job, const Values& gpus) {
  set(parameter, value, job);
  return kRules[parameter].fits(job, gpus);
}

/// Its place in the order of parameters.
std::size_t parameter_named(const std::string& name) {
  std::string names = std::string(" ") + kGpus;
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (kRules[i].name == name) return i;
    names += std::string(" ") + kRules[i].name;
  }
  fail(name, ": no such parameter; there are", names);
}

/// What a parameter can be, as value_named() reads it.
std::vector<std::string> texts_of(const std::string& name, const Space& space) {
  std::vector<std::string> texts;
  for (const int value : name == kGpus ? gpus_of(space) : kRules[parameter_named(name)].values(space))
    texts.push_back(name == "recompute" ? name_of(static_cast<Recompute>(value)) : std::to_string(value));
  return texts;
}

/// What is given of all configurations.
Job given_job(const Space& space) {
  Job job{.model = space.model, .gpu = space.gpu, .configuration = {}, .calibration = space.calibration};
  job.configuration.sequence = space.sequence;
  job.configuration.global_batch = space.global_batch;
  job.configuration.precision = space.precision;
  if (space.modules == Modules::kPyTorch) use_pytorch_modules(job);
  return job;
}

}  // namespace

int usual_batch(int gpus, int sequence) {
  constexpr double kTokens = 1 << 22;  // what large models take per step
  const auto is_nearer = [sequence](double batch, double other) {
    const auto distance = [&](double of) { return std::abs(std::log2(of * sequence / kTokens)); };
    return distance(batch) < distance(other);
  };
  int batch = gpus;
  while (is_nearer(2.0 * batch, batch)) batch *= 2;
  while (batch % 2 == 0 && is_nearer(0.5 * batch, batch)) batch /= 2;
  return batch;
}

int value_named(const std::string& name, const std::string& value) {
  if (name == "recompute") return static_cast<int>(recompute_named(value));
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < 0 || number > (1 << 24))
    fail(name, "=", value, ": not a whole number that it can be");
  if ((name == "offload" || name == "short_last") && number > 1) fail(name, "=", value, ": it can be 0 1");
  if (name == "zero" && number > 3) fail(name, "=", value, ": it can be 0 1 2 3");
  return number;
}

Job job_named(const Space& space, const std::map<std::string, std::string>& values) {
  Job job = given_job(space);
  Configuration& how = job.configuration;
  how.gpus = space.gpus;
  std::optional<int> gpus;
  std::map<std::size_t, int> others;  // in the order of parameters
  for (const auto& [name, text] : values) {
    const int value = value_named(name, text);
    if (name == "global_batch") {
      how.global_batch = value;
    } else if (name == "sequence") {
      how.sequence = value;
    } else if (name == kGpus) {
      gpus = how.gpus = value;
    } else {
      others[parameter_named(name)] = value;
    }
  }
  for (const auto& [parameter, value] : others) set(parameter, value, job);
  if (gpus && how.gpus != *gpus) fail("gpus=", *gpus, ": tp x cp x pp x dp are ", how.gpus);
  if (const std::string why = why_not(job); !why.empty()) fail(why);
  if (how.short_last && how.last_layers == 0)
    fail("short_last=1: no stage of pp=", how.pp, " vp=", how.virtual_stages, " would be faster for it");
  if (how.recompute_layers > (how.recompute == Recompute::kFull ? chunk_layers(job) : 0))
    fail("recompute_layers=", how.recompute_layers, ": with recompute=full it can be 1 to ",
         chunk_layers(job));
  return job;
}

Grid::Grid(const Space& space) : job_(given_job(space)), runs_(space.runs), gpus_(gpus_of(space)) {
  for (const Rule& rule : kRules)
    parameters_.push_back({.name = rule.name, .values = rule.values(space), .ordered = rule.ordered});
  require_units(space.gpu, space.precision);
  for (const auto& [name, value] : space.fixed)
    (name == kGpus ? gpus_ : parameters_[parameter_named(name)].values) = {value_named(name, value)};
  // No more than there are, whatever is fixed.
  std::erase_if(gpus_, [&space](int gpus) { return gpus > space.gpus; });
}

std::string why_none(const Space& space) {
  if (Grid(space).count(1) > 0) return "";
  std::string given, others;
  for (const auto& [name, value] : space.fixed) {
    given += text(" ", name, "=", value);
    Space other = space;
    other.fixed.erase(name);
    std::string able;
    for (const std::string& instead : texts_of(name, other)) {
      other.fixed[name] = instead;
      if (Grid(other).count(1) > 0) able += " " + instead;
    }
    if (able.empty()) continue;
    others += others.empty() ? text(name, "=", value, ": no configuration has it here; it can be", able)
                             : text(", or ", name, able);
  }
  if (!others.empty()) return others;
  if (space.runs && space.precision != Precision::kBf16) {
    Space other = space;
    other.precision = Precision::kBf16;
    if (Grid(other).count(1) > 0)
      return text("no software that is named runs ", name_of(space.precision), " here; it can be bf16");
  }
  return text("no configuration can run", given.empty() ? "" : " with", given,
              space.runs ? " by the software that is named" : "");
}

std::vector<pareto::Variable> Grid::variables() const {
  std::vector<pareto::Variable> variables;
  variables.reserve(parameters_.size());
  for (const Parameter& parameter : parameters_) {
    const auto count = static_cast<std::int64_t>(parameter.values.size());
    variables.push_back(parameter.ordered ? pareto::integer_variable(0, count - 1)
                                          : pareto::categorical_variable(count));
  }
  return variables;
}

Job Grid::job_of(std::span<const double> point) const {
  Job job = job_;
  for (std::size_t i = 0; i < kRules.size(); ++i)
    set(i, parameters_[i].values[static_cast<std::size_t>(point[i])], job);
  return job;
}

void Grid::repair(std::span<double> point) const {
  Job job = job_;
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    const std::vector<int>& values = parameters_[i].values;
    const auto count = static_cast<int>(values.size());
    const int at = static_cast<int>(point[i]);
    int nearest = -1;
    for (int step = 0; step < count && nearest < 0; ++step) {
      for (const int index : {at - step, at + step})
        if (nearest < 0 && index >= 0 && index < count &&
            fits(i, values[static_cast<std::size_t>(index)], job, gpus_))
          nearest = index;
    }
    if (nearest < 0) return;
    point[i] = nearest;
  }
}

bool Grid::can_run(const Job& job) const {
  return why_not(job).empty() && (!runs_ || runs_(job));
}

bool Grid::visit_from(std::size_t parameter, Job& job, const std::function<bool(const Job&)>& visit) const {
  if (parameter == kRules.size()) return !can_run(job) || visit(job);
  const Parameter& tried = parameters_[parameter];
  const auto go_on = [&](int value) {
    return !fits(parameter, value, job, gpus_) || visit_from(parameter + 1, job, visit);
  };
  // What is spread widest fits soonest: whoever stops early shall have an answer.
  return tried.ordered ? std::all_of(tried.values.rbegin(), tried.values.rend(), go_on)
                       : std::all_of(tried.values.begin(), tried.values.end(), go_on);
}

bool Grid::for_each(const std::function<bool(const Job&)>& visit) const {
  Job job = job_;
  return visit_from(0, job, visit);
}

std::int64_t Grid::count(std::int64_t most, const std::stop_token& stop) const {
  std::int64_t count = 0;
  for_each([&](const Job&) { return ++count < most && !stop.stop_requested(); });
  return count;
}

}  // namespace stweaver
