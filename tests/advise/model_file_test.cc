#include "advise/model_file.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base.h"

namespace stweaver {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

ModelShape read(const std::string& json) {
  return read_model(json, "config.json");
}

/// Parameters, in billions.
double billions(const std::string& json) {
  return total_weights(read(json)) / 1e9;
}

/// The error that reading it ends in.
auto refusal(const std::string& what) {
  return ThrowsMessage<Error>(HasSubstr(what));
}
auto reading(const std::string& json) {
  return [json] { (void)read(json); };
}

/// A small model of this type, with more keys.
std::string small(const std::string& type, const std::string& keys = "") {
  return R"({"model_type": ")" + type + R"(", "num_hidden_layers": 12, "hidden_size": 1024,
    "num_attention_heads": 16, "vocab_size": 32000, "intermediate_size": 3072)" +
         keys + "}";
}

TEST(ModelFile, OfAPublicModelHasItsShape) {
  const ModelShape qwen = read(R"({"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048,
      "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
      "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768})");
  EXPECT_DOUBLE_EQ(total_weights(qwen), total_weights(known_model("qwen3_30b_a3b")));
  const ModelShape deepseek = read(R"({"model_type": "deepseek_v3", "num_hidden_layers": 61,
      "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128, "head_dim": 64,
      "intermediate_size": 18432, "vocab_size": 129280, "n_routed_experts": 256, "n_shared_experts": 1,
      "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
      "first_k_dense_replace": 3, "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "kv_lora_rank": 512,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "tie_word_embeddings": false})");
  EXPECT_DOUBLE_EQ(total_weights(deepseek), total_weights(known_model("deepseek_v3")));
  EXPECT_EQ(deepseek.head_dim, 192);  // whatever the file calls so
  EXPECT_EQ(deepseek.mtp_layers, 1);
}

TEST(ModelFile, OfPlainMlpsHasTwoMatricesForEach) {
  EXPECT_NEAR(billions(R"({"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240,
      "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 51200,
      "tie_word_embeddings": false})"),
              2.78, 0.01);
  EXPECT_NEAR(billions(R"({"model_type": "starcoder2", "hidden_size": 6144, "intermediate_size": 24576,
      "num_attention_heads": 48, "num_key_value_heads": 4, "num_hidden_layers": 40, "vocab_size": 49152,
      "sliding_window": 4096, "tie_word_embeddings": false})"),
              15.96, 0.02);
  EXPECT_NEAR(billions(R"({"model_type": "mpt", "d_model": 4096, "expansion_ratio": 4, "max_seq_len": 2048,
      "n_heads": 32, "n_layers": 32, "vocab_size": 50432})"),
              6.65, 0.01);
  EXPECT_NEAR(billions(R"({"model_type": "bloom", "n_embed": 4096, "n_layer": 30, "num_attention_heads": 32,
      "seq_length": 2048, "vocab_size": 250880})"),
              7.07, 0.01);
}

TEST(ModelFile, OfMultiQueryAttentionHasOneHeadOfKeysUnlessItSaysMore) {
  EXPECT_NEAR(billions(R"({"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71,
      "num_hidden_layers": 32, "multi_query": true, "vocab_size": 65024})"),
              6.92, 0.01);
  EXPECT_NEAR(billions(R"({"model_type": "gpt_bigcode", "n_embd": 6144, "n_head": 48, "n_inner": 24576,
      "n_layer": 40, "n_positions": 8192, "vocab_size": 49152})"),
              15.5, 0.1);
  EXPECT_EQ(read(small("falcon", R"(, "num_kv_heads": 8)")).kv_heads, 1);
  EXPECT_EQ(read(small("falcon", R"(, "num_kv_heads": 8, "new_decoder_architecture": true)")).kv_heads, 8);
  EXPECT_EQ(read(small("gpt_bigcode", R"(, "multi_query": false)")).kv_heads, 16);
}

TEST(ModelFile, HasWhatItsClassHasWhereItIsSilent) {
  EXPECT_NEAR(billions(R"({"model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216,
      "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 26})"),
              2.61, 0.01);
  const std::string gemma3 = R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text",
      "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32,
      "num_hidden_layers": 62, "num_key_value_heads": 16, "sliding_window": 1024}, "vision_config": {}})";
  EXPECT_NEAR(billions(gemma3), 27.0, 0.1);
  EXPECT_EQ(read(gemma3).sequence, 131072);
  EXPECT_EQ(read(small("qwen3")).head_dim, 128);
  EXPECT_EQ(read(small("llama")).head_dim, 64);
}

TEST(ModelFile, TiesEmbeddingsAsItsClassDoesUnlessItSaysOtherwise) {
  EXPECT_TRUE(read(small("gemma")).tied_embeddings);
  EXPECT_FALSE(read(small("gemma", R"(, "tie_word_embeddings": false)")).tied_embeddings);
  EXPECT_FALSE(read(small("llama")).tied_embeddings);
  const auto inside = [](const std::string& keys) {
    return read(R"({"tie_word_embeddings": true, "text_config": )" + small("llama", keys) + "}");
  };
  EXPECT_TRUE(inside("").tied_embeddings);
  EXPECT_FALSE(inside(R"(, "tie_word_embeddings": false)").tied_embeddings);
}

TEST(ModelFile, HasExpertsInTheLayersThatItSays) {
  const std::string maverick = R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
      "num_hidden_layers": 48, "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
      "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 202048,
      "num_local_experts": 128, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2}})";
  EXPECT_NEAR(billions(maverick), 400.7, 0.5);
  EXPECT_NEAR(billions(R"({"model_type": "ernie4_5_moe", "hidden_size": 2560, "intermediate_size": 12288,
      "num_attention_heads": 20, "num_key_value_heads": 4, "num_hidden_layers": 28, "vocab_size": 103424,
      "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536, "moe_num_shared_experts": 2,
      "moe_layer_start_index": 1, "moe_layer_end_index": -1, "moe_layer_interval": 1})"),
              21.83, 0.05);
  const auto layers = [](const std::string& keys) {
    return read(small("qwen2_moe", R"(, "num_experts": 8, "num_experts_per_tok": 2, )" + keys)).moe_layers;
  };
  EXPECT_EQ(layers(R"("decoder_sparse_step": 3)"), 4);
  EXPECT_EQ(layers(R"("decoder_sparse_step": 3, "mlp_only_layers": [0, 5])"), 3);
  EXPECT_EQ(layers(R"("first_k_dense_replace": 1, "moe_layer_freq": 2)"), 5);
  EXPECT_EQ(layers(R"("moe_layers": [1, 3, 5])"), 3);
  EXPECT_EQ(layers(R"("moe_layer_start_index": 2, "moe_layer_end_index": 7)"), 6);
  EXPECT_EQ(layers(R"("num_dense_layers": 2)"), 10);
  EXPECT_EQ(layers(R"("mlp_layer_types": ["dense", "sparse", "sparse"])"), 2);
  EXPECT_THAT(reading(small("qwen2_moe", R"(, "num_experts": 8, "num_experts_per_tok": 2,
                                           "mlp_layer_types": ["dense", 3])")),
              refusal("number in mlp_layer_types"));
  EXPECT_THAT(reading(small("qwen2_moe", R"(, "num_experts": 8, "num_experts_per_tok": 2,
                                           "decoder_sparse_step": 0)")),
              refusal("each 0th layer"));
}

TEST(ModelFile, HasTheWindowsOfItsLayers) {
  const auto full = [](const std::string& type, const std::string& keys) {
    return read(small(type, keys)).full_attention;
  };
  EXPECT_EQ(full("gpt_oss", R"(, "layer_types": ["sliding_attention", "full_attention", "full_attention"])"),
            2 / 3.0);
  EXPECT_EQ(full("exaone4", R"(, "sliding_window": 64, "sliding_window_pattern": "LG",
                                 "layer_types": ["sliding_attention", "full_attention"])"),
            0.5);
  EXPECT_EQ(full("gemma2", ""), 0.5);
  EXPECT_EQ(full("gemma3_text", R"(, "sliding_window": 512)"), 1 / 6.0);
  EXPECT_EQ(full("cohere2", R"(, "sliding_window_pattern": 3)"), 1 / 3.0);
  EXPECT_EQ(full("mistral", R"(, "sliding_window": 4096)"), 0);
  EXPECT_EQ(full("mistral", R"(, "sliding_window": null)"), 1);
  EXPECT_EQ(full("qwen2", R"(, "sliding_window": 4096, "use_sliding_window": false)"), 1);
  EXPECT_EQ(full("qwen2", R"(, "sliding_window": 4096, "use_sliding_window": true, "max_window_layers": 9)"),
            0.75);
  EXPECT_EQ(full("llama", R"(, "sliding_window": 4096)"), 1);  // whose class knows of none
  EXPECT_EQ(read(small("gpt_oss")).window, 128);
  EXPECT_TRUE(read(small("gpt_oss")).sinks);
  const ModelShape chunks = read(small("llama4_text"));
  EXPECT_EQ(chunks.full_attention, 0.25);
  EXPECT_EQ(chunks.window, 8192);
  EXPECT_TRUE(chunks.window_restarts);
}

TEST(ModelFile, WithoutATypeIsOfLlamasKind) {
  const ModelShape model = read(R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
                                    "vocab_size": 100})");
  EXPECT_TRUE(model.gated_mlp);
  EXPECT_FALSE(model.tied_embeddings);
  EXPECT_EQ(model.ffn, 256);
}

TEST(ModelFile, OfLayersThatAreNotKnownIsRefusedInALine) {
  for (const char* type : {"bert", "jamba", "nemotron_h", "qwen3_next", "mamba", "vit"})
    EXPECT_THAT(reading(small(type)),
                ThrowsMessage<Error>(std::string("config.json: layers of the model_type \"") + type +
                                     "\" are not known; where they are like llama's, say so in model_type"));
  EXPECT_THAT(reading(R"({"model_type": "clip", "text_config": {"model_type": "clip_text_model"}})"),
              refusal("\"clip_text_model\" are not known"));
  EXPECT_THAT(reading(small("llama", R"(, "is_encoder_decoder": true)")), refusal("only decoders are known"));
  EXPECT_THAT(reading(small("llama", R"(, "layer_types": ["linear_attention", "full_attention"])")),
              refusal("layers of the kind \"linear_attention\" in layer_types are not known"));
}

TEST(ModelFile, OfEmbeddingsThatAreProjectedIsRefused) {
  EXPECT_EQ(read(small("opt", R"(, "word_embed_proj_dim": 1024)")).hidden, 1024);
  EXPECT_THAT(reading(small("opt", R"(, "word_embed_proj_dim": 512)")), refusal("word_embed_proj_dim"));
}

TEST(ModelFile, ThatIsNoModelIsRefused) {
  EXPECT_THAT(reading("[1]"), refusal("not a JSON object"));
  EXPECT_THAT(reading("{}"), refusal("num_hidden_layers"));
  EXPECT_THAT(reading(R"({"num_hidden_layers": -1})"), refusal("num_hidden_layers"));
  EXPECT_THAT(reading(R"({"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 6,
                          "num_key_value_heads": 4, "vocab_size": 9})"),
              refusal("cannot share"));
  EXPECT_THAT(
      reading(small("llama", R"(, "mlp_only_layers": 3, "num_experts": 2, "num_experts_per_tok": 1)")),
      refusal("mlp_only_layers is no list"));
  EXPECT_THAT(reading(small("mpt", R"(, "intermediate_size": null, "expansion_ratio": 16777216)")),
              refusal("MLP"));
}

}  // namespace
}  // namespace stweaver
