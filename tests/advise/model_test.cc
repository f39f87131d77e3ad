#include "advise/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base.h"

namespace stweaver {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Model, CountsThePublishedParametersOfPublicModels) {
  // Billions, as their makers print them.
  EXPECT_NEAR(total_weights(known_model("llama3_8b")) / 1e9, 8.03, 0.02);
  EXPECT_NEAR(total_weights(known_model("llama31_405b")) / 1e9, 405.8, 0.5);
  EXPECT_NEAR(total_weights(known_model("qwen3_235b_a22b")) / 1e9, 235.1, 0.5);
  EXPECT_NEAR(total_weights(known_model("deepseek_v3")) / 1e9, 671, 2);
  EXPECT_NEAR(total_weights(known_model("nemotron_3_nano")) / 1e9, 31.6, 0.4);
}

TEST(Model, LooksAtNoMorePairsThanItsWindowsLeave) {
  ModelShape model = known_model("llama3_8b");
  EXPECT_DOUBLE_EQ(attended_share(model, 4096), 1);
  model.full_attention = 0;
  model.window = 1024;
  // The triangle of what is further back has 9 of 16 parts of all pairs.
  EXPECT_DOUBLE_EQ(attended_share(model, 4096), 7 / 16.0);
  EXPECT_DOUBLE_EQ(attended_share(model, 1024), 1);
  EXPECT_DOUBLE_EQ(attended_share(model, 512), 1);
  model.full_attention = 0.5;
  EXPECT_DOUBLE_EQ(attended_share(model, 4096), (1 + 7 / 16.0) / 2);
  model.window_restarts = true;  // four triangles
  EXPECT_DOUBLE_EQ(attended_share(model, 4096), (1 + 4 / 16.0) / 2);
}

TEST(Model, ReadsTheConfigurationOfATransformersModel) {
  const ModelShape model =
      read_model(R"({"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048,
      "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
      "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768})",
                 "config.json");
  EXPECT_DOUBLE_EQ(total_weights(model), total_weights(known_model("qwen3_30b_a3b")));
}

TEST(Model, RefusesWhatIsNoModel) {
  const auto read = [](const char* json) { return [json] { (void)read_model(json, "config.json"); }; };
  EXPECT_THAT(read("[1]"), ThrowsMessage<Error>(HasSubstr("not a JSON object")));
  EXPECT_THAT(read("{}"), ThrowsMessage<Error>(HasSubstr("num_hidden_layers")));
  EXPECT_THAT(read(R"({"num_hidden_layers": -1})"), ThrowsMessage<Error>(HasSubstr("num_hidden_layers")));
  EXPECT_THAT(read(R"({"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 6,
                       "num_key_value_heads": 4, "vocab_size": 9})"),
              ThrowsMessage<Error>(HasSubstr("cannot share")));
}

}  // namespace
}  // namespace stweaver
