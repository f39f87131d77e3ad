#include "advise/model_file.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/base.h"

namespace stweaver {
namespace {

using Json = nlohmann::json;
using Keys = std::initializer_list<const char*>;

constexpr int kMostNumber = 1 << 24;

/// Which layers look back no further than a window.
enum class Windows : std::uint8_t {
  kNever,  ///< whatever the file says
  kAsked,  ///< those behind max_window_layers, where use_sliding_window is set
  kGiven,  ///< all, where there is a window
  kMixed,  ///< all but each `full_every`th
  kChunks  ///< the same, with windows that start anew where the last ends
};

/// What the class of a `model_type` has where a file is silent; 0 for what every file says.
struct ModelType {
  std::string_view name;
  bool gated_mlp = true;
  bool tied_embeddings = false;
  bool query_norm = false;
  bool sinks = false;
  bool expert_biases = false;
  bool multi_query = false;  ///< one head of keys and values, unless the file says otherwise
  Windows windows = Windows::kNever;
  int full_every = 0;
  int window = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocabulary = 0;
  int sequence = 0;
  int shared_experts = 0;
};

/// From the classes of transformers 4.57 and 5.23, and of deepseek, internlm2 and kimi_k2, which bring their
/// own.
constexpr ModelType kTypes[] = {
    {.name = "apertus", .gated_mlp = false, .query_norm = true},
    {.name = "arcee", .gated_mlp = false},
    {.name = "biogpt", .gated_mlp = false, .tied_embeddings = true},
    {.name = "bloom", .gated_mlp = false, .tied_embeddings = true},
    {.name = "codegen", .gated_mlp = false},
    {.name = "cohere", .tied_embeddings = true},
    {.name = "cohere2", .tied_embeddings = true, .windows = Windows::kMixed, .full_every = 4, .window = 4096},
    {.name = "cohere2_moe",
     .tied_embeddings = true,
     .windows = Windows::kMixed,
     .full_every = 4,
     .window = 4096,
     .head_dim = 128},
    {.name = "cwm",
     .windows = Windows::kMixed,
     .full_every = 4,
     .window = 8192,
     .kv_heads = 8,
     .head_dim = 128},
    {.name = "deepseek"},
    {.name = "deepseek_v2"},
    {.name = "deepseek_v3"},
    {.name = "dots1", .query_norm = true, .windows = Windows::kAsked},
    {.name = "ernie4_5", .tied_embeddings = true, .head_dim = 128},
    {.name = "ernie4_5_moe", .tied_embeddings = true},
    {.name = "exaone4", .query_norm = true, .windows = Windows::kMixed, .full_every = 4, .window = 4096},
    {.name = "exaone_moe", .query_norm = true, .windows = Windows::kMixed, .full_every = 4, .window = 4096},
    {.name = "falcon", .gated_mlp = false, .tied_embeddings = true, .multi_query = true, .sequence = 2048},
    {.name = "flex_olmo", .query_norm = true},
    {.name = "gemma", .tied_embeddings = true, .head_dim = 256, .vocabulary = 256000},
    {.name = "gemma2",
     .tied_embeddings = true,
     .windows = Windows::kMixed,
     .full_every = 2,
     .window = 4096,
     .head_dim = 256,
     .vocabulary = 256000},
    {.name = "gemma3_text",
     .tied_embeddings = true,
     .query_norm = true,
     .windows = Windows::kMixed,
     .full_every = 6,
     .window = 4096,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .vocabulary = 262208,
     .sequence = 131072},
    {.name = "glm", .head_dim = 128},
    {.name = "glm4", .head_dim = 128},
    {.name = "glm4_moe"},
    {.name = "glm4_moe_lite"},
    {.name = "glm4v_moe_text"},
    {.name = "glm4v_text"},
    {.name = "gpt2", .gated_mlp = false, .tied_embeddings = true},
    {.name = "gpt_bigcode", .gated_mlp = false, .tied_embeddings = true, .multi_query = true},
    {.name = "gpt_neo",
     .gated_mlp = false,
     .tied_embeddings = true,
     .windows = Windows::kMixed,
     .full_every = 2,
     .window = 256},
    {.name = "gpt_neox", .gated_mlp = false},
    {.name = "gpt_neox_japanese", .gated_mlp = false, .tied_embeddings = true},
    {.name = "gpt_oss",
     .sinks = true,
     .expert_biases = true,
     .windows = Windows::kMixed,
     .full_every = 2,
     .window = 128,
     .kv_heads = 8,
     .head_dim = 64},
    {.name = "gptj", .gated_mlp = false},
    {.name = "granite"},
    {.name = "granite_swa",
     .tied_embeddings = true,
     .windows = Windows::kMixed,
     .full_every = 4,
     .window = 128},
    {.name = "granitemoe"},
    {.name = "granitemoe_swa", .windows = Windows::kMixed, .full_every = 4, .window = 128},
    {.name = "granitemoeshared"},
    {.name = "helium", .head_dim = 128},
    {.name = "hunyuan_v1_dense", .query_norm = true},
    {.name = "hy_v3", .query_norm = true, .kv_heads = 8, .head_dim = 128},
    {.name = "hyperclovax"},
    {.name = "internlm2"},
    {.name = "internlm3"},
    {.name = "iquestcoder", .kv_heads = 8, .head_dim = 128},
    {.name = "jais2", .gated_mlp = false},
    {.name = "kimi_k2"},
    {.name = "llama"},
    {.name = "llama4_text",
     .query_norm = true,
     .windows = Windows::kChunks,
     .full_every = 4,
     .window = 8192,
     .kv_heads = 8,
     .head_dim = 128,
     .shared_experts = 1},
    {.name = "mellum", .query_norm = true, .kv_heads = 4, .head_dim = 128},
    {.name = "minicpm3", .tied_embeddings = true},
    {.name = "minimax_m2", .query_norm = true, .kv_heads = 8, .head_dim = 128},
    {.name = "ministral", .windows = Windows::kGiven, .window = 4096, .kv_heads = 8},
    {.name = "ministral3", .windows = Windows::kGiven, .kv_heads = 8, .head_dim = 128},
    {.name = "mistral", .windows = Windows::kGiven, .window = 4096, .kv_heads = 8},
    {.name = "mixtral", .windows = Windows::kGiven, .kv_heads = 8},
    {.name = "mpt", .gated_mlp = false, .tied_embeddings = true},
    {.name = "nanochat", .gated_mlp = false, .query_norm = true},
    {.name = "nemotron", .gated_mlp = false},
    {.name = "olmo"},
    {.name = "olmo2", .query_norm = true},
    {.name = "olmo3", .query_norm = true, .windows = Windows::kMixed, .full_every = 4, .window = 4096},
    {.name = "olmoe", .query_norm = true},
    {.name = "opt", .gated_mlp = false, .tied_embeddings = true},
    {.name = "persimmon", .gated_mlp = false, .query_norm = true},
    {.name = "phi", .gated_mlp = false},
    {.name = "phi3", .windows = Windows::kGiven},
    {.name = "phimoe", .windows = Windows::kGiven, .kv_heads = 8},
    {.name = "qwen2", .windows = Windows::kAsked, .window = 4096},
    {.name = "qwen2_5_vl", .windows = Windows::kAsked, .window = 4096},
    {.name = "qwen2_5_vl_text", .windows = Windows::kAsked, .window = 4096},
    {.name = "qwen2_moe", .windows = Windows::kAsked, .window = 4096},
    {.name = "qwen2_vl", .windows = Windows::kAsked, .window = 4096},
    {.name = "qwen2_vl_text", .windows = Windows::kAsked, .window = 4096},
    {.name = "qwen3", .query_norm = true, .windows = Windows::kAsked, .window = 4096, .head_dim = 128},
    {.name = "qwen3_moe", .query_norm = true, .windows = Windows::kAsked, .window = 4096},
    {.name = "qwen3_vl_moe_text", .query_norm = true},
    {.name = "qwen3_vl_text", .query_norm = true, .head_dim = 128},
    {.name = "seed_oss", .kv_heads = 8, .head_dim = 128},
    {.name = "smollm3", .tied_embeddings = true, .windows = Windows::kAsked},
    {.name = "solar_open", .kv_heads = 8, .head_dim = 128},
    {.name = "stablelm"},
    {.name = "starcoder2", .gated_mlp = false, .tied_embeddings = true, .windows = Windows::kGiven},
    {.name = "vaultgemma",
     .tied_embeddings = true,
     .windows = Windows::kMixed,
     .full_every = 2,
     .window = 4096,
     .head_dim = 256},
    {.name = "youtu", .tied_embeddings = true},
};

/// Where a `text_config` names no type, that of the model round it tells.
std::string_view type_inside(std::string_view type) {
  if (type == "gemma3") return "gemma3_text";
  if (type == "llama4") return "llama4_text";
  return type;
}

/// The keys of a file, of its part for text where it has one.
class ConfigFile {
 public:
  ConfigFile(const Json& file, std::string name) : name_(std::move(name)), file_(&file), text_(&file) {
    if (!file.is_object()) fail(name_, ": not a JSON object; a model is the config.json of transformers");
    const auto inner = file.find("text_config");
    if (inner != file.end() && inner->is_object()) text_ = &*inner;
  }

  [[nodiscard]] const std::string& name() const { return name_; }

  /// The value of a key; null where it has none.
  [[nodiscard]] const Json& value(const char* key) const {
    static const Json nothing;
    const auto found = text_->find(key);
    return found == text_->end() ? nothing : *found;
  }

  /// The first of these keys that has a value.
  [[nodiscard]] int number(Keys keys, int missing) const {
    for (const char* key : keys)
      if (!value(key).is_null()) return whole(value(key), key);
    return missing;
  }

  /// The same, where null says that there is none.
  [[nodiscard]] int number_or_none(Keys keys, int missing) const {
    for (const char* key : keys)
      if (text_->contains(key)) return number({key}, 0);
    return missing;
  }

  [[nodiscard]] bool flag(Keys keys, bool missing) const {
    for (const char* key : keys)
      if (value(key).is_boolean()) return value(key).get<bool>();
    return missing;
  }

  /// What either the part for text or the model round it says.
  [[nodiscard]] bool outer_flag(const char* key, bool missing) const {
    const auto found = file_->find(key);
    return flag({key}, found != file_->end() && found->is_boolean() ? found->get<bool>() : missing);
  }

  [[nodiscard]] std::vector<int> numbers(const char* key) const {
    std::vector<int> all;
    if (value(key).is_null()) return all;
    if (!value(key).is_array()) fail(name_, ": ", key, " is no list of layers");
    for (const Json& element : value(key)) all.push_back(whole(element, key));
    return all;
  }

  [[nodiscard]] std::string type() const {
    if (value("model_type").is_string()) return value("model_type").get<std::string>();
    const auto outer = file_->find("model_type");
    if (outer == file_->end() || !outer->is_string()) return "llama";
    return std::string(type_inside(outer->get<std::string>()));
  }

 private:
  [[nodiscard]] int whole(const Json& value, const char* key) const {
    if (!value.is_number_integer() || value < 0 || value > kMostNumber)
      fail(name_, ": ", key, " is no whole number that a model can have");
    return value.get<int>();
  }

  std::string name_;
  const Json* file_;
  const Json* text_;
};

const ModelType& type_of(const ConfigFile& file) {
  if (file.outer_flag("is_encoder_decoder", false))
    fail(file.name(),
         ": is_encoder_decoder is set, and only decoders are known; give the config.json of one");
  const std::string name = file.type();
  for (const ModelType& type : kTypes)
    if (type.name == name) return type;
  fail(file.name(), ": layers of the model_type ", Json(name).dump(),
       " are not known; where they are like llama's, say so in model_type");
}

int kv_heads(const ConfigFile& file, const ModelType& type, int heads) {
  if (!type.multi_query)
    return file.number({"num_key_value_heads"}, type.kv_heads > 0 ? type.kv_heads : heads);
  if (file.flag({"new_decoder_architecture"}, false)) return file.number({"num_kv_heads"}, heads);
  return file.flag({"multi_query"}, true) ? 1 : heads;
}

void read_attention(const ConfigFile& file, const ModelType& type, ModelShape& model) {
  model.kv_heads = kv_heads(file, type, model.heads);
  model.query_norm = file.flag({"use_qk_norm", "qk_layernorm"}, type.query_norm);
  model.sinks = type.sinks;
  model.expert_biases = type.expert_biases;
  model.kv_lora = file.number({"kv_lora_rank"}, 0);
  model.head_dim = file.number({"head_dim"}, type.head_dim > 0 ? type.head_dim : model.hidden / model.heads);
  if (model.kv_lora == 0) return;
  model.q_lora = file.number({"q_lora_rank"}, 0);
  model.qk_nope = file.number({"qk_nope_head_dim"}, 128);
  model.qk_rope = file.number({"qk_rope_head_dim"}, 64);
  model.v_head = file.number({"v_head_dim"}, 128);
  // Some files have the part with positions alone under that name.
  model.head_dim = model.qk_nope + model.qk_rope;
}

/// Layers of a list of their kinds that have no window.
int full_layers(const ConfigFile& file, const Json& kinds) {
  int full = 0;
  for (const Json& kind : kinds) {
    if (kind == "full_attention") ++full;
    if (kind != "full_attention" && kind != "sliding_attention" && kind != "chunked_attention")
      fail(file.name(), ": layers of the kind ", kind.is_string() ? kind.dump() : kind.type_name(),
           " in layer_types are not known; only those of ",
           "full_attention, sliding_attention and chunked_attention are");
  }
  return full;
}

void read_windows(const ConfigFile& file, const ModelType& type, ModelShape& model) {
  const Json& kinds = file.value("layer_types");
  const bool listed = kinds.is_array() && !kinds.empty();
  const double listed_share = listed ? full_layers(file, kinds) / static_cast<double>(kinds.size()) : 1;
  if (type.windows == Windows::kNever) return;
  if (type.windows == Windows::kAsked && !file.flag({"use_sliding_window"}, false)) return;
  model.window_restarts = type.windows == Windows::kChunks;
  model.window = model.window_restarts ? file.number_or_none({"attention_chunk_size"}, type.window)
                                       : file.number_or_none({"sliding_window", "window_size"}, type.window);
  if (model.window == 0) return;
  int full = 0;
  if (type.windows == Windows::kAsked) full = file.number({"max_window_layers"}, 0);
  if (type.full_every > 0 && !listed)
    full = model.layers / std::max(1, file.number({"sliding_window_pattern"}, type.full_every));
  model.full_attention =
      listed ? listed_share : std::min(full, model.layers) / static_cast<double>(model.layers);
}

/// Layers of experts, by whichever of the rules for that a file has.
int count_expert_layers(const ConfigFile& file, int layers) {
  std::vector<int> dense = file.numbers("mlp_only_layers");
  std::ranges::sort(dense);
  const int step = file.number({"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"}, 1);
  const int frequency = file.number({"moe_layer_freq"}, 1);
  if (step == 0 || frequency == 0) fail(file.name(), ": each 0th layer has experts, which no model has");
  const int first = file.number({"first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"}, 0);
  const bool to_end = file.value("moe_layer_end_index") == -1;
  const int last = to_end ? layers : file.number({"moe_layer_end_index"}, layers);
  int count = 0;
  for (int layer = first; layer < layers && layer <= last; ++layer)
    if ((layer + 1) % step == 0 && layer % frequency == 0 && !std::ranges::binary_search(dense, layer))
      ++count;
  return count;
}

/// Of a list of what the layers have.
int sparse_layers(const ConfigFile& file, const Json& kinds) {
  int sparse = 0;
  for (const Json& kind : kinds) {
    if (kind == "sparse") ++sparse;
    if (kind != "sparse" && kind != "dense")
      fail(file.name(), ": ", kind.is_string() ? kind.dump() : kind.type_name(),
           " in mlp_layer_types is not known; only dense and sparse are");
  }
  return sparse;
}

int expert_layers(const ConfigFile& file, int layers) {
  if (const Json& kinds = file.value("mlp_layer_types"); kinds.is_array()) return sparse_layers(file, kinds);
  if (file.value("moe_layers").is_null()) return count_expert_layers(file, layers);
  const std::vector<int> listed = file.numbers("moe_layers");
  return static_cast<int>(std::ranges::count_if(listed, [&](int layer) { return layer < layers; }));
}

void read_experts(const ConfigFile& file, const ModelType& type, ModelShape& model) {
  model.experts = file.number({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}, 0);
  if (model.experts == 0) return;
  model.topk = file.number({"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k"}, 0);
  if (model.topk == 0) fail(file.name(), ": it has experts, and does not say how many a token goes to");
  model.expert_ffn = file.number({"moe_intermediate_size", "intermediate_size"}, model.ffn);
  const std::int64_t shared =
      std::int64_t{file.number({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"},
                               type.shared_experts)} *
      model.expert_ffn;
  if (shared > kMostNumber) fail(file.name(), ": its shared experts are larger than those of any model");
  model.shared_ffn =
      file.number({"shared_expert_intermediate_size", "shared_intermediate_size"}, static_cast<int>(shared));
  model.moe_layers = expert_layers(file, model.layers);
}

int mlp_size(const ConfigFile& file, int hidden) {
  constexpr std::int64_t kTooMuch = kMostNumber + 1;  // which validate() refuses
  const std::int64_t usual = std::int64_t{file.number({"expansion_ratio"}, 4)} * hidden;
  return file.number({"intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"},
                     static_cast<int>(std::min(usual, kTooMuch)));
}

}  // namespace

ModelShape read_model(const std::string& json, const std::string& name) {
  const Json document = Json::parse(json, nullptr, false);
  const ConfigFile file(document, name);
  const ModelType& type = type_of(file);
  ModelShape model;
  model.name = name;
  model.layers = file.number({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, 0);
  model.hidden = file.number({"hidden_size", "n_embd", "n_embed", "d_model"}, 0);
  model.heads = file.number({"num_attention_heads", "n_head", "n_heads", "num_heads"}, type.heads);
  if (model.layers == 0 || model.hidden == 0 || model.heads == 0)
    fail(name,
         ": it lacks num_hidden_layers, hidden_size or num_attention_heads; is it a model's config.json?");
  if (file.number({"word_embed_proj_dim"}, model.hidden) != model.hidden)
    fail(name, ": its embeddings are projected (word_embed_proj_dim), which is not known here");
  model.ffn = mlp_size(file, model.hidden);
  model.vocabulary = file.number({"vocab_size"}, type.vocabulary);
  model.sequence = file.number({"max_position_embeddings", "n_positions", "seq_length", "max_seq_len"},
                               type.sequence > 0 ? type.sequence : 4096);
  if (model.sequence == 0) fail(name, ": max_position_embeddings is 0");
  model.gated_mlp = type.gated_mlp;
  model.tied_embeddings = file.outer_flag("tie_word_embeddings", type.tied_embeddings);
  read_attention(file, type, model);
  read_windows(file, type, model);
  read_experts(file, type, model);
  model.mtp_layers = file.number({"num_nextn_predict_layers"}, 0);
  validate(model, name);
  return model;
}

}  // namespace stweaver
