#include "advise/configuration.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/base.h"

namespace stweaver {
namespace {

constexpr std::array<std::pair<Recompute, const char*>, 4> kRecomputes = {
    {{Recompute::kNone, "none"},
     {Recompute::kSelective, "selective"},
     {Recompute::kOperators, "operators"},
     {Recompute::kFull, "full"}}};
constexpr std::array<std::pair<Precision, const char*>, 5> kPrecisions = {
    {{Precision::kBf16, "bf16"},
     {Precision::kFp8, "fp8"},
     {Precision::kFp8Rowwise, "fp8-rowwise"},
     {Precision::kMxfp8, "mxfp8"},
     {Precision::kNvfp4, "nvfp4"}}};
constexpr std::array<std::pair<Modules, const char*>, 2> kModules = {
    {{Modules::kMegatron, "megatron"}, {Modules::kPyTorch, "pytorch"}}};

template <typename Table, typename Value>
std::string named(const Table& table, Value value) {
  for (const auto& [known, name] : table)
    if (known == value) return name;
  return "";
}

template <typename Table>
auto value_of(const Table& table, const std::string& name, const char* what) {
  std::string names;
  for (const auto& [value, known] : table) {
    if (name == known) return value;
    names += std::string(" ") + known;
  }
  fail("no ", what, " is called ", name, "; there are", names);
}

}  // namespace

void use_pytorch_modules(Job& job) {
  Configuration& how = job.configuration;
  how.megatron = false;
  how.pads_vocabulary = false;
  how.compiled = false;
  how.loss = Loss::kPyTorch;
  how.fused_gradients = false;
  how.grouped_experts = false;
  how.fused_experts = false;
  how.dropout = false;
  how.rotary = job.model.gated_mlp;  // as Llama and those after it; GPT-2's positions are learned
}

void use_legacy_modules(Job& job) {
  job.configuration.compiled = false;
  job.configuration.legacy = true;
}

int data_parallel(const Configuration& configuration) {
  const std::int64_t ranks = std::int64_t{configuration.tp} * configuration.pp * configuration.cp;
  return static_cast<int>(configuration.gpus / ranks);
}

int micro_batches(const Configuration& configuration) {
  return configuration.global_batch / (data_parallel(configuration) * configuration.micro_batch);
}

int sharding(const Configuration& configuration) {
  return configuration.shard > 0 ? configuration.shard : data_parallel(configuration) * configuration.cp;
}

int expert_sharding(const Configuration& configuration) {
  const int copies = configuration.gpus / configuration.pp / configuration.ep / configuration.expert_tp;
  // Where groups of ranks each have all states, those of experts are in each of them, too.
  const int groups = data_parallel(configuration) * configuration.cp / sharding(configuration);
  return std::max(1, copies / std::max(1, groups));
}

bool can_overlap_experts(const Job& job) {
  const Configuration& how = job.configuration;
  return how.ep > 1 && how.virtual_stages > 1 && how.recompute != Recompute::kFull &&
         job.model.mtp_layers <= 1 && job.model.mamba_layers == 0;
}

namespace {

/// What the last stage computes beside its layers, in layers, by products alone: the output layer, and what
/// predicts tokens further ahead.
double tail_in_layers(const Job& job) {
  const ModelShape& model = job.model;
  const double scores = attention_layers(model) * attention_width(model) * job.configuration.sequence / 2 *
                        attended_share(model, job.configuration.sequence);
  const double layer = (dense_weights(model) + active_expert_weights(model) + scores) / model.layers;
  const double output = static_cast<double>(model.hidden) * model.vocabulary;
  return output * (1 + model.mtp_layers) / layer + model.mtp_layers;
}

/// Whether some share of the layers makes the slowest stage faster than it is with `last` layers and the
/// tail.
bool shorten_last(Job& job, std::int64_t last) {
  Configuration& how = job.configuration;
  const double tail = tail_in_layers(job);
  double fastest = static_cast<double>(last) + tail;
  bool found = false;
  for (std::int64_t most = last; static_cast<double>(most) < fastest; ++most) {  // of a stage between
    const std::int64_t rest = job.model.layers - most * (how.pp - 2);
    if (rest < 2) break;
    const std::int64_t least = std::max<std::int64_t>(1, rest - most);
    if (least > rest / 2) continue;  // the first would have more
    const auto fits = static_cast<std::int64_t>(std::max(0.0, static_cast<double>(most) - tail));
    const std::int64_t left = std::clamp(fits, least, rest / 2);
    const std::int64_t between = how.pp > 2 ? most : rest - left;
    const double slowest = std::max(static_cast<double>(between), static_cast<double>(left) + tail);
    if (slowest >= fastest) continue;
    fastest = slowest;
    how.first_layers = static_cast<int>(rest - left);
    how.last_layers = static_cast<int>(left);
    found = true;
  }
  return found;
}

}  // namespace

bool share_out_layers(Job& job) {
  Configuration& how = job.configuration;
  how.first_layers = how.last_layers = 0;
  if (how.pp < 1 || (how.short_last && (how.pp == 1 || how.virtual_stages > 1 || !how.megatron)))
    return false;
  if (job.model.layers % how.pp == 0) return !how.short_last || shorten_last(job, job.model.layers / how.pp);
  const std::int64_t most = job.model.layers / how.pp + 1;
  const std::int64_t rest = job.model.layers - most * (how.pp - 2);
  if (rest < 2) return false;
  if (how.short_last) return shorten_last(job, rest / 2);
  how.first_layers = static_cast<int>((rest + 1) / 2);
  how.last_layers = static_cast<int>(rest / 2);
  return true;
}

int stage_layers(const Job& job, int stage) {
  const Configuration& how = job.configuration;
  const bool is_first = stage == 0, is_last = stage == how.pp - 1;
  if (is_first && how.first_layers > 0) return how.first_layers;
  if (is_last && how.last_layers > 0) return how.last_layers;
  const int stages = how.pp - (how.first_layers > 0 ? 1 : 0) - (how.last_layers > 0 ? 1 : 0);
  const int layers = job.model.layers - how.first_layers - how.last_layers;
  return layers / stages + (stage - (how.first_layers > 0 ? 1 : 0) < layers % stages ? 1 : 0);
}

int round_of(const Configuration& configuration) {
  return configuration.rounds > 0 ? configuration.rounds : configuration.pp;
}

int chunk_layers(const Job& job) {
  const Configuration& how = job.configuration;
  const int chunks = how.pp * how.virtual_stages;
  if (how.virtual_stages > 1) return std::max(1, (job.model.layers + chunks - 1) / chunks);
  // No stage between the first and the last has more than the second.
  const int second = stage_layers(job, std::min(1, how.pp - 1));
  return std::max({1, stage_layers(job, 0), second, stage_layers(job, how.pp - 1)});
}

int recomputed_layers(const Job& job) {
  const Configuration& how = job.configuration;
  if (how.recompute != Recompute::kFull) return 0;
  return how.recompute_layers > 0 ? std::min(how.recompute_layers, chunk_layers(job)) : chunk_layers(job);
}

namespace {

/// Whether the stages between the first and the last have what these leave.
bool ends_fit(const Job& job) {
  const Configuration& how = job.configuration;
  const int layers = job.model.layers;
  if (how.first_layers == 0 && how.last_layers == 0) return true;
  if (how.pp < 2 || std::min(how.first_layers, how.last_layers) < 0) return false;
  if (std::max(how.first_layers, how.last_layers) >= layers) return false;
  const int ends = how.first_layers + how.last_layers;
  const bool nothing_between = how.pp == 2 && how.first_layers > 0 && how.last_layers > 0;
  return nothing_between ? ends == layers : ends < layers;
}

}  // namespace

std::string why_not(const Job& job) {
  const Configuration& c = job.configuration;
  const ModelShape& m = job.model;
  constexpr int kMostRanks = 1 << 20;
  constexpr int kMostTokens = 1 << 24;
  for (const int value : {c.gpus, c.tp, c.pp, c.virtual_stages, c.cp, c.ep})
    if (value < 1 || value > kMostRanks) return text("a parallel size of ", value);
  for (const int value : {c.micro_batch, c.global_batch, c.sequence})
    if (value < 1 || value > kMostTokens) return text("a batch or sequence of ", value);
  const std::int64_t ranks = static_cast<std::int64_t>(c.tp) * c.pp * c.cp;
  if (ranks > c.gpus || c.gpus % ranks != 0)
    return text(c.gpus, " GPUs are no multiple of tp x pp x cp = ", ranks);
  const std::int64_t samples = static_cast<std::int64_t>(data_parallel(c)) * c.micro_batch;
  if (samples > c.global_batch || c.global_batch % samples != 0)
    return text("a global batch of ", c.global_batch, " is no multiple of dp x micro batch = ", samples);
  if (m.heads % c.tp != 0) return text(m.heads, " attention heads cannot be split in ", c.tp);
  // Embedding and output layer may have a stage of their own.
  if (static_cast<std::int64_t>(c.pp) * c.virtual_stages > m.layers + 2)
    return text(m.layers, " layers are too few for ", c.pp * c.virtual_stages, " stages");
  if (c.virtual_stages > 1 && c.pp == 1) return "virtual stages without a pipeline";
  if (c.sequence % c.cp != 0) return text("a sequence of ", c.sequence, " cannot be split in ", c.cp);
  if (c.ep > 1 && m.moe_layers == 0) return "expert parallelism without experts";
  if (c.ep > 1 && m.experts % c.ep != 0) return text(m.experts, " experts cannot be spread over ", c.ep);
  if (c.ep > 1 && (c.gpus / c.pp) % c.ep != 0)
    return text("a stage of ", c.gpus / c.pp, " GPUs is no multiple of ep = ", c.ep);
  if (c.expert_tp > 1 && (c.gpus / c.pp) % (static_cast<std::int64_t>(c.ep) * c.expert_tp) != 0)
    return text("a stage of ", c.gpus / c.pp, " GPUs is no multiple of ep x ranks that split an expert = ",
                static_cast<std::int64_t>(c.ep) * c.expert_tp);
  if (c.rounds < 0 || c.rounds > micro_batches(c))
    return text("rounds of ", c.rounds, " micro-batches out of ", micro_batches(c));
  if (!ends_fit(job))
    return text(c.first_layers, " and ", c.last_layers, " of ", m.layers,
                " layers cannot be the first and last of ", c.pp, " stages");
  if (c.recompute == Recompute::kOperators && m.moe_layers > 0)
    return "no model of what every second product leaves of experts";
  if (c.recompute_layers < 0) return text("recomputation of ", c.recompute_layers, " layers");
  if (c.zero < 0 || c.zero > 3) return text("there is no ZeRO stage ", c.zero);
  return "";
}

namespace {

/// As the maker's figures say it: a narrower product is faster where there are units for it.
bool has_units(const Gpu& gpu, Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      break;
    case Precision::kFp8:
    case Precision::kFp8Rowwise:
      return gpu.fp8 > gpu.bf16;
    case Precision::kMxfp8:
    case Precision::kNvfp4:
      return gpu.fp4 > gpu.fp8;
  }
  return true;
}

}  // namespace

void require_units(const Gpu& gpu, Precision precision) {
  if (has_units(gpu, precision)) return;
  std::string able;
  for (const auto& [known, name] : kPrecisions)
    if (has_units(gpu, known)) able += std::string(" ") + name;
  fail("no units for ", name_of(precision), " are in ", gpu.name, "; it can be", able);
}

std::string lower_case(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

std::string name_of(Recompute recompute) {
  return named(kRecomputes, recompute);
}

std::string name_of(Precision precision) {
  return named(kPrecisions, precision);
}

Recompute recompute_named(const std::string& name) {
  return value_of(kRecomputes, name, "recomputation");
}

Precision precision_named(const std::string& name) {
  return value_of(kPrecisions, lower_case(name), "precision");
}

Modules modules_named(const std::string& name) {
  return value_of(kModules, name, "kind of modules");
}

}  // namespace stweaver
