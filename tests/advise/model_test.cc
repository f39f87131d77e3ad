#include "advise/model.h"

#include <gtest/gtest.h>

namespace stweaver {
namespace {

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

}  // namespace
}  // namespace stweaver
