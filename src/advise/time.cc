#include "advise/time.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "advise/layers.h"

namespace stweaver {
namespace {

constexpr double kActivationBytes = 2;  // bf16, and so are weights
/// A forward pass, and twice that backward: towards the input and towards the weights.
constexpr double kPasses = 3;

/// What every part of the model of one job looks at.
struct View {
  View(const Job& of, const Constants& with)
      : job(of),
        model(job.model),
        gpu(job.gpu),
        how(job.configuration),
        constants(with),
        tokens(static_cast<double>(how.micro_batch) * how.sequence / how.cp),
        dp(data_parallel(how)),
        batches(micro_batches(how)) {}

  const Job& job;
  const ModelShape& model;
  const Gpu& gpu;
  const Configuration& how;
  const Constants& constants;
  double tokens;  ///< of a micro-batch on one rank, before tensor parallelism
  int dp;
  int batches;

  [[nodiscard]] double memory_rate() const { return gpu.bandwidth * constants.streaming; }
  /// Of a rate of the data sheet, what the GPU sustains.
  [[nodiscard]] double sustained(double peak) const {
    return peak * gpu.sustained * (gpu.ultra ? constants.ultra : 1);
  }
  /// Bytes per second between ranks of a group of which `inside` share a domain; `crosses` when not all do.
  /// A ring leaves a domain through the adapters of all its members in it.
  [[nodiscard]] double rate(double inside, bool crosses) const {
    const double near = gpu.link * constants.link;
    return crosses ? std::min(near, gpu.network * inside) : near;
  }
};

double matrix_rate(const View& view) {
  const Constants& c = view.constants;
  const Gpu& gpu = view.gpu;
  switch (view.how.precision) {
    case Precision::kBf16:
      break;
    case Precision::kFp8:
    case Precision::kMxfp8:
      return view.sustained(gpu.fp8) * c.matrix;
    case Precision::kFp8Rowwise:
      return view.sustained(gpu.fp8) * c.matrix_fp8_rowwise;
    case Precision::kNvfp4:
      return gpu.fp4 * gpu.sustained * c.matrix_fp4;  // of which Blackwell Ultra has more units
  }
  return view.sustained(gpu.bf16) * c.matrix;
}

/// Passes over a layer of a step: adapters need no gradient of the weights, recomputation goes forward again.
struct Passes {
  double products = kPasses;
  double attention = kPasses;
  double again = 0;  ///< of all other operators, the forward pass
};

Passes passes_of(const Job& job) {
  const Configuration& how = job.configuration;
  Passes passes;
  if (how.lora) passes.products = 2;
  if (how.recompute == Recompute::kFull) {
    const double share = static_cast<double>(recomputed_layers(job)) / chunk_layers(job);
    passes.products += share;
    passes.attention += share;
    passes.again += share;
  } else if (how.recompute != Recompute::kNone) {
    if (!how.flash_attention) passes.attention += 1;
    if (how.recompute == Recompute::kSelective) return passes;
    passes.products += 0.5;
    passes.again += 1;
  }
  return passes;
}

/// All layers of the model for one micro-batch, on the ranks of one tensor parallel group.
struct LayerTimes {
  double device = 0;
  double host = 0;
  double traffic = 0;
};

/// What one kernel for grouped products, the gate and making its result narrow leaves of the time that
/// experts take. It is for gated experts in MXFP8 (TransformerEngine, ops/fused/forward_grouped_mlp.py);
/// attention and dense layers know nothing of it.
double with_experts(const View& view) {
  const bool has_kernel = view.model.gated_mlp && view.how.precision == Precision::kMxfp8;
  return view.how.fused_experts && has_kernel ? view.constants.fused_experts : 1;
}

/// PyTorch's flash attention, the second of that name, has the matrix instructions of Ampere. Those reach
/// 62.9 % of what Hopper's own do (arXiv 2402.13499, of its peak).
double attention_rate(const View& view) {
  if (!view.how.flash_attention) return matrix_rate(view);
  const bool is_ampere = view.gpu.fp8 <= view.gpu.bf16;
  const double reachable = view.how.megatron || is_ampere ? 1 : 0.629;
  return view.sustained(view.gpu.bf16) * view.constants.attention * reachable;
}

/// Products of experts reach what others do, but each takes so much longer than its work, in bf16 and in fp8:
/// 3 to 6 us on an H200 (bench/gpu/products.py --experts).
double expert_products_time(const View& view, const Passes& passes) {
  constexpr double kBesides = 4e-6;
  constexpr double kProducts = 2;  // of an expert in a pass
  const double work = 2 * passes.products * view.tokens * active_expert_weights(view.model) /
                      (matrix_rate(view) * view.how.tp);
  const double experts = static_cast<double>(view.model.moe_layers) * view.model.experts / view.how.ep;
  return (work + kProducts * passes.products * experts * kBesides) * with_experts(view);
}

double products_time(const View& view, const Passes& passes) {
  const double dense =
      2 * passes.products * view.tokens * dense_weights(view.model) / (matrix_rate(view) * view.how.tp);
  return dense + expert_products_time(view, passes);
}

double attention_time(const View& view, const Passes& passes) {
  const Configuration& how = view.how;
  // Flash attention skips what causality and windows mask.
  const double seen = how.flash_attention ? attended_share(view.model, how.sequence) / 2 : 1;
  const double pairs = view.tokens * how.sequence * seen * attention_layers(view.model);
  return 4 * passes.attention * pairs * attention_width(view.model) / (attention_rate(view) * how.tp);
}

/// Few tokens meet each expert, so that the weights of those of a rank count: for every micro-batch they are
/// read for each pass towards activations, and their gradient is read and written.
double expert_weight_traffic(const View& view, const Passes& passes) {
  const Configuration& how = view.how;
  const double weights = all_expert_weights(view.model) / how.ep / how.expert_tp;
  const double towards_weights = how.lora ? 0 : 1;
  return weights *
         ((passes.products - towards_weights) * kActivationBytes + towards_weights * 2 * how.gradient_bytes);
}

/// What operators take, make and keep goes through memory: their tensors (tape.h), and weights of experts.
double memory_bound(const View& view, const Passes& passes) {
  const Configuration& how = view.how;
  Job once = view.job;
  once.configuration.recompute = Recompute::kNone;
  const Traffic traffic = layer_tape(once).traffic();
  double bytes = traffic.forward * (1 + passes.again) + traffic.backward;
  if (how.recompute == Recompute::kSelective) bytes += traffic.cheap;
  bytes *= view.model.layers;
  bytes += expert_weight_traffic(view, passes);
  // Routing moves what goes to experts more often than a tape has it. Biases, and a gate that is clamped, do
  // the same for what experts hold between their products.
  const double width = view.model.expert_width > 0 ? view.model.expert_width : view.model.hidden;
  const double held = view.model.expert_biases ? view.model.expert_ffn * 2.0 : 0;
  bytes += (kPasses + passes.again) * view.constants.dispatch * with_experts(view) * view.tokens *
           (width + held) * view.model.topk * view.model.moe_layers / how.tp;
  return bytes / view.memory_rate();
}

/// Megatron's kernel for softmax (fused_softmax.py, is_kernel_available) takes scores of four heads at a
/// time; for other numbers PyTorch's operators run one by one.
double softmax_share(const View& view) {
  const Configuration& how = view.how;
  const bool fused = how.flash_attention || view.model.heads / how.tp * how.micro_batch % 4 == 0;
  return fused ? 1 : 1 + view.constants.unfused_softmax;
}

/// Seconds that a layer of experts takes of the host. Where these run one after another, each is launched as
/// the MLP of a dense layer is.
double expert_layer_host(const View& view) {
  const Constants& c = view.constants;
  const int experts = view.model.experts / view.how.ep;
  if (!view.how.grouped_experts) return c.layer * (1 + experts * expert_share(view.job));
  return (view.gpu.rack ? c.moe_layer : c.moe_layer_node) * with_experts(view);
}

/// Branches off the residual that tensor parallel ranks compute together, each a part: attention, Mamba
/// blocks and MLPs. Experts that are not split take the tokens that a rank has anyway.
int split_branches(const ModelShape& model, int expert_tp) {
  const bool gathers = expert_tp > 1 || model.shared_ffn > 0;
  return attention_layers(model) + model.mamba_layers + dense_layers(model) +
         (gathers ? model.moe_layers : 0);
}

/// Times that each branch makes tensor parallel ranks exchange activations: once forward, once backward, and
/// once more where it is recomputed.
double tensor_rounds(const View& view, const Passes& passes) {
  if (view.how.tp == 1) return 0;
  const double again = view.how.recompute == Recompute::kFull ? passes.attention - kPasses : 0;
  return (2 + again) * split_branches(view.model, view.how.expert_tp);
}

/// Seconds that collectives of tensor and context parallelism take of the host. Those of experts are in what
/// their layers take of it.
double collectives_host(const View& view, const Passes& passes) {
  constexpr double kCall = 35e-6;  // 26 to 47 on hosts of H200 (bench/gpu/launches.py)
  const Configuration& how = view.how;
  const double pieces = how.megatron ? how.cp - 1 : std::min(how.cp - 1, 1);
  return kCall * (tensor_rounds(view, passes) * (how.sequence_parallel ? 2 : 1) +
                  pieces * passes.attention * attention_layers(view.model));
}

double host_time(const View& view, const Passes& passes) {
  const int experts = view.model.moe_layers;
  const double layers = (view.model.layers - experts) * view.constants.layer +
                        (experts > 0 ? experts * expert_layer_host(view) : 0);
  return layers * softmax_share(view) * passes.products / kPasses + collectives_host(view, passes);
}

/// All-reduces of activations; with sequence parallelism they are as many bytes in halves.
double tensor_traffic(const View& view, const Passes& passes) {
  const Configuration& how = view.how;
  const double bytes = tensor_rounds(view, passes) * 2 * (how.tp - 1) / how.tp * kActivationBytes *
                       view.tokens * view.model.hidden;
  const bool crosses = how.tp > view.gpu.domain;
  const double exposed =
      how.overlap_tp ? view.constants.tensor_exposed_overlap : view.constants.tensor_exposed;
  return exposed * bytes / view.rate(view.gpu.domain, crosses);
}

/// Tokens go to their experts and back, forward and backward. The schedule may run another micro-batch's
/// products (`work` seconds of them) beside it. Otherwise a part is hidden inside a domain, and nothing of
/// what leaves it, once for each domain that a token has experts in (DeepEP and HybridEP pass it on inside).
double expert_traffic(const View& view, double work) {
  const Configuration& how = view.how;
  if (how.ep == 1 || view.model.moe_layers == 0) return 0;
  const double width = view.model.expert_width > 0 ? view.model.expert_width : view.model.hidden;
  const double bytes = 4 * kActivationBytes * view.tokens / how.tp * width * view.model.moe_layers;
  const double domains = std::max(1.0, static_cast<double>(how.ep) * how.expert_tp / view.gpu.domain);
  const double others = (domains - 1) * (1 - std::pow(1 - 1 / domains, view.model.topk));
  const double inside = std::min(view.model.topk, how.ep) * std::max(0.0, 1 / domains - 1.0 / how.ep);
  const double near = bytes * inside / view.rate(1, false);
  const double between = bytes * others / view.gpu.network;
  if (how.overlap_experts) return std::max(0.0, near + between - work);
  return view.constants.expert_exposed * near + between;
}

/// Keys and values go round all ranks that share a sequence, forward and backward, where their gradients go
/// round as well. Megatron-LM's pieces travel one by one beside attention to the piece before (ring
/// attention, arXiv 2310.01889; `cp_comm_type` p2p); PyTorch's context_parallel gathers them all beside
/// attention to a rank's own.
double context_traffic(const View& view, const Passes& passes) {
  const Configuration& how = view.how;
  if (how.cp == 1) return 0;
  const ModelShape& m = view.model;
  const double width =
      m.kv_lora > 0 ? m.heads * (m.qk_nope + m.qk_rope + m.v_head) : 2.0 * m.kv_heads * m.head_dim;
  const double bytes =
      passes.attention * (how.cp - 1) * kActivationBytes * view.tokens * width / how.tp * attention_layers(m);
  const bool crosses = how.tp * how.cp > view.gpu.domain;
  const double rate = view.rate(how.megatron ? 1 : std::max(1, view.gpu.domain / how.tp), crosses);
  const double beside = (how.megatron ? how.cp - 1.0 : 1.0) / how.cp * attention_time(view, passes);
  return std::max(0.0, bytes / rate - beside);
}

LayerTimes layer_times(const View& view) {
  const Passes passes = passes_of(view.job);
  const bool nodes = view.how.gpus > view.gpu.domain;
  LayerTimes times;
  times.device = (products_time(view, passes) + attention_time(view, passes) + memory_bound(view, passes)) *
                 (nodes ? view.constants.several_nodes : 1);
  times.host = host_time(view, passes);
  times.traffic =
      tensor_traffic(view, passes) + context_traffic(view, passes) + expert_traffic(view, times.device);
  return times;
}

double joined(double host, double device, double sharpness) {
  return std::pow(std::pow(host, sharpness) + std::pow(device, sharpness), 1 / sharpness);
}

/// Output layer and loss of one micro-batch.
double head_time(const View& view) {
  const Constants& c = view.constants;
  const Configuration& how = view.how;
  const double vocabulary = padded_vocabulary(view.job);
  const bool aligned = std::fmod(vocabulary / how.tp, 8) == 0;
  const double rate = view.sustained(view.gpu.bf16) * c.matrix * (aligned ? 1 : c.unaligned);
  const double products =
      2 * (how.lora ? 2 : kPasses) * view.tokens * vocabulary * view.model.hidden / how.tp / rate;
  const Traffic traffic = head_tape(view.job).traffic();
  const double loss = (traffic.forward + traffic.backward) / view.memory_rate();
  const bool nodes = how.gpus > view.gpu.domain;
  const double device = products * (nodes ? c.several_nodes : 1) + loss;
  return joined(c.head, device, c.sharpness);
}

/// Weights of one rank: what all tokens pass, and the experts that live there, each of them whole.
struct RankWeights {
  double shared = 0;
  double experts = 0;
};

RankWeights rank_weights(const View& view) {
  const double experts = all_expert_weights(view.model);
  const double whole = undivided_weights(view.model);
  return {.shared = (whole + (total_weights(view.model) - experts - whole) / view.how.tp) / view.how.pp,
          .experts = experts / view.how.ep / view.how.expert_tp / view.how.pp};
}

/// Gradients reduced and parameters gathered in a step, of weights that `ranks` have, every `apart`-th, and
/// `group` of them share.
double weight_traffic(const View& view, double weights, int ranks, int group, int apart) {
  const Configuration& how = view.how;
  const int members = how.zero == 3 ? group : ranks;
  const int inside = std::max(1, std::min(members, view.gpu.domain / std::min(apart, view.gpu.domain)));
  const double rate = view.rate(inside, static_cast<double>(members) * apart > view.gpu.domain);
  const double trained = how.lora ? 0.01 : 1;
  double bytes = weights * trained * (how.gradient_bytes + kActivationBytes);
  // Parameters are gathered for each pass over each micro-batch, unless a pipeline keeps them.
  if (how.zero == 3)
    bytes = weights * (2 * kActivationBytes + trained * how.gradient_bytes) * (how.pp > 1 ? 1 : view.batches);
  if (how.zero == 0) bytes = weights * trained * 2 * how.gradient_bytes;
  return bytes * (ranks - 1) / ranks / rate;
}

/// Copies of an expert are fewer than data parallel ranks, and farther apart: those of a node that is full of
/// other experts have an adapter each.
double data_traffic(const View& view, const RankWeights& parts) {
  const Configuration& how = view.how;
  const int experts = how.ep * how.expert_tp;
  const int copies = std::max(1, how.gpus / how.pp / experts);
  return weight_traffic(view, parts.shared, view.dp * how.cp, sharding(how), how.tp) +
         weight_traffic(view, parts.experts, copies, expert_sharding(how), experts);
}

/// Reads and writes two moments, the fp32 weights, the gradient, and the weights themselves.
double optimizer_time(const View& view, const RankWeights& weights) {
  constexpr double kBytes = 30;
  // Where states live on the host: a rank's share, of eight, of what the host's memory gives.
  constexpr double kHostMemory = 25e9;
  const Configuration& how = view.how;
  const bool shared = how.zero > 0;
  const double trained = how.lora ? 0.01 : 1;
  const double bytes =
      kBytes * trained *
      (weights.shared / (shared ? sharding(how) : 1) + weights.experts / (shared ? expert_sharding(how) : 1));
  return bytes / (how.offload_optimizer ? kHostMemory : view.memory_rate());
}

/// Activations to the next stage and gradients back; each tensor parallel rank sends its part. `work`:
/// seconds that a stage takes for a micro-batch. The interleaved schedule sends beside the work of other
/// chunks once the pipeline is full, and waits for what it sends while it fills and drains (Megatron-LM's
/// `overlap_p2p_comm`, schedules.py), when the first stage has 2 (p - 1) + (v - 1) p chunks on their way.
double stage_traffic(const View& view, double work) {
  const Configuration& how = view.how;
  if (how.pp == 1) return 0;
  const bool crosses = how.gpus > view.gpu.domain;  // stages are outermost, so some two are in two domains
  const double sent = 2 * kActivationBytes * view.tokens * view.model.hidden / how.tp / view.rate(1, crosses);
  if (how.virtual_stages == 1) return sent * (view.batches + how.pp - 2);
  const double all = static_cast<double>(view.batches) * how.virtual_stages;
  const double filling = std::min(all, 2.0 * (how.pp - 1) + (how.virtual_stages - 1.0) * how.pp);
  return filling * sent + (all - filling) * std::max(0.0, sent - work / how.virtual_stages);
}

/// Where layers do not come out even, whoever shared them out knew that the last stage has the output layer.
/// A stage has whole layers all the same: 61 of them on 16 stages are 4 each, and one beside the output
/// layer. Where it is known how they are shared out, no stage between the first and the last has more than
/// the second.
double slowest_stage(const Job& job, double layer, double tail) {
  const int others = job.configuration.pp - 1;
  if (others == 0) return job.model.layers * layer + tail;
  if (job.configuration.first_layers > 0 || job.configuration.last_layers > 0)
    return std::max(std::max(stage_layers(job, 0), stage_layers(job, 1)) * layer,
                    stage_layers(job, others) * layer + tail);
  double least = std::numeric_limits<double>::infinity();
  for (int last = job.model.layers / (others + 1); last >= 0; --last) {
    const int most = (job.model.layers - last + others - 1) / others;  // of the other stages
    const double rest = most * layer;
    least = std::min(least, std::max(rest, last * layer + tail));
    if (rest >= last * layer + tail) break;
  }
  return least;
}

}  // namespace

double tokens_of(const Configuration& configuration) {
  return static_cast<double>(configuration.global_batch) * configuration.sequence;
}

StepTime step_time(const Job& job, const Constants& constants) {
  const View view(job, constants);
  const Configuration& how = job.configuration;
  const LayerTimes layers = layer_times(view);
  const double all = joined(layers.host, layers.device, constants.sharpness);
  const double predicted = static_cast<double>(job.model.mtp_layers) / job.model.layers;
  // Tokens further ahead are predicted by layers and an output layer of their own, all on the last stage.
  const double head = head_time(view) * (1 + job.model.mtp_layers) + all * predicted;
  const double traffic = layers.traffic * (1 + predicted);
  const double mean = (all + head + traffic) / how.pp;
  const bool even =
      how.first_layers == 0 && how.last_layers == 0 && job.model.layers % (how.pp * how.virtual_stages) == 0;
  const double layer = (all + layers.traffic) / job.model.layers;
  const double tail = head + layers.traffic * predicted;
  const double slowest = even ? mean + tail * (how.pp - 1) / how.pp : slowest_stage(job, layer, tail);
  StepTime time;
  time.bubble = (how.pp - 1) * (even ? mean - tail / how.pp : mean) / how.virtual_stages +
                view.batches * (slowest - mean) + stage_traffic(view, mean);
  time.work = view.batches * (all + head) / how.pp;
  if (const auto measured = constants.layers.find(layer_kind(job)); measured != constants.layers.end()) {
    time.work *= measured->second;
    time.bubble *= measured->second;
  }
  time.traffic = view.batches * traffic / how.pp;
  const double computing = time.work + time.bubble + time.traffic;
  const RankWeights weights = rank_weights(view);
  const double data = data_traffic(view, weights);
  // Gathered parameters are needed at once: a step is never shorter than that takes.
  const double hidden = how.zero == 3 ? std::min(data, computing) : data;
  time.traffic += constants.data_exposed * hidden + (data - hidden);
  time.optimizer = optimizer_time(view, weights) + constants.step;
  time.total = time.work + time.bubble + time.traffic + time.optimizer;
  return time;
}

}  // namespace stweaver
