#include "advise/model.h"

#include <algorithm>
#include <vector>

#include "base/base.h"

namespace stweaver {
namespace {

double mlp_weights(const ModelShape& model, double width, double ffn) {
  return (model.gated_mlp ? 3 : 2) * width * ffn;
}

/// Mamba-2 (arXiv 2405.21060): state of 128, 8 groups, heads of 64, as Megatron-LM has them.
double mamba_weights(const ModelShape& model) {
  const double inner = 64.0 * model.mamba_heads;
  return model.hidden * (2 * inner + 2.0 * 8 * 128 + model.mamba_heads) + inner * model.hidden;
}

double shared_and_router(const ModelShape& model) {
  double weights =
      mlp_weights(model, model.hidden, model.shared_ffn) + static_cast<double>(model.hidden) * model.experts;
  if (model.expert_width > 0) weights += 2.0 * model.hidden * model.expert_width;
  return weights;
}

}  // namespace

int attention_layers(const ModelShape& model) {
  return model.attention_layers > 0 ? model.attention_layers : model.layers;
}

int dense_layers(const ModelShape& model) {
  return model.mamba_layers > 0 ? 0 : model.layers - model.moe_layers;
}

ModelShape of_predicting_layers(const ModelShape& model) {
  ModelShape same = model;
  if (model.moe_layers > 0 && model.mamba_layers == 0) same.moe_layers = model.layers;
  return same;
}

double attention_weights(const ModelShape& model) {
  const double h = model.hidden;
  if (model.kv_lora == 0) return h * model.head_dim * (2.0 * model.heads + 2.0 * model.kv_heads);
  const double query = model.heads * static_cast<double>(model.qk_nope + model.qk_rope);
  const double in = model.q_lora > 0 ? model.q_lora * (h + query) : h * query;
  const double latent = h * (model.kv_lora + model.qk_rope) +
                        static_cast<double>(model.kv_lora) * model.heads * (model.qk_nope + model.v_head);
  return in + latent + h * model.heads * model.v_head;
}

double expert_weights(const ModelShape& model) {
  const int width = model.expert_width > 0 ? model.expert_width : model.hidden;
  return mlp_weights(model, width, model.expert_ffn);
}

double dense_weights(const ModelShape& model) {
  return attention_layers(model) * attention_weights(model) +
         dense_layers(model) * mlp_weights(model, model.hidden, model.ffn) +
         model.moe_layers * shared_and_router(model) + model.mamba_layers * mamba_weights(model);
}

double undivided_weights(const ModelShape& model) {
  const double latent = model.kv_lora > 0 ? model.q_lora + model.kv_lora + model.qk_rope : 0;
  return model.hidden *
         (attention_layers(model) * latent + static_cast<double>(model.moe_layers) * model.experts);
}

double active_expert_weights(const ModelShape& model) {
  return static_cast<double>(model.moe_layers) * model.topk * expert_weights(model);
}

double all_expert_weights(const ModelShape& model) {
  return static_cast<double>(model.moe_layers) * model.experts * expert_weights(model);
}

double total_weights(const ModelShape& model) {
  const double embedding = static_cast<double>(model.vocabulary) * model.hidden;
  return dense_weights(model) + all_expert_weights(model) + embedding * (model.tied_embeddings ? 1 : 2);
}

double attention_width(const ModelShape& model) {
  if (model.kv_lora == 0) return static_cast<double>(model.heads) * model.head_dim;
  return model.heads * (model.qk_nope + model.qk_rope + model.v_head) / 2.0;
}

double attended_share(const ModelShape& model, int sequence) {
  const double seen = std::min(1.0, static_cast<double>(model.window) / sequence);
  // Of a window w and a sequence s: w s - w w / 2 of s s / 2 pairs, or s / w triangles of w w / 2.
  const double windowed = model.window_restarts ? seen : seen * (2 - seen);
  return model.full_attention + (1 - model.full_attention) * windowed;
}

void validate(const ModelShape& model, const std::string& name) {
  constexpr int kMost = 1 << 24;
  constexpr int kMostLayers = 1 << 13;
  const auto within = [&name](int value, int least, const char* what) {
    if (value < least || value > kMost) fail(name, ": ", what, " is ", value, ", which no model has");
  };
  within(model.layers, 1, "the number of layers");
  within(model.hidden, 1, "the hidden size");
  within(model.heads, 1, "the number of attention heads");
  within(model.kv_heads, 1, "the number of key and value heads");
  within(model.head_dim, 1, "the size of a head");
  within(model.vocabulary, 1, "the vocabulary");
  const int routed = model.moe_layers > 0 ? 1 : 0;
  within(model.ffn, dense_layers(model) > 0 ? 1 : 0, "the size of the MLP");
  within(model.experts, routed, "the number of experts");
  within(model.topk, routed, "the number of experts per token");
  within(model.expert_ffn, routed, "the size of an expert");
  within(model.shared_ffn, 0, "the size of the shared experts");
  if (model.kv_lora > 0) {
    within(model.kv_lora, 1, "the rank of keys and values");
    within(model.q_lora, 0, "the rank of queries");
    within(model.qk_nope, 1, "the part of a head without positions");
    within(model.qk_rope, 1, "the part of a head with positions");
    within(model.v_head, 1, "the size of a head's values");
  }
  within(model.window, model.full_attention < 1 ? 1 : 0, "the window of attention");
  if (model.layers > kMostLayers) fail(name, ": ", model.layers, " layers, which no model has");
  if (model.heads % model.kv_heads != 0)
    fail(name, ": ", model.heads, " attention heads cannot share ", model.kv_heads, " key and value heads");
  if (model.moe_layers > model.layers) fail(name, ": it has more layers of experts than layers");
  if (model.topk > model.experts) fail(name, ": a token goes to more experts than there are");
}

namespace {

ModelShape dense(std::string name, int layers, int hidden, int ffn, int heads, int kv_heads, int vocabulary,
                 int sequence, int head_dim = 0) {
  return {.name = std::move(name),
          .layers = layers,
          .hidden = hidden,
          .ffn = ffn,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim > 0 ? head_dim : hidden / heads,
          .vocabulary = vocabulary,
          .sequence = sequence};
}

ModelShape moe(ModelShape model, int layers, int experts, int topk, int expert_ffn, int shared_ffn = 0) {
  model.moe_layers = layers;
  model.experts = experts;
  model.topk = topk;
  model.expert_ffn = expert_ffn;
  model.shared_ffn = shared_ffn;
  return model;
}

ModelShape mla(ModelShape model, int q_lora) {
  model.q_lora = q_lora;
  model.kv_lora = 512;
  model.qk_nope = 128;
  model.qk_rope = 64;
  model.v_head = 128;
  return model;
}

ModelShape hybrid(ModelShape model, int attention, int mamba, int mamba_heads) {
  model.attention_layers = attention;
  model.mamba_layers = mamba;
  model.mamba_heads = mamba_heads;
  model.gated_mlp = false;
  return model;
}

ModelShape with_mtp(ModelShape model, int layers) {
  model.mtp_layers = layers;
  return model;
}

/// Every second layer has a window.
ModelShape windowed(ModelShape model, int window) {
  model.window = window;
  model.full_attention = 0.5;
  return model;
}

ModelShape of_gpt_oss(ModelShape model) {
  model.sinks = true;
  model.expert_biases = true;
  return model;
}

ModelShape with_query_norm(ModelShape model) {
  model.query_norm = true;
  return model;
}

ModelShape gpt(std::string name, int layers, int hidden, int heads, int sequence) {
  ModelShape model = dense(std::move(name), layers, hidden, 4 * hidden, heads, heads, 50257, sequence);
  model.gated_mlp = false;
  model.tied_embeddings = true;
  return model;
}

ModelShape latent(ModelShape model, int width) {
  model.expert_width = width;
  return model;
}

std::vector<ModelShape> make_models() {
  const auto nano = [](std::string name) {
    return hybrid(
        moe(dense(std::move(name), 52, 2688, 1856, 32, 2, 131072, 8192, 128), 23, 128, 6, 1856, 3712), 6, 23,
        64);
  };
  return {
      gpt("gpt2_345m", 24, 1024, 16, 1024),
      gpt("gpt2_1p5b", 48, 1600, 25, 1024),
      gpt("gpt_175b", 96, 12288, 96, 2048),
      dense("llama2_7b", 32, 4096, 11008, 32, 32, 32000, 4096),
      dense("llama3_8b", 32, 4096, 14336, 32, 8, 128256, 8192),
      dense("llama31_8b", 32, 4096, 14336, 32, 8, 128256, 131072),
      dense("llama3_70b", 80, 8192, 28672, 64, 8, 128256, 8192),
      dense("llama31_70b", 80, 8192, 28672, 64, 8, 128256, 131072),
      dense("llama31_405b", 126, 16384, 53248, 128, 8, 128256, 131072),
      with_query_norm(dense("qwen3_8b", 36, 4096, 12288, 32, 8, 151936, 40960)),
      dense("qwen25_14b", 48, 5120, 13824, 40, 8, 152064, 131072),
      moe(dense("qwen15_moe_a27b", 24, 2048, 5632, 16, 16, 151936, 4096), 24, 60, 4, 1408, 5632),
      with_query_norm(
          moe(dense("qwen3_30b_a3b", 48, 2048, 6144, 32, 4, 151936, 40960, 128), 48, 128, 8, 768)),
      with_query_norm(
          moe(dense("qwen3_235b_a22b", 94, 4096, 12288, 64, 4, 151936, 40960, 128), 94, 128, 8, 1536)),
      of_gpt_oss(windowed(
          moe(dense("gpt_oss_20b", 24, 2880, 2880, 64, 8, 201088, 131072, 64), 24, 32, 4, 2880), 128)),
      of_gpt_oss(windowed(
          moe(dense("gpt_oss_120b", 36, 2880, 2880, 64, 8, 201088, 131072, 64), 36, 128, 4, 2880), 128)),
      with_mtp(
          mla(moe(dense("deepseek_v3", 61, 7168, 18432, 128, 128, 129280, 4096, 192), 58, 256, 8, 2048, 2048),
              1536),
          1),
      mla(moe(dense("kimi_k2", 61, 7168, 18432, 64, 64, 163840, 4096, 192), 60, 384, 8, 2048, 2048), 1536),
      mla(moe(dense("moonlight_16b", 27, 2048, 11264, 16, 16, 163842, 4096, 192), 26, 64, 6, 1408, 2816), 0),
      nano("nemotron_3_nano"),
      with_mtp(nano("nemotron_3_5_lightning"), 2),
      latent(with_mtp(hybrid(moe(dense("nemotron_3_super", 88, 4096, 2688, 32, 2, 131072, 8192, 128), 40, 512,
                                 22, 2688, 5376),
                             8, 40, 128),
                      2),
             1024),
  };
}

}  // namespace

std::span<const ModelShape> known_models() {
  static const std::vector<ModelShape> models = make_models();
  return models;
}

bool is_known_model(const std::string& name) {
  return std::ranges::any_of(known_models(), [&](const ModelShape& model) { return model.name == name; });
}

const ModelShape& known_model(const std::string& name) {
  std::string names;
  for (const ModelShape& model : known_models()) {
    if (model.name == name) return model;
    names += " " + model.name;
  }
  fail(name, ": no model of this name is known; give its config.json, or one of", names);
}

}  // namespace stweaver
