#include "advise/layers.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace stweaver {
namespace {

using Tensor = std::size_t;

constexpr double kFloat = 4;  // bytes of fp32

/// Whether TransformerEngine gives attention to the flash attention library: before Hopper, and where cuDNN
/// is not deterministic, as on Blackwell (dot_product_attention/utils.py, get_attention_backend).
bool has_flash_library(const Job& job) {
  const Gpu& gpu = job.gpu;
  const bool before_hopper = gpu.fp8 <= gpu.bf16, blackwell = gpu.fp4 > gpu.fp8;
  const Configuration& how = job.configuration;
  if (how.legacy) return true;
  return how.compiled && how.transformer_engine &&
         (how.flash_library || before_hopper || (blackwell && how.deterministic));
}

/// TransformerEngine keeps for the gradient of weights what it made of an input for its product: fp8, blocks
/// of 32 with a scale of a byte (MXFP8), or fp4 with one for 16 (NVFP4).
double input_bytes(const Configuration& how) {
  if (!how.compiled || !how.narrow_inputs) return kHalf;
  switch (how.precision) {
    case Precision::kBf16:
      return kHalf;
    case Precision::kFp8:
    case Precision::kFp8Rowwise:
      return 1;
    case Precision::kMxfp8:
      return 1 + 1.0 / 32;
    case Precision::kNvfp4:
      return 0.5 + 1.0 / 16;
  }
  return kHalf;
}

/// Bytes that go through memory to make an element of an operand narrow for a product: in bf16 it is read,
/// once for the largest and once to be written. Scales of blocks need no largest of all, but every operand
/// twice, in rows and in columns; so do scales of rows.
double narrowing_bytes(const Configuration& how) {
  switch (how.precision) {
    case Precision::kBf16:
      return 0;
    case Precision::kFp8:
      return 2 * kHalf + 1;
    case Precision::kFp8Rowwise:
      return 2 * (2 * kHalf + 1);
    case Precision::kMxfp8:
      return kHalf + 2 * 1;
    case Precision::kNvfp4:
      return 2 * kHalf + 2 * 0.5;
  }
  return 0;
}

/// Sizes of one layer, in elements on one rank.
struct Sizes {
  explicit Sizes(const Job& job)
      : how(job.configuration),
        model(job.model),
        tokens(static_cast<double>(how.micro_batch) * how.sequence / how.cp),
        own(tokens / (how.sequence_parallel ? how.tp : 1)),
        state(own * model.hidden),
        gathered(gathered_bytes(job)),
        taken(how.local_layers ? 0 : gathered),
        flash_library(has_flash_library(job)),
        kept_input(input_bytes(how)) {
    const bool latent = model.kv_lora > 0;
    query = tokens * model.heads * model.head_dim / how.tp;
    keys = tokens * (latent ? model.heads : model.kv_heads) * model.head_dim / how.tp;
    values = tokens * (latent ? model.heads * model.v_head : model.kv_heads * model.head_dim) / how.tp;
    context = tokens * model.heads * (latent ? model.v_head : model.head_dim) / how.tp;
    scores = tokens * how.sequence * model.heads / how.tp;
  }

  /// Bytes of a weight's gradient before it is added to the main gradient.
  [[nodiscard]] double gradient_of(double weights) const {
    return how.fused_gradients ? 0 : kHalf * weights / how.tp;
  }

  /// Copies of what is had again: Megatron-LM's CheckpointWithoutOutput copies it to where it was before.
  [[nodiscard]] int again() const { return how.megatron ? 2 : 1; }

  const Configuration& how;
  const ModelShape& model;
  double tokens;    ///< of a micro-batch
  double own;       ///< of them where sequence parallelism splits them
  double state;     ///< between layers
  double gathered;  ///< bytes of all tokens' state, where a rank gathers them
  double taken;     ///< of those that a product that splits its output asks for while it runs forward
  bool flash_library;
  double kept_input;  ///< bytes of an element that a product took, as it keeps it
  double query = 0, keys = 0, values = 0, context = 0, scores = 0;
};

/// Whether what can be had again cheaply is kept all the same.
bool keeps_cheap(const Configuration& how) {
  return how.recompute != Recompute::kSelective;
}

/// Whether norms are a part of the product behind them (TransformerEngine's LayerNormLinear), so that
/// Megatron-LM cannot have their results again (transformer_layer.py, recompute_input_layernorm). Those in
/// front of experts and of latent attention are operators of their own.
bool has_fused_norms(const Configuration& how) {
  return how.megatron && how.compiled && how.transformer_engine && !how.local_layers;
}

/// `cheap`: share of them, over all layers, whose results selective recomputation has again.
Tensor norm(Tape& tape, const Sizes& s, Tensor x, double cheap = 0) {
  const double bytes = kHalf * s.state;
  if (s.how.compiled || !s.model.gated_mlp)  // LayerNorm is one operator
    return tape.apply({x}, bytes, {.saved = {x}, .kept = 2 * kFloat * s.own, .cheap = cheap});
  // RMSNorm in fp32, operator by operator.
  const double wide = kFloat * s.state;
  const Tensor v = tape.apply({x}, wide, {.cheap = cheap});
  const Tensor inverse =
      tape.apply({v}, kFloat * s.own, {.saved = {v}, .forward = wide, .backward = wide, .cheap = cheap});
  const Tensor scaled =
      tape.apply({v, inverse}, wide, {.saved = {v, inverse}, .backward = wide, .cheap = cheap});
  const Tensor narrow = tape.apply({scaled}, bytes, {.cheap = cheap});
  return tape.apply({narrow}, bytes, {.saved = {narrow}, .backward = bytes, .cheap = cheap});
}

/// A product with weights that ranks share. Numbers of elements, and bytes in use besides while it runs.
struct Product {
  double input = 0;
  double output = 0;
  double weights = 0;
  double had_again = 0;   ///< of its input, what selective recomputation has again
  double forward = 0;     ///< bytes
  double backward = 0;    ///< bytes
  bool in_place = false;  ///< what is made of its output, its gradient in the end, takes its place
};

Tensor apply(Tape& tape, const Sizes& s, Tensor x, const Product& product) {
  const double again = keeps_cheap(s.how) ? 0 : product.had_again;
  OperatorMemory memory{.saved = {}, .kept = 0, .forward = product.forward, .passes = false};
  if (product.in_place) memory.saved.push_back(tape.next());
  if (again == 0 && s.kept_input == kHalf) {
    memory.saved.push_back(x);
  } else {
    memory.kept = s.kept_input * (product.input - again);
  }
  memory.narrowing = {.forward = narrowing_bytes(s.how) * product.input,
                      .backward = narrowing_bytes(s.how) * product.output};
  memory.backward =
      product.backward + s.gradient_of(product.weights) + s.gathered + s.again() * kHalf * again;
  return tape.apply({x}, kHalf * product.output, memory);
}

/// The residual connection round a branch.
Tensor joined(Tape& tape, const Sizes& s, Tensor branch, Tensor x) {
  if (s.how.dropout) branch = tape.apply({branch}, kHalf * s.state, {.kept = s.state});
  return tape.apply({x, branch}, kHalf * s.state, {.passes = true});
}

/// Keeps its result and turns its gradient in place.
Tensor fused_softmax(Tape& tape, const Sizes& s, Tensor scores) {
  return tape.apply({scores}, kHalf * s.scores, {.saved = {tape.next()}, .passes = true, .cheap = 1});
}

/// Operators in fp32, the first of which masks in place and keeps the mask (fusions/fused_softmax.py).
/// PyTorch's softmax multiplies its gradient by its result first.
Tensor softmax(Tape& tape, const Sizes& s, Tensor scores) {
  const double wide = kFloat * s.scores, mask = static_cast<double>(s.how.sequence) * s.how.sequence;
  const Tensor masked = tape.apply({scores}, wide, {.kept = mask, .backward = wide, .cheap = 1});
  const Tensor shares = tape.apply({masked}, wide, {.saved = {tape.next()}, .backward = wide, .cheap = 1});
  return tape.apply({shares}, kHalf * s.scores, {.cheap = 1});
}

Tensor attention(Tape& tape, const Sizes& s, Tensor x) {
  const ModelShape& m = s.model;
  const double width = s.query + s.keys + s.values;
  const double weights = attention_weights(m) - static_cast<double>(m.heads) * m.head_dim * m.hidden;
  const double had = has_fused_norms(s.how) && m.kv_lora == 0 ? 0 : s.state;
  Tensor qkv =
      apply(tape, s, x,
            {.input = s.state, .output = width, .weights = weights, .had_again = had, .forward = s.taken});
  // Queries and keys are normed, and turned by their places; the values stay where they are.
  Tensor turned = qkv;
  if (m.query_norm && s.how.compiled) {
    const double statistics = 2 * kFloat * s.tokens * (m.heads + m.kv_heads) / s.how.tp;
    turned = tape.apply({qkv}, kHalf * (s.query + s.keys), {.saved = {qkv}, .kept = statistics});
  }
  if (s.how.rotary) {
    // The fused kernel is TransformerEngine's; operators keep cosines and sines, for queries and for keys.
    const bool fused = s.how.compiled && s.how.transformer_engine;
    const double scratch = fused ? 0 : 3 * kHalf * s.query;
    const double angles = s.how.megatron && !fused ? 4 * kHalf * s.how.sequence / s.how.cp * m.head_dim : 0;
    turned = tape.apply({turned}, kHalf * (s.query + s.keys),
                        {.kept = angles, .forward = scratch, .backward = scratch});
  }
  if (s.how.flash_attention) {
    // Legacy models bring all of them into the library's order.
    std::vector<Tensor> heads = {turned, qkv};
    if (s.how.legacy) heads = {tape.apply(heads, kHalf * width)};
    // What it gives it needs again, too. The library's result has sequences first, and stays beside what is
    // made of it for the next product.
    const double own = s.flash_library && s.how.micro_batch > 1 ? kHalf * s.context : 0;
    std::vector<Tensor> saved = heads;
    if (own == 0) saved.push_back(tape.next());
    return tape.apply(
        heads, kHalf * s.context,
        {.saved = saved, .kept = kFloat * s.tokens * m.heads / s.how.tp + own, .backward = kFloat * s.query});
  }
  if (!keeps_cheap(s.how))  // scores are had again as a whole
    return tape.apply({turned, qkv}, kHalf * s.context,
                      {.saved = {turned, qkv}, .forward = 7 * s.scores, .backward = 9 * s.scores});
  // Megatron-LM's own attention has keys and values for every head.
  const bool repeats = s.how.local_layers && m.kv_heads < m.heads;
  const double repeated = repeats ? 2 * kHalf * s.context : 0;
  const Tensor raw =
      tape.apply({turned}, kHalf * s.scores, {.saved = {turned}, .kept = repeated, .cheap = 1});
  Tensor shares = s.how.fused_softmax ? fused_softmax(tape, s, raw) : softmax(tape, s, raw);
  if (s.how.dropout) shares = tape.apply({shares}, kHalf * s.scores, {.kept = s.scores, .cheap = 1});
  return tape.apply({shares, qkv}, kHalf * s.context,
                    {.saved = repeats ? std::vector{shares} : std::vector{shares, qkv},
                     .forward = kHalf * s.context,
                     .cheap = 1});
}

/// The MLP of all layers' mean: dense, and of experts with what is gathered for them.
Tensor mlp(Tape& tape, const Sizes& s, Tensor x) {
  const ModelShape& m = s.model;
  const double dense = static_cast<double>(dense_layers(m)) / m.layers;
  const double experts = static_cast<double>(m.moe_layers) / m.layers;
  const double routed = s.tokens / s.how.tp * experts * m.topk * m.expert_ffn;
  const double inner = s.tokens / s.how.tp * (dense * m.ffn + experts * m.shared_ffn) + routed;
  const double wide = inner * (m.gated_mlp ? 2 : 1);
  const double width = m.expert_width > 0 ? m.expert_width : m.hidden;
  // Elements on their way to experts; ranks that split an expert gather what each of them has for it.
  const double sent = experts * m.topk * s.tokens / s.how.tp * s.how.expert_tp * width;
  const double ffn = dense * m.ffn + experts * m.shared_ffn;
  const double up_weights = static_cast<double>(m.hidden) * ffn * (m.gated_mlp ? 2 : 1);
  Tensor input = x;
  if (sent > 0) {
    // Routing in fp32, then tokens in the order of their experts, each with its place.
    const double routes = s.own * m.experts * kFloat;
    OperatorMemory routing = {.kept = 2 * routes + 8 * s.own * m.topk};
    if (keeps_cheap(s.how)) {
      routing.saved = {x};
    } else {
      routing.backward = s.again() * kHalf * s.state;
    }
    input = tape.apply({x}, kHalf * sent + (dense > 0 ? kHalf * s.state : 0), routing);
  }
  const double had_state = sent > 0 || has_fused_norms(s.how) ? 0 : s.state;
  const Tensor up = apply(
      tape, s, input,
      {.input = s.state, .output = wide, .weights = up_weights, .had_again = had_state, .forward = s.taken});
  // Of activation functions Megatron-LM has those of routed experts again (moe_act), and no others.
  const double had_active = s.how.megatron ? routed : inner;
  const double cheap = inner > 0 ? had_active / inner : 0;
  Tensor active = 0;
  double normed = 0;  // bytes of the input that is had again
  if (m.gated_mlp && !(s.how.compiled && s.how.fused_gate)) {
    // Both halves are views, whose gradients become one at the end.
    const Tensor first = tape.apply({up}, 0, {.gradient = kHalf * inner});
    const Tensor second = tape.apply({up}, 0, {.passes = true, .gradient = kHalf * inner});
    const Tensor gate = tape.apply({first}, kHalf * inner, {.reads = {up}, .saved = {up}, .cheap = cheap});
    active = tape.apply({gate, second}, kHalf * inner, {.reads = {up}, .saved = {gate, up}, .cheap = cheap});
  } else {
    // Megatron-LM has what the norm gave again when the gradient comes to the end of the MLP.
    if (s.how.megatron && !keeps_cheap(s.how)) normed = s.again() * kHalf * (sent > 0 ? s.state : had_state);
    active = tape.apply({up}, kHalf * inner, {.saved = {up}, .backward = normed, .cheap = cheap});
    // Megatron weighs what experts make where it is narrowest, in front of their last product; for gated ones
    // the kernel above does it (moe/experts.py, weighted_bias_swiglu_impl), for others fp32 operators behind
    // it.
    if (sent > 0 && !m.gated_mlp) {
      const double wide_copy = kFloat * inner;
      active = tape.apply({active}, kHalf * inner,
                          {.saved = {active}, .forward = wide_copy, .backward = wide_copy, .cheap = cheap});
    }
  }
  const Tensor down = apply(tape, s, active,
                            {.input = inner,
                             .output = sent > 0 ? sent : s.state,
                             .weights = static_cast<double>(m.hidden) * ffn,
                             .had_again = had_active,
                             .forward = s.gathered,
                             .backward = normed});
  if (sent == 0) return down;
  if (s.how.compiled)
    return tape.apply({down}, kHalf * s.state, {.forward = kHalf * sent, .backward = kHalf * sent});
  // index_add keeps what it adds, for its shape.
  const Tensor shares = tape.apply({down}, kHalf * sent, {.saved = {down}});
  return tape.apply({shares}, kHalf * s.state, {.saved = {shares}});
}

Tensor layer(Tape& tape, const Sizes& s, Tensor x) {
  const ModelShape& m = s.model;
  const double apart = has_fused_norms(s.how) ? 0 : 1;  // norms that are operators of their own
  const Tensor ahead = attention(tape, s, norm(tape, s, x, m.kv_lora > 0 ? 1 : apart));
  const double out = static_cast<double>(m.heads) * (m.kv_lora > 0 ? m.v_head : m.head_dim) * m.hidden;
  const Tensor attended =
      apply(tape, s, ahead, {.input = s.context, .output = s.state, .weights = out, .forward = s.gathered});
  const Tensor middle = joined(tape, s, attended, x);
  const double experts = static_cast<double>(m.moe_layers) / m.layers;
  return joined(tape, s, mlp(tape, s, norm(tape, s, middle, std::max(experts, apart))), middle);
}

/// A layer that keeps what its first, third, ... products and attention give, and runs the rest again: of
/// torchtitan's products that is queries, values, the gate, and the last.
Tape layer_by_operator(const Job& job) {
  Job whole = job;
  whole.configuration.recompute = Recompute::kNone;
  const Sizes s(whole);
  const Tape all = layer_tape(whole);
  Ledger ledger;
  Tape::Kept kept = all.forward(ledger, ledger.allocate(kHalf * s.state), true, false);
  ledger.free(all.backward(ledger, std::move(kept), ledger.allocate(kHalf * s.state)));
  const double inner = s.tokens * s.model.ffn / s.how.tp;
  const double products = kHalf * (s.query + s.values + s.context + inner + s.state);
  Tape tape(kHalf * s.state);
  tape.apply({0}, kHalf * s.state,
             {.saved = {0},
              .kept = products + kFloat * s.tokens * s.model.heads / s.how.tp,
              .backward = std::max(0.0, ledger.peak() - products - 4 * kHalf * s.state)});
  return tape;
}

}  // namespace

double activation_bytes(const Job& job) {
  return kHalf * Sizes(job).state;
}

double gathered_bytes(const Job& job) {
  const Configuration& how = job.configuration;
  const double tokens = static_cast<double>(how.micro_batch) * how.sequence / how.cp;
  return how.sequence_parallel && how.tp > 1 ? kHalf * tokens * job.model.hidden : 0;
}

double padded_vocabulary(const Job& job) {
  const Configuration& how = job.configuration;
  const double unit = how.pads_vocabulary || how.tp > 1 ? 128.0 * how.tp : 1;
  return std::ceil(job.model.vocabulary / unit) * unit;
}

double embedding_gradient(const Job& job) {
  return kHalf * padded_vocabulary(job) * job.model.hidden / job.configuration.tp;
}

Tape layer_tape(const Job& job) {
  if (job.configuration.recompute == Recompute::kOperators) return layer_by_operator(job);
  const Sizes s(job);
  Tape tape(kHalf * s.state);
  layer(tape, s, 0);
  return tape;
}

bool has_cheap_operators(const Job& job) {
  const Configuration& how = job.configuration;
  return !has_fused_norms(how) || !how.flash_attention || job.model.moe_layers > 0 || job.model.kv_lora > 0;
}

double expert_share(const Job& job) {
  Job dense = job;
  dense.model.moe_layers = 0;
  dense.model.ffn = job.model.expert_ffn;
  const Sizes s(dense);
  Tape alone(kHalf * s.state), whole(kHalf * s.state);
  mlp(alone, s, 0);
  layer(whole, s, 0);
  return static_cast<double>(alone.launches()) / static_cast<double>(whole.launches());
}

Tape predicting_tape(const Job& job) {
  Job ahead = job;
  ahead.model = of_predicting_layers(job.model);
  const Sizes s(ahead);
  Tape tape(kHalf * s.state);
  const Tensor token = tape.apply({}, kHalf * s.state, {.backward = embedding_gradient(job)});
  const Tensor both = tape.apply({norm(tape, s, 0), norm(tape, s, token)}, 2 * kHalf * s.state);
  const double weights = 2.0 * job.model.hidden * job.model.hidden;
  const Product joint = {.input = 2 * s.state, .output = s.state, .weights = weights, .forward = s.taken};
  layer(tape, s, apply(tape, s, both, joint));
  return tape;
}

Tape head_tape(const Job& job) {
  Sizes s(job);
  s.kept_input = kHalf;  // the output layer stays in bf16
  const double logits = s.tokens * padded_vocabulary(job) / job.configuration.tp;
  Tape tape(kHalf * s.state);
  const Tensor ready = norm(tape, s, 0);
  const bool in_place = s.how.loss == Loss::kTransformerEngine;
  const Tensor narrow = apply(tape, s, ready,
                              {.input = s.state,
                               .output = logits,
                               .weights = padded_vocabulary(job) * job.model.hidden,
                               .forward = s.how.megatron ? 0 : s.gathered,
                               .in_place = in_place});
  const double losses = kFloat * s.own;
  const double wide_logits = kFloat * logits;
  switch (s.how.loss) {
    case Loss::kMegatron: {
      // In place: the exponential, and the gradient of it.
      const Tensor wide = tape.apply({narrow}, wide_logits);
      tape.apply({wide}, losses, {.saved = {wide}, .passes = true});
      break;
    }
    case Loss::kTransformerEngine:
      tape.apply({narrow}, losses, {.passes = true});
      break;
    case Loss::kCompiled:
      tape.apply({narrow}, losses, {.saved = {narrow}});
      break;
    case Loss::kPyTorch: {
      const Tensor wide = tape.apply({narrow}, wide_logits);
      const bool shared = s.how.tp > 1;
      // Where ranks share the vocabulary, the logarithms' operator needs the logits without their maximum,
      // and leaves its gradient to the next, of three terms (torch/distributed/tensor/parallel/loss.py).
      const Tensor logarithms =
          tape.apply({wide}, wide_logits,
                     {.saved = {tape.next()}, .forward = shared ? wide_logits : 0, .passes = shared});
      tape.apply({logarithms}, kFloat, {.saved = {logarithms}, .backward = shared ? 2 * wide_logits : 0});
      break;
    }
  }
  return tape;
}

}  // namespace stweaver
