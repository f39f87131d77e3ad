// A transformer as far as its cost goes: how large its layers are, not what they compute.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace stweaver {

/// The shape of a decoder. Numbers are per layer unless they say otherwise; 0 means "has none".
struct ModelShape {
  std::string name;
  int layers = 0;  ///< all of them: attention with MLP, or in a hybrid each block on its own
  int hidden = 0;
  int ffn = 0;  ///< of a dense layer
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocabulary = 0;
  int sequence = 0;  ///< what it was trained for; a configuration may choose another
  bool gated_mlp = true;
  bool tied_embeddings = false;
  bool query_norm = false;  ///< queries and keys are normed, each head
  bool sinks = false;       ///< attention's softmax has a term of its own, each head
  // Mixture of experts.
  int moe_layers = 0;  ///< of the layers; the rest are dense
  int experts = 0;
  int topk = 0;
  int expert_ffn = 0;
  int shared_ffn = 0;          ///< sum over shared experts
  int expert_width = 0;        ///< what experts see of a token; 0 for all of `hidden`
  bool expert_biases = false;  ///< they have some, and a gate that is clamped
  // Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): set when kv_lora is.
  int q_lora = 0;
  int kv_lora = 0;
  int qk_nope = 0;
  int qk_rope = 0;
  int v_head = 0;
  // Hybrids: attention and Mamba-2 blocks beside the MLPs.
  int attention_layers = 0;  ///< 0 for all layers
  int mamba_layers = 0;
  int mamba_heads = 0;
  int mtp_layers = 0;  ///< multi-token prediction: layers that train beside the model
  // Sliding windows.
  double full_attention = 1;     ///< share of attention layers without one
  int window = 0;                ///< tokens that a token of the others looks at
  bool window_restarts = false;  ///< where the last ends, instead of going along with the token
};

/// Attention layers, whatever the kind of model.
int attention_layers(const ModelShape& model);
/// Layers with a dense MLP.
int dense_layers(const ModelShape& model);
/// A model all of whose layers are like those of multi-token prediction: with experts where it has any. Those
/// of a hybrid are its mean.
ModelShape of_predicting_layers(const ModelShape& model);

/// Weights of one attention, of one expert, and of all that is not a routed expert nor an embedding (router
/// and shared experts included, norms left out: less than a thousandth).
double attention_weights(const ModelShape& model);
double expert_weights(const ModelShape& model);
double dense_weights(const ModelShape& model);
/// Of the last those that each tensor parallel rank has whole: routers, and the projections of latent
/// attention to what it keeps (Megatron-LM's multi_latent_attention.py, `parallel_mode` "duplicated").
double undivided_weights(const ModelShape& model);
/// Weights of the routed experts that a token passes through, over all layers.
double active_expert_weights(const ModelShape& model);
/// Weights of all routed experts.
double all_expert_weights(const ModelShape& model);
/// Everything, embeddings included.
double total_weights(const ModelShape& model);

/// Width of the products of attention: multiply-adds of one token with one other, of scores and values.
double attention_width(const ModelShape& model);
/// Pairs of tokens that attention looks at in a sequence, mean over its layers, as a share of those that
/// causality leaves.
double attended_share(const ModelShape& model, int sequence);

/// Error, with `name` in front, when a number is missing, negative or does not fit the others.
void validate(const ModelShape& model, const std::string& name);

/// Shapes of public models, from their published configurations.
std::span<const ModelShape> known_models();
bool is_known_model(const std::string& name);
/// One of them. Error when there is no such model.
const ModelShape& known_model(const std::string& name);

}  // namespace stweaver
