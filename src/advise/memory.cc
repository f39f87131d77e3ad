#include "advise/memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "simulate/simulate.h"

namespace stweaver {
namespace {

constexpr double kWeightBytes = 2;
/// fp32 master weights and two moments.
constexpr double kOptimizerBytes = 12;

/// What one layer's forward pass of one micro-batch keeps, tensor by tensor, and what lives only inside a
/// phase.
struct LayerTensors {
  std::vector<double> kept;  ///< until the backward pass; the layer's input first
  double gradient = 0;       ///< of one activation between layers
};

LayerTensors layer_tensors(const Job& job) {
  const Configuration& how = job.configuration;
  const ModelShape& model = job.model;
  const double tokens = static_cast<double>(how.micro_batch) * how.sequence / how.cp;
  const double split = how.sequence_parallel ? how.tp : 1;
  const double state = 2 * tokens * model.hidden / split;
  const double head = 2 * tokens * model.head_dim / how.tp;
  LayerTensors layer;
  layer.gradient = state;
  layer.kept = {state};  // the input of the layer
  const bool cheap_dropped = how.recompute == Recompute::kSelective || how.recompute == Recompute::kOperators;
  const auto cheap = [&](double bytes) {
    if (!cheap_dropped) layer.kept.push_back(bytes);
  };
  // Attention: the norm's output, queries, keys and values, the output and its log-sum-exp.
  cheap(state);
  layer.kept.push_back(head * model.heads);
  layer.kept.push_back(head * model.kv_heads);
  layer.kept.push_back(head * model.kv_heads);
  layer.kept.push_back(head * model.heads);
  layer.kept.push_back(4 * tokens * model.heads / how.tp);
  if (!how.flash_attention && !cheap_dropped)  // softmax, its dropout and the mask of that
    layer.kept.push_back(5 * tokens * how.sequence * model.heads / how.tp);
  // MLP: its input before and after the norm, what the first products give, and what the last one takes.
  layer.kept.push_back(state);
  cheap(state);
  const double dense = static_cast<double>(dense_layers(model)) / model.layers;
  const double experts = static_cast<double>(model.moe_layers) / model.layers;
  const double wide = 2 * tokens / how.tp * (model.gated_mlp ? 2 : 1);
  const double narrow = 2 * tokens / how.tp;
  const double width = model.expert_width > 0 ? model.expert_width : model.hidden;
  const double inner = dense * model.ffn + experts * (model.topk * model.expert_ffn + model.shared_ffn);
  layer.kept.push_back(wide * inner);
  cheap(narrow * inner);
  if (experts > 0) {  // tokens sorted by expert, and what the experts made of them
    layer.kept.push_back(experts * narrow * model.topk * width);
    layer.kept.push_back(experts * narrow * model.topk * width);
  }
  std::erase(layer.kept, 0.0);
  return layer;
}

double sum_of(const std::vector<double>& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

/// One layer's weights on a rank, the mean over kinds of layers: with and without its experts, which live
/// whole on one rank each.
double shared_weights(const Job& job) {
  return dense_weights(job.model) / job.model.layers / job.configuration.tp;
}

double experts_weights(const Job& job) {
  return all_expert_weights(job.model) / job.model.layers / job.configuration.ep;
}

double embedding_weights(const Job& job) {
  return static_cast<double>(job.model.vocabulary) * job.model.hidden / job.configuration.tp;
}

/// Layers of a stage: what does not come out even is given to the first stages.
int stage_layers(const Job& job, int stage) {
  const int pp = job.configuration.pp;
  return job.model.layers / pp + (stage < job.model.layers % pp ? 1 : 0);
}

/// Weights of a stage: what all tokens pass, embeddings included, and its experts.
struct StageWeights {
  double shared = 0;
  double experts = 0;
};

StageWeights stage_weights(const Job& job, int stage) {
  const bool last = stage == job.configuration.pp - 1;
  const int layers = stage_layers(job, stage);
  StageWeights weights{.shared = layers * shared_weights(job), .experts = layers * experts_weights(job)};
  if (stage == 0) weights.shared += embedding_weights(job);
  if (last && (stage != 0 || !job.model.tied_embeddings)) weights.shared += embedding_weights(job);
  return weights;
}

/// Bytes of each kind of state of one rank.
struct States {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
};

States states_of(const Job& job, int stage) {
  const Configuration& how = job.configuration;
  const StageWeights weights = stage_weights(job, stage);
  // `least`: the ZeRO stage from which on ranks share it.
  const auto bytes = [&](double each, int least) {
    const bool split = how.zero >= least;
    return each * (weights.shared / (split ? sharding(how) : 1) +
                   weights.experts / (split ? expert_sharding(how) : 1));
  };
  const double trained = how.lora ? 0.01 : 1;
  return {.weights = bytes(kWeightBytes, 3),
          .gradients = bytes(trained * how.gradient_bytes, 2),
          .optimizer = how.offload_optimizer ? 0 : bytes(trained * kOptimizerBytes, 1)};
}

struct Passage {
  bool forward = true;
  int chunk = 0;
  int batch = 0;
};

/// The order in which a stage runs its passages: 1F1B, or interleaved with `virtual_stages` chunks (Narayanan
/// et al., arXiv 2104.04473, section 2.2), as Megatron-LM has them.
std::vector<Passage> schedule(int pp, int stage, int chunks, int batches) {
  const int passages = batches * chunks;
  const int ahead = chunks == 1 ? std::min(pp - stage - 1, passages)
                                : std::min((pp - stage - 1) * 2 + (chunks - 1) * pp, passages);
  const auto at = [&](int k, bool forward) {
    if (chunks == 1) return Passage{forward, 0, k};
    const int group = k / (pp * chunks);
    const int within = k % (pp * chunks);
    const int chunk = within / pp;
    return Passage{forward, forward ? chunk : chunks - 1 - chunk, group * pp + within % pp};
  };
  std::vector<Passage> order;
  order.reserve(2 * static_cast<std::size_t>(passages));
  for (int k = 0; k < ahead; ++k) order.push_back(at(k, true));
  for (int k = 0; k + ahead < passages; ++k) {
    order.push_back(at(ahead + k, true));
    order.push_back(at(k, false));
  }
  for (int k = passages - ahead; k < passages; ++k) order.push_back(at(k, false));
  return order;
}

/// Chunks whose activations a stage keeps at most at once.
int in_flight(const Configuration& how, int stage) {
  const int passages = micro_batches(how) * how.virtual_stages;
  const int ahead = how.virtual_stages == 1 ? how.pp - stage - 1
                                            : (how.pp - stage - 1) * 2 + (how.virtual_stages - 1) * how.pp;
  return std::min(ahead + 1, passages);
}

/// Logits in bf16 and fp32, and the gradient of either.
std::vector<double> logits(const Job& job) {
  const Configuration& how = job.configuration;
  const double count =
      static_cast<double>(how.micro_batch) * how.sequence / how.cp * job.model.vocabulary / how.tp;
  return {2 * count, 4 * count, 4 * count};
}

/// Events in order, made into a trace.
class Recording {
 public:
  std::size_t allocate(double bytes) {
    // What is shared among many ranks is never nothing.
    const Bytes size = std::max<Bytes>(static_cast<Bytes>(std::llround(bytes)), 1);
    trace_.requests.push_back({.size = size, .life = {trace_.end++, kForever}, .dropped = kForever});
    return trace_.requests.size() - 1;
  }
  void free(std::size_t id) {
    trace_.requests[id].life.upper = trace_.end;
    trace_.requests[id].dropped = trace_.end++;
  }
  std::vector<std::size_t> allocate(const std::vector<double>& sizes) {
    std::vector<std::size_t> ids;
    ids.reserve(sizes.size());
    for (const double size : sizes) ids.push_back(allocate(size));
    return ids;
  }
  /// Last in, first out.
  void free(const std::vector<std::size_t>& ids) {
    for (std::size_t i = ids.size(); i-- > 0;) free(ids[i]);
  }
  void mark(std::string label) { trace_.marks.push_back({trace_.end, std::move(label)}); }
  Trace take(std::string name) {
    trace_.name = std::move(name);
    return std::move(trace_);
  }

 private:
  Trace trace_;
};

/// One step of one rank.
class StepRecorder {
 public:
  StepRecorder(const Job& job, int stage, Recording& recording)
      : job_(job),
        how_(job.configuration),
        last_(stage == how_.pp - 1),
        layer_(layer_tensors(job)),
        layers_(stage_layers(job, stage)),
        stage_(stage),
        recording_(recording) {}

  void run(int batches) {
    for (const Passage& passage : schedule(how_.pp, stage_, how_.virtual_stages, batches)) {
      if (passage.forward) {
        forward(passage);
      } else {
        backward(passage);
      }
    }
  }

 private:
  [[nodiscard]] bool is_recomputed(std::size_t layer) const {
    return layer < static_cast<std::size_t>(recomputed_layers(job_));
  }
  [[nodiscard]] int layers_of(int chunk) const {
    return layers_ / how_.virtual_stages + (chunk < layers_ % how_.virtual_stages ? 1 : 0);
  }
  [[nodiscard]] std::vector<double> inner() const { return {layer_.kept.begin() + 1, layer_.kept.end()}; }

  void forward(const Passage& passage) {
    std::vector<std::vector<std::size_t>>& kept = live_[{passage.chunk, passage.batch}];
    for (int i = 0; i < layers_of(passage.chunk); ++i) {
      kept.push_back({recording_.allocate(layer_.kept.front())});
      const std::vector<std::size_t> ids = recording_.allocate(inner());
      if (is_recomputed(static_cast<std::size_t>(i))) {
        recording_.free(ids);
      } else {
        kept.back().insert(kept.back().end(), ids.begin(), ids.end());
      }
    }
  }

  void backward(const Passage& passage) {
    if (last_ && passage.chunk == how_.virtual_stages - 1) recording_.free(recording_.allocate(logits(job_)));
    auto kept = live_.extract({passage.chunk, passage.batch});
    std::size_t gradient = recording_.allocate(layer_.gradient);
    for (std::size_t i = kept.mapped().size(); i-- > 0;) {
      if (is_recomputed(i)) {
        const std::vector<std::size_t> again = recording_.allocate(inner());
        kept.mapped()[i].insert(kept.mapped()[i].end(), again.begin(), again.end());
      }
      const std::size_t next = recording_.allocate(layer_.gradient);
      recording_.free(kept.mapped()[i]);
      recording_.free(gradient);
      gradient = next;
    }
    recording_.free(gradient);
  }

  const Job& job_;
  const Configuration& how_;
  bool last_;
  LayerTensors layer_;
  int layers_;
  int stage_;
  Recording& recording_;
  std::map<std::pair<int, int>, std::vector<std::vector<std::size_t>>> live_;
};

}  // namespace

RankMemory live_memory(const Job& job, int stage) {
  const Configuration& how = job.configuration;
  const States states = states_of(job, stage);
  const LayerTensors layer = layer_tensors(job);
  const double all = sum_of(layer.kept);
  const double chunk = static_cast<double>(stage_layers(job, stage)) / how.virtual_stages;
  const double recomputed = std::min<double>(recomputed_layers(job), chunk);
  const bool full = recomputed > 0;
  RankMemory memory;
  memory.stage = stage;
  memory.states = states.weights + states.gradients + states.optimizer;
  memory.activations = in_flight(how, stage) * (recomputed * layer.kept.front() + (chunk - recomputed) * all);
  const double rebuilt = full ? all - layer.kept.front() : 0;
  memory.transient = rebuilt + 2 * layer.gradient;
  if (stage == how.pp - 1) memory.transient = std::max(memory.transient, sum_of(logits(job)));
  // Two layers' weights are gathered at a time: the one at work and the next.
  if (how.zero == 3) memory.transient += 2 * kWeightBytes * (shared_weights(job) + experts_weights(job));
  return memory;
}

RankMemory fullest_rank(const Job& job) {
  RankMemory first = live_memory(job, 0);
  if (job.configuration.pp == 1) return first;
  RankMemory last = live_memory(job, job.configuration.pp - 1);
  return first.peak() >= last.peak() ? first : last;
}

Trace rank_trace(const Job& job, int stage) {
  const Configuration& how = job.configuration;
  const States states = states_of(job, stage);
  Recording recording;
  const int layers = stage_layers(job, stage);
  for (int i = 0; i < layers; ++i) recording.allocate(states.weights / layers);
  recording.allocate(states.gradients);
  if (states.optimizer > 0)
    for (int i = 0; i < 3; ++i) recording.allocate(states.optimizer / 3);
  // Two gathered layers take turns for the whole step.
  if (how.zero == 3)
    for (int i = 0; i < 2; ++i)
      recording.allocate(kWeightBytes * (shared_weights(job) + experts_weights(job)));
  // Twice the depth shows the pipeline full, and a passage of each chunk behind one of its own kind.
  const int enough = 2 * how.pp;
  const int batches = std::min(micro_batches(how), enough);
  constexpr int kSteps = 3;
  for (int step = 0; step < kSteps; ++step) {
    recording.mark(text("iteration ", step));
    StepRecorder(job, stage, recording).run(batches);
  }
  recording.mark("end");
  return recording.take(text(job.model.name, " stage ", stage));
}

Reservation reserve(const Job& job, int stage) {
  const Trace trace = rank_trace(job, stage);
  const auto simulated = [&trace](bool expandable) {
    AllocatorSettings settings;
    settings.expandable_segments = expandable;
    CachingAllocator allocator(settings);
    const ReplayResult result = replay(trace, allocator, {});
    if (result.ooms > 0) fail(trace.name, ": needs more memory than any device has");
    return result.reserved_peak;
  };
  SynthesizeOptions options;
  options.timeout = 0.1;  // these traces are regular: what is found at all is found at once
  return {.requested = peak_requested(trace),
          .planned = synthesize(trace, profile_of(trace), options).plan.arena,
          .native = simulated(false),
          .expandable = simulated(true)};
}

}  // namespace stweaver
