#include "advise/measured_layers.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "advise/time.h"

namespace stweaver {
namespace {

Constants plain_constants() {
  Constants constants = known_constants("megatron-deepspeed");
  constants.layers.clear();
  return constants;
}

Measurement row_of(int hidden, int layers) {
  Measurement row;
  row.job = {.model = {.name = "gpt",
                       .layers = layers,
                       .hidden = hidden,
                       .ffn = 4 * hidden,
                       .heads = 16,
                       .kv_heads = 16,
                       .head_dim = hidden / 16,
                       .vocabulary = 50257,
                       .gated_mlp = false},
             .gpu = known_gpu("A100"),
             .configuration = {.gpus = 8,
                               .tp = 2,
                               .pp = 2,
                               .micro_batch = 2,
                               .global_batch = 64,
                               .sequence = 1024,
                               .sequence_parallel = false,
                               .flash_attention = false}};
  return row;
}

/// Two kinds of layers, three depths of each, as these constants have them.
std::vector<Measurement> rows_with(const Constants& truth) {
  std::vector<Measurement> rows;
  for (const int hidden : {1024, 2048})
    for (const int layers : {8, 16, 24}) {
      rows.push_back(row_of(hidden, layers));
      rows.back().seconds = step_time(rows.back().job, truth).total;
    }
  return rows;
}

TEST(MeasuredLayers, AreTheFactorsThatMadeTheRows) {
  Constants truth = plain_constants();
  truth.layers = {{layer_kind(row_of(1024, 8).job), 1.3}, {layer_kind(row_of(2048, 8).job), 0.8}};
  const MeasuredLayers found = measure_layers(rows_with(truth), plain_constants());
  ASSERT_EQ(found.size(), 2U);
  for (const auto& [kind, factor] : truth.layers) EXPECT_NEAR(found.at(kind), factor, 1e-6);
}

TEST(MeasuredLayers, AreDrawnTowardsNoneByWhatRowsOfOneKindDiffer) {
  Constants truth = plain_constants();
  truth.layers = {{layer_kind(row_of(1024, 8).job), 1.2}, {layer_kind(row_of(2048, 8).job), 1 / 1.2}};
  std::vector<Measurement> rows = rows_with(truth);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i].seconds *= i % 3 == 0 ? 1.1 : i % 3 == 1 ? 1 / 1.1 : 1;
  const MeasuredLayers found = measure_layers(rows, plain_constants());
  const double factor = found.at(layer_kind(rows[0].job));
  EXPECT_GT(factor, 1.1);
  EXPECT_LT(factor, 1.19);
}

TEST(MeasuredLayers, AreNoneWhereKindsHaveOneRow) {
  Constants truth = plain_constants();
  truth.layers = {{layer_kind(row_of(1024, 8).job), 1.3}};
  const std::vector<Measurement> rows = rows_with(truth);
  EXPECT_TRUE(measure_layers({{rows[0], rows[3]}}, plain_constants()).empty());
}

TEST(MeasuredLayers, AreNoneWhereRowsOfOneKindDifferAsMuchAsKindsDo) {
  std::vector<Measurement> rows = rows_with(plain_constants());
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i].seconds *= i % 3 == 0 ? 1.2 : i % 3 == 1 ? 1 / 1.2 : 1;
  EXPECT_TRUE(measure_layers(rows, plain_constants()).empty());
}

TEST(MeasuredLayers, ChangeTheTimeOfLayersAndNothingElse) {
  Constants constants = plain_constants();
  const Job job = row_of(1024, 8).job;
  const StepTime before = step_time(job, constants);
  constants.layers[layer_kind(job)] = 1.5;
  const StepTime after = step_time(job, constants);
  EXPECT_DOUBLE_EQ(after.work, 1.5 * before.work);
  EXPECT_DOUBLE_EQ(after.bubble, 1.5 * before.bubble);
  EXPECT_DOUBLE_EQ(after.traffic, before.traffic);
  EXPECT_DOUBLE_EQ(after.optimizer, before.optimizer);
  Job deeper = job;
  deeper.model.layers = 16;
  deeper.configuration.recompute = Recompute::kFull;
  EXPECT_EQ(layer_kind(deeper), layer_kind(job));
  deeper.configuration.micro_batch = 4;
  EXPECT_NE(layer_kind(deeper), layer_kind(job));
}

}  // namespace
}  // namespace stweaver
