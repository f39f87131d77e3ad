#include "advise/memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "advise/layers.h"
#include "plan/plan.h"
#include "simulate/simulate.h"

namespace stweaver {
namespace {

/// fp32 master weights and two moments.
double optimizer_state_bytes(const Configuration& how) {
  return 4 + 2.0 * how.moment_bytes;
}

/// One layer's weights on a rank, the mean over kinds of layers: with and without its experts, which live
/// whole on one rank each.
double shared_weights(const ModelShape& model, const Configuration& how) {
  const double whole = undivided_weights(model);
  return (whole + (dense_weights(model) - whole) / how.tp) / model.layers;
}

double experts_weights(const ModelShape& model, const Configuration& how) {
  return all_expert_weights(model) / model.layers / how.ep / how.expert_tp;
}

/// The same, all of them.
double layer_weights(const Job& job) {
  return shared_weights(job.model, job.configuration) + experts_weights(job.model, job.configuration);
}

double embedding_weights(const Job& job) {
  return padded_vocabulary(job) * job.model.hidden / job.configuration.tp;
}

/// What products take for themselves: cuBLAS for each of the threads that run forward and backward, and
/// TransformerEngine, if it has any of them.
double workspaces(const Job& job) {
  const Configuration& how = job.configuration;
  // TransformerEngine's: 32 MiB from Hopper on, 4 MiB before. Deterministic products need more of cuBLAS.
  const bool recent = job.gpu.workspace >= 32 * kMiB;
  const auto each = static_cast<double>(how.deterministic ? 32 * kMiB : job.gpu.workspace);
  const bool routes = job.model.moe_layers > 0;
  if (!how.compiled || !how.transformer_engine || (how.local_layers && !routes)) return 2 * each;
  // One more for each of the four streams that the experts' products take turns on (module/base.py,
  // get_multi_stream_cublas_workspace).
  const bool grouped = routes && how.grouped_experts;
  return 2 * each + (grouped ? 5 : 1) * static_cast<double>((recent ? 32 : 4) * kMiB);
}

/// Where products are Megatron-LM's own, they gather all tokens into one buffer for good
/// (tensor_parallel/layers.py, get_global_memory_buffer); the output layer always is.
double gathered_for_good(const Job& job, int stage) {
  const Configuration& how = job.configuration;
  const bool own = how.legacy || how.local_layers || (how.megatron && stage == how.pp - 1);
  return own ? gathered_bytes(job) : 0;
}

/// Weights of a stage: what all tokens pass, its experts, and embeddings.
struct StageWeights {
  double shared = 0;
  double experts = 0;
  double embeddings = 0;
};

/// Of the layers of multi-token prediction and what makes their inputs one, all of which the last stage has.
/// They take the output layer that is there, and the embedding.
void add_predicting_layers(const Job& job, StageWeights& weights) {
  const Configuration& how = job.configuration;
  const ModelShape model = of_predicting_layers(job.model);
  const double projection = 2.0 * model.hidden * model.hidden / how.tp;
  weights.shared += model.mtp_layers * (shared_weights(model, how) + projection);
  weights.experts += model.mtp_layers * experts_weights(model, how);
  if (how.pp > 1 && !model.tied_embeddings) weights.embeddings += embedding_weights(job);
}

StageWeights stage_weights(const Job& job, int stage) {
  const bool last = stage == job.configuration.pp - 1;
  const int layers = stage_layers(job, stage);
  StageWeights weights{.shared = layers * shared_weights(job.model, job.configuration),
                       .experts = layers * experts_weights(job.model, job.configuration)};
  if (last && job.model.mtp_layers > 0) add_predicting_layers(job, weights);
  if (stage == 0) weights.embeddings += embedding_weights(job);
  // Learned positions, which nobody splits.
  if (stage == 0 && !job.configuration.rotary)
    weights.embeddings += static_cast<double>(job.configuration.sequence) * job.model.hidden;
  if (last && (stage != 0 || !job.model.tied_embeddings)) weights.embeddings += embedding_weights(job);
  return weights;
}

/// PyTorch's FSDP shares the fp32 parameters that its optimizer works on, and has others only where they are
/// gathered.
bool has_pytorch_fsdp(const Configuration& how) {
  return !how.megatron && how.zero == 3;
}

/// Shared parameters of a pipeline stay gathered for the whole step, and so do their gradients. Without one
/// PyTorch's FSDP has layers in groups of their own, and gathers the embeddings, which are in none, once.
double gathered_for_a_step(const Job& job, int stage) {
  const Configuration& how = job.configuration;
  if (how.zero != 3) return 0;
  const StageWeights weights = stage_weights(job, stage);
  if (how.pp == 1) return has_pytorch_fsdp(how) ? kHalf * weights.embeddings : 0;
  return (how.weight_bytes + how.gradient_bytes) * (weights.shared + weights.experts) +
         (kHalf + how.gradient_bytes) * weights.embeddings;
}

/// While layers run backward: the gradient of the output layer, which is shared out together with that of the
/// embedding, and those of the layer behind, which are on their way.
double gradients_on_their_way(const Job& job) {
  const Configuration& how = job.configuration;
  if (!has_pytorch_fsdp(how) || how.pp > 1) return 0;
  return embedding_gradient(job) + how.gradient_bytes * layer_weights(job);
}

/// Bytes of each kind of state of one rank.
struct States {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double host = 0;  ///< the optimizer's, where they are on the host
};

States states_of(const Job& job, int stage) {
  const Configuration& how = job.configuration;
  const StageWeights weights = stage_weights(job, stage);
  // `least`: the ZeRO stage from which on ranks share it.
  const auto bytes = [&](double each, double embeddings, int least) {
    const bool split = how.zero >= least;
    return (each * weights.shared + embeddings * weights.embeddings) / (split ? sharding(how) : 1) +
           each * weights.experts / (split ? expert_sharding(how) : 1);
  };
  const double trained = how.lora ? 0.01 : 1;
  const double gradient = trained * how.gradient_bytes;
  const double moments = trained * optimizer_state_bytes(how);
  const double optimizer = bytes(moments, moments, 1);
  const bool fp32_alone = has_pytorch_fsdp(how) && !how.offload_optimizer;
  return {.weights = fp32_alone ? 0 : bytes(how.weight_bytes, kHalf, 3),
          .gradients = bytes(gradient, gradient, 2),
          .optimizer = how.offload_optimizer ? 0 : optimizer,
          .host = how.offload_optimizer ? optimizer : 0};
}

struct Passage {
  bool forward = true;
  int chunk = 0;
  int batch = 0;
};

/// Passages forward before the first one backward.
int passages_ahead(const Configuration& how, int stage) {
  const int behind = how.pp - stage - 1;
  if (how.virtual_stages == 1) return behind;
  return behind * 2 + (how.virtual_stages - 1) * round_of(how) + (how.overlap_experts ? 1 : 0);
}

/// The order in which a stage runs its passages: 1F1B, or interleaved with `virtual_stages` chunks (Narayanan
/// et al., arXiv 2104.04473, section 2.2), as Megatron-LM has them.
std::vector<Passage> schedule(const Configuration& how, int stage, int batches) {
  const int chunks = how.virtual_stages;
  const int round = round_of(how);
  const int passages = batches * chunks;
  const int ahead = std::min(passages_ahead(how, stage), passages);
  const auto at = [&](int k, bool forward) {
    if (chunks == 1) return Passage{forward, 0, k};
    const int group = k / (round * chunks);
    const int within = k % (round * chunks);
    const int chunk = within / round;
    return Passage{forward, forward ? chunk : chunks - 1 - chunk, group * round + within % round};
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

/// Bytes of the mask that the data loader makes for a micro-batch; the ranks between the ends of a pipeline
/// get no batch.
double attention_mask(const Job& job, int stage) {
  const Configuration& how = job.configuration;
  const bool has_batch = stage == 0 || stage == how.pp - 1;
  if (!how.attention_mask || !has_batch) return 0;
  return static_cast<double>(how.micro_batch) * how.sequence * how.sequence / how.cp;
}

/// Chunks whose activations a stage keeps at most at once.
int in_flight(const Configuration& how, int stage) {
  return std::min(passages_ahead(how, stage) + 1, micro_batches(how) * how.virtual_stages);
}

/// Chunks of a stage that have a layer less than the others: the embedding takes its place in the first, the
/// output layer in the last.
bool has_layer_less(const Job& job, int stage, int chunk) {
  const int chunks = job.configuration.virtual_stages, rest = stage_layers(job, stage) % chunks;
  return rest > 0 && (stage == 0 ? chunk < chunks - rest : chunk >= rest);
}

/// Layers that the chunks which a stage keeps have less than if all were as large as the largest.
int layers_less(const Job& job, int stage) {
  const Configuration& how = job.configuration;
  const int passages = in_flight(how, stage), round = round_of(how), group = round * how.virtual_stages;
  int layers = 0;
  for (int chunk = 0; chunk < how.virtual_stages; ++chunk)
    if (has_layer_less(job, stage, chunk))
      layers += passages / group * round + std::clamp(passages % group - chunk * round, 0, round);
  return layers;
}

/// Whether a stage waits for its next input while it still runs backward: Megatron-LM's interleaved schedule,
/// which overlaps passages with what is sent (pipeline_parallel/schedules.py).
bool receives_early(const Configuration& how) {
  return how.megatron && how.virtual_stages > 1;
}

bool keeps_sent_gradient(const Configuration& how) {
  return how.megatron && how.pp > 1;
}

/// Whether what a passage was given lives until another has run: in 1F1B the graph of its output holds it.
bool keeps_done_input(const Configuration& how) {
  return how.megatron && how.pp > 1 && how.virtual_stages == 1;
}

/// Tensors that a stage holds at most of what it sent and received, beside the passages that it keeps.
int in_transit(const Configuration& how, int stage) {
  const bool sends_gradients = stage > 0 || how.virtual_stages > 1;
  // The last stage needs most while it runs forward, when the last input is still there.
  const bool has_done_input = keeps_done_input(how) && stage == how.pp - 1;
  return (receives_early(how) ? 2 : 0) + (keeps_sent_gradient(how) && sends_gradients ? 1 : 0) +
         (has_done_input ? 1 : 0);
}

constexpr double kLoss = 4;  // bytes of its gradient

/// Backward through what kept its input alone: forward once more.
std::size_t backward_again(const Tape& tape, Ledger& ledger, std::size_t input, std::size_t gradient) {
  Tape::Kept again = tape.forward(ledger, input, true, false);
  const std::size_t output = again.output;
  gradient = tape.backward(ledger, std::move(again), gradient);
  ledger.free(output);
  return gradient;
}

/// A layer of multi-token prediction, and the output layer and loss behind it. Where there are several, each
/// counts as if it took what the first takes.
class Predicting {
 public:
  explicit Predicting(const Job& job)
      : layer_(predicting_tape(job)), head_(head_tape(job)), keeps_(recomputed_layers(job) == 0) {}

  struct Kept {
    Tape::Kept layer;
    Tape::Kept head;
  };

  [[nodiscard]] Kept forward(Ledger& ledger, std::size_t input) const {
    Kept kept;
    kept.layer = layer_.forward(ledger, input, keeps_, false);
    kept.head = head_.forward(ledger, kept.layer.output, true, true);
    ledger.free(kept.head.output);
    return kept;
  }

  /// Its gradient of the input is added to one that is there.
  void backward(Ledger& ledger, Kept kept, std::size_t input) const {
    const std::size_t gradient = head_.backward(ledger, std::move(kept.head), ledger.allocate(kLoss));
    ledger.free(keeps_ ? layer_.backward(ledger, std::move(kept.layer), gradient)
                       : backward_again(layer_, ledger, input, gradient));
  }

 private:
  Tape layer_;
  Tape head_;
  bool keeps_;
};

/// The passages of one stage, one after another, as an allocator sees them.
class StageRun {
 public:
  StageRun(const Job& job, int stage, Ledger& ledger)
      : job_(job),
        how_(job.configuration),
        stage_(stage),
        layer_(layer_tape(job)),
        head_(head_tape(job)),
        predicting_(job),
        state_(activation_bytes(job)),
        ledger_(ledger) {}

  void run(int batches) {
    const std::vector<Passage> passages = schedule(how_, stage_, batches);
    for (auto passage = passages.begin(); passage != passages.end(); ++passage) {
      if (!passage->forward) {
        backward(*passage);
        continue;
      }
      forward(*passage);
      if (!receives_early(how_)) continue;
      const auto next = std::find_if(passage + 1, passages.end(), [](const Passage& p) { return p.forward; });
      if (next != passages.end() && !has_embedding(next->chunk)) received_ = ledger_.allocate(state_);
    }
    let_go(sent_);
    let_go(sent_gradient_);
    let_go(done_input_);
  }

 private:
  /// What a passage leaves for its way back.
  struct Passed {
    std::vector<std::size_t> inputs;  ///< of the chunk, and of layers that are recomputed
    std::vector<Tape::Kept> layers;
    Tape::Kept head;
    std::vector<Predicting::Kept> predicting = {};
    std::optional<std::size_t> shared = std::nullopt;  ///< what the head and those are given
    std::optional<std::size_t> mask = std::nullopt;
  };

  [[nodiscard]] int layers_of(int chunk) const {
    const int chunks = how_.virtual_stages;
    return (stage_layers(job_, stage_) + chunks - 1) / chunks - (has_layer_less(job_, stage_, chunk) ? 1 : 0);
  }
  [[nodiscard]] bool has_head(int chunk) const {
    return stage_ == how_.pp - 1 && chunk == how_.virtual_stages - 1;
  }
  [[nodiscard]] bool has_embedding(int chunk) const { return stage_ == 0 && chunk == 0; }

  void forward(const Passage& passage) {
    Passed& passed = passed_[{passage.chunk, passage.batch}];
    let_go(sent_);
    std::size_t x = received_ ? *std::exchange(received_, std::nullopt) : ledger_.allocate(state_);
    passed.inputs.push_back(x);
    const int recomputed = recomputed_layers(job_);
    if (const double mask = attention_mask(job_, stage_); mask > 0) passed.mask = ledger_.allocate(mask);
    for (int i = 0; i < layers_of(passage.chunk); ++i) {
      // The schedule holds on to what a chunk was given.
      const bool keeps = i >= recomputed;
      if (i > 0 && !keeps) passed.inputs.push_back(x);
      passed.layers.push_back(layer_.forward(ledger_, x, keeps, i > 0 && keeps));
      x = passed.layers.back().output;
    }
    if (has_head(passage.chunk)) x = forward_head(passed, x);
    // What went to the next stage is let go, by an interleaved schedule only when it runs forward again; who
    // recomputes keeps the mask for that.
    if (x != passed.inputs.front()) sent_ = x;
    if (!receives_early(how_)) let_go(sent_);
    let_go(done_input_);
    if (passed.mask && recomputed == 0) ledger_.free(*std::exchange(passed.mask, std::nullopt));
  }

  /// Tokens further ahead are predicted first (Megatron-LM, gpt_model.py, _postprocess). Returns the loss.
  std::size_t forward_head(Passed& passed, std::size_t x) {
    const bool owned = !passed.layers.empty(), shares = job_.model.mtp_layers > 0;
    if (owned && shares) passed.shared = x;
    for (int i = 0; i < job_.model.mtp_layers; ++i)
      passed.predicting.push_back(predicting_.forward(ledger_, x));
    passed.head = head_.forward(ledger_, x, true, owned && !shares);
    return passed.head.output;
  }

  std::size_t backward_head(Passed& passed) {
    const std::size_t gradient = head_.backward(ledger_, std::move(passed.head), ledger_.allocate(kLoss));
    for (; !passed.predicting.empty(); passed.predicting.pop_back())
      predicting_.backward(ledger_, std::move(passed.predicting.back()),
                           passed.shared.value_or(passed.inputs.front()));
    let_go(passed.shared);
    return gradient;
  }

  void backward(const Passage& passage) {
    let_go(done_input_);
    Passed passed = std::move(passed_.extract({passage.chunk, passage.batch}).mapped());
    std::size_t gradient = 0;
    if (has_head(passage.chunk)) {
      gradient = backward_head(passed);
    } else {
      gradient = ledger_.allocate(state_);
    }
    std::optional<std::size_t> others;
    if (const double bytes = gradients_on_their_way(job_); bytes > 0) others = ledger_.allocate(bytes);
    const auto recomputed = static_cast<std::size_t>(recomputed_layers(job_));
    for (std::size_t i = passed.layers.size(); i-- > 0;) {
      if (i >= recomputed) {
        gradient = layer_.backward(ledger_, std::move(passed.layers[i]), gradient);
        continue;
      }
      gradient = backward_again(layer_, ledger_, passed.inputs[i], gradient);
      if (i > 0) ledger_.free(passed.inputs[i]);
    }
    let_go(others);
    if (has_embedding(passage.chunk)) ledger_.free(ledger_.allocate(embedding_gradient(job_)));
    // Megatron-LM's schedules have a name for the gradient that was sent until there is the next.
    let_go(sent_gradient_);
    sent_gradient_ = gradient;
    if (!keeps_sent_gradient(how_) || has_embedding(passage.chunk)) let_go(sent_gradient_);
    done_input_ = passed.inputs.front();
    if (!keeps_done_input(how_) || has_embedding(passage.chunk)) let_go(done_input_);
    if (passed.mask) ledger_.free(*passed.mask);
  }

  void let_go(std::optional<std::size_t>& block) {
    if (block) ledger_.free(*std::exchange(block, std::nullopt));
  }

  const Job& job_;
  const Configuration& how_;
  int stage_;
  Tape layer_;
  Tape head_;
  Predicting predicting_;
  double state_;
  Ledger& ledger_;
  std::map<std::pair<int, int>, Passed> passed_;
  std::optional<std::size_t> received_;       ///< for the next passage forward
  std::optional<std::size_t> sent_;           ///< to the next stage
  std::optional<std::size_t> sent_gradient_;  ///< to the one before
  std::optional<std::size_t> done_input_;     ///< of the passage that ran backward
};

/// What one tape asks for above what is there when its turn comes. `owned`: its input counts, as nobody else
/// holds it. `keeps` false: it keeps its input alone and runs forward once more.
LayerMemory layer_memory(const Tape& tape, double input, bool owned, bool keeps) {
  LayerMemory memory;
  Ledger ledger;
  const std::size_t x = ledger.allocate(input);
  const double others = owned ? 0 : input;
  Tape::Kept kept = tape.forward(ledger, x, keeps, owned && keeps);
  memory.forward = ledger.peak() - others;
  const double with_output = ledger.live();
  ledger.free(kept.output);
  const double output = with_output - ledger.live();
  memory.kept = ledger.live() - others;
  const std::size_t gradient = ledger.allocate(output);
  ledger.forget_peak();
  if (!keeps) kept = tape.forward(ledger, x, true, false);
  ledger.free(tape.backward(ledger, std::move(kept), gradient));
  memory.backward = ledger.peak() - others;
  return memory;
}

/// The same of a layer of multi-token prediction, with its head.
LayerMemory predicting_memory(const Job& job) {
  LayerMemory memory;
  Ledger ledger;
  const double input = activation_bytes(job);
  const std::size_t x = ledger.allocate(input);
  const Predicting predicting(job);
  Predicting::Kept kept = predicting.forward(ledger, x);
  memory.forward = ledger.peak() - input;
  memory.kept = ledger.live() - input;
  ledger.forget_peak();
  predicting.backward(ledger, std::move(kept), x);
  memory.backward = ledger.peak() - input;
  return memory;
}

/// What the last stage needs at most for its head, and for layers of multi-token prediction before that.
double head_memory(const ChunkMemory& parts, int predicting) {
  const LayerMemory& ahead = parts.predicting;
  const double head = std::max(parts.head.forward, parts.head.backward) + predicting * ahead.kept;
  if (predicting == 0) return head;
  // What they are given is there, and its gradient.
  return std::max(head,
                  2 * parts.state + (predicting - 1) * ahead.kept + std::max(ahead.forward, ahead.backward));
}

/// Whether PyTorch's optimizer runs, which makes its moments in the first step.
bool has_plain_optimizer(const Configuration& how) {
  return !how.legacy && (!how.compiled || !how.transformer_engine);
}

/// Blocks of each step, while the optimizer runs: gradients and roots of the second moments. PyTorch's makes
/// roots, and modules of PyTorch have gradients for it besides. Megatron-LM's wants gradients in fp32, and
/// copies those that were reduced in fewer bytes (DistributedOptimizer._copy_model_grads_to_main_grads).
std::array<double, 2> optimizer_blocks(const Job& job, const States& states) {
  const Configuration& how = job.configuration;
  const double roots = has_plain_optimizer(how) ? states.optimizer / 3 : 0;
  if (has_pytorch_fsdp(how)) return {0, roots};
  if (!how.compiled && !how.legacy) return {states.optimizer / 3, roots};
  if (how.gradient_bytes >= 4) return {0, roots};
  return {states.optimizer * 4 / optimizer_state_bytes(how), roots};
}

}  // namespace

ChunkMemory chunk_memory(const Job& job) {
  const Tape layer = layer_tape(job);
  const double state = activation_bytes(job);
  const bool recomputes = recomputed_layers(job) > 0;
  return {.state = state,
          .first = layer_memory(layer, state, false, true),
          .plain = layer_memory(layer, state, true, true),
          .recomputed = recomputes ? layer_memory(layer, state, true, false) : LayerMemory(),
          .head = layer_memory(head_tape(job), state, true, true),
          .predicting = job.model.mtp_layers > 0 ? predicting_memory(job) : LayerMemory()};
}

RankMemory live_memory(const Job& job, int stage, const ChunkMemory& parts) {
  const Configuration& how = job.configuration;
  const States states = states_of(job, stage);
  const int chunk = (stage_layers(job, stage) + how.virtual_stages - 1) / how.virtual_stages;
  const int recomputed = std::min(recomputed_layers(job), chunk);
  const int plain = chunk - recomputed;
  // A chunk holds its input; of layers that keep all but their input, the first shares it.
  const double below =
      recomputed > 0 ? recomputed * parts.recomputed.kept : parts.state + (plain > 0 ? parts.first.kept : 0);
  const int above = recomputed > 0 ? plain : std::max(plain - 1, 0);
  const double kept = below + above * parts.plain.kept;
  RankMemory memory;
  memory.stage = stage;
  memory.host = states.host;
  memory.states = states.weights + states.gradients + states.optimizer + workspaces(job) +
                  gathered_for_good(job, stage) + gathered_for_a_step(job, stage);
  memory.activations = in_flight(how, stage) * kept;
  memory.activations -=
      layers_less(job, stage) *
      (above > 0 ? parts.plain.kept : (recomputed > 0 ? parts.recomputed.kept : parts.first.kept));
  double most = 0;  // above what is kept
  if (above > 0) most = std::max(parts.plain.forward, parts.plain.backward) - parts.plain.kept;
  if (above == 0 && recomputed == 0)
    most = std::max(parts.first.forward, parts.first.backward) - parts.first.kept;
  if (recomputed > 0)
    most = std::max(most, parts.recomputed.backward - parts.recomputed.kept - above * parts.plain.kept);
  if (recomputed > 0 && above == 0) most = std::max(most, parts.recomputed.forward - parts.recomputed.kept);
  most += gradients_on_their_way(job);
  if (stage == how.pp - 1) most = std::max(most, head_memory(parts, job.model.mtp_layers));
  if (stage == 0) most = std::max(most, parts.state + embedding_gradient(job) - kept);
  most += attention_mask(job, stage) + in_transit(how, stage) * parts.state;
  // Two layers' weights are gathered at a time: the one at work and the next.
  if (how.zero == 3 && how.pp == 1) most += 2 * how.weight_bytes * layer_weights(job);
  const auto [gradient, root] = optimizer_blocks(job, states);
  memory.transient = std::max(most, gradient + root - memory.activations);
  memory.states *= job.calibration.states;
  memory.activations *= job.calibration.activations;
  memory.transient *= job.calibration.activations;
  return memory;
}

RankMemory live_memory(const Job& job, int stage) {
  return live_memory(job, stage, chunk_memory(job));
}

RankMemory fullest_rank(const Job& job, const ChunkMemory& parts) {
  RankMemory fullest = live_memory(job, 0, parts);
  const auto look_at = [&](int stage) {
    const RankMemory other = live_memory(job, stage, parts);
    if (other.peak() > fullest.peak()) fullest = other;
  };
  const int last = job.configuration.pp - 1;
  if (last > 1 && stage_layers(job, 1) > stage_layers(job, 0)) look_at(1);
  if (last > 0) look_at(last);
  return fullest;
}

Trace rank_trace(const Job& job, int stage) {
  const Configuration& how = job.configuration;
  const States states = states_of(job, stage);
  Trace trace;
  trace.name = text(job.model.name, " stage ", stage);
  Ledger ledger(&trace);
  ledger.scale(job.calibration.states);
  const int layers = std::max(1, stage_layers(job, stage));
  for (int i = 0; i < layers && states.weights > 0; ++i) ledger.allocate(states.weights / layers);
  ledger.allocate(states.gradients);
  // PyTorch's optimizer makes its moments in the first step.
  const bool late = has_plain_optimizer(how);
  if (states.optimizer > 0)
    for (int i = 0; i < (late ? 1 : 3); ++i) ledger.allocate(states.optimizer / 3);
  ledger.allocate(workspaces(job) + gathered_for_good(job, stage));
  if (const double gathered = gathered_for_a_step(job, stage); gathered > 0) ledger.allocate(gathered);
  ledger.scale(job.calibration.activations);
  // Two gathered layers take turns for the whole step.
  if (how.zero == 3 && how.pp == 1)
    for (int i = 0; i < 2; ++i) ledger.allocate(how.weight_bytes * layer_weights(job));
  // Twice the depth shows the pipeline full, and a passage of each chunk behind one of its own kind.
  const int enough = 2 * std::max(how.pp, round_of(how));
  // The interleaved schedule goes in rounds.
  const int round = how.virtual_stages > 1 ? round_of(how) : 1;
  const int batches = std::min((micro_batches(how) + round - 1) / round * round, enough);
  constexpr int kSteps = 3;
  const auto mark = [&trace](std::string label) { trace.marks.push_back({trace.end, std::move(label)}); };
  for (int step = 0; step < kSteps; ++step) {
    mark(text("iteration ", step));
    StageRun(job, stage, ledger).run(batches);
    const auto [gradient_bytes, root_bytes] = optimizer_blocks(job, states);
    std::vector<std::size_t> made;
    if (gradient_bytes > 0) made.push_back(ledger.allocate(gradient_bytes));
    // torch/optim/adam.py makes its moments before it takes roots; what an allocator reserves depends on it.
    for (int i = 0; i < 2 && late && step == 0; ++i) ledger.allocate(states.optimizer / 3);
    if (root_bytes > 0) made.push_back(ledger.allocate(root_bytes));
    for (const std::size_t block : made) ledger.free(block);
  }
  mark("end");
  return trace;
}

Bytes reserved_by_pytorch(const Trace& trace, bool expandable, Bytes memory) {
  AllocatorSettings settings;
  settings.expandable_segments = expandable;
  for (const Bytes capacity : {std::min(memory, kAmpleCapacity), kAmpleCapacity}) {
    CachingAllocator allocator(settings, capacity);
    const ReplayResult result = replay(trace, allocator, {});
    if (result.ooms == 0) return result.reserved_peak;
  }
  fail(trace.name, ": needs more memory than any device has");
}

Reservation reserve(const Job& job, int stage, Bytes memory) {
  const Trace trace = rank_trace(job, stage);
  SynthesizeOptions options;
  // These traces are regular: what is found at all is found soon, on a busy machine, too.
  options.timeout = 0.5;
  return {.requested = peak_requested(trace),
          .planned = synthesize(trace, profile_of(trace), options).plan.arena,
          .native = reserved_by_pytorch(trace, false, memory),
          .expandable = reserved_by_pytorch(trace, true, memory)};
}

}  // namespace stweaver
