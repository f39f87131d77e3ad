#include "advise/memory.h"

#include <gtest/gtest.h>

#include "base/base.h"

namespace stweaver {
namespace {

Job pipeline_job() {
  Job job{.model = known_model("llama2_7b"), .gpu = known_gpu("h100"), .configuration = {}};
  job.configuration.gpus = 16;
  job.configuration.pp = 4;
  job.configuration.global_batch = 64;
  job.configuration.sequence = 2048;
  return job;
}

/// How far the closed form is from what the trace asks for, as a share.
double difference(const Job& job, int stage) {
  const auto asked = static_cast<double>(peak_requested(rank_trace(job, stage)));
  return live_memory(job, stage).peak() / asked - 1;
}

TEST(RankMemory, ClosedFormAndTraceSayTheSame) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    for (const int virtual_stages : {1, 2}) {
      Job job = pipeline_job();
      job.configuration.recompute = recompute;
      job.configuration.virtual_stages = virtual_stages;
      job.configuration.compiled = virtual_stages == 1;
      for (const int stage : {0, 2, 3})
        EXPECT_NEAR(difference(job, stage), 0, 0.01) << name_of(recompute) << virtual_stages << stage;
    }
  }
}

TEST(RankMemory, LayersKeepWhatKorthikantiCounts) {
  // Table 2 of arXiv 2205.05198: bytes of a layer per token and hidden unit, with dropout, without flash.
  Job job = pipeline_job();
  job.model = known_model("gpt_175b");
  Configuration& how = job.configuration;
  how = {.gpus = 8, .tp = 8, .micro_batch = 1, .global_batch = 1, .sequence = 2048};
  how.rotary = false;
  how.dropout = true;
  how.flash_attention = false;
  const double unit = 2048.0 * 12288;
  const double scores = 5.0 * 96 * 2048 / 12288;
  EXPECT_NEAR(chunk_memory(job).plain.kept / unit, (34 + scores) / 8, 0.01);
  how.sequence_parallel = false;
  EXPECT_NEAR(chunk_memory(job).plain.kept / unit, 10 + (24 + scores) / 8, 0.01);
}

TEST(RankMemory, OfPlainModulesIsMoreThanOfFusedOnes) {
  Job job = pipeline_job();
  const double fused = chunk_memory(job).plain.kept;
  job.configuration.compiled = false;
  EXPECT_GT(chunk_memory(job).plain.kept, 1.2 * fused);
}

TEST(RankMemory, FallsWithEveryLayerThatIsRecomputed) {
  Job job = pipeline_job();
  job.configuration.recompute = Recompute::kFull;
  double before = 1e18;
  for (int layers = 1; layers <= 8; ++layers) {
    job.configuration.recompute_layers = layers;
    const double now = live_memory(job, 0).peak();
    EXPECT_LT(now, before) << layers;
    EXPECT_NEAR(difference(job, 0), 0, 0.01) << layers;
    before = now;
  }
}

TEST(RankMemory, StatesAreThoseOfMegatron) {
  Job job = pipeline_job();
  job.configuration.pp = 1;
  const double weights = total_weights(job.model);
  const double workspaces = 96 * kMiB;
  job.configuration.zero = 0;
  EXPECT_NEAR(live_memory(job, 0).states, 18 * weights + workspaces, 1);
  job.configuration.zero = 1;
  EXPECT_NEAR(live_memory(job, 0).states, (6 + 12.0 / 16) * weights + workspaces, 1);
  job.configuration.zero = 3;
  EXPECT_NEAR(live_memory(job, 0).states, 18.0 / 16 * weights + workspaces, 1);
}

TEST(RankMemory, EarlierStagesKeepMoreMicroBatches) {
  const Job job = pipeline_job();
  EXPECT_DOUBLE_EQ(live_memory(job, 0).activations, 4 * live_memory(job, 3).activations);
  EXPECT_EQ(fullest_rank(job, chunk_memory(job)).stage, 0);
}

TEST(RankMemory, ExpertsLiveWholeOnOneRankEach) {
  Job job{.model = known_model("qwen3_30b_a3b"), .gpu = known_gpu("h100"), .configuration = {}};
  job.configuration.gpus = 16;
  job.configuration.ep = 16;
  job.configuration.global_batch = 16;
  job.configuration.sequence = 2048;
  const double shared = total_weights(job.model) - all_expert_weights(job.model);
  // All 16 ranks share the optimizer states of the rest; nobody shares those of an expert.
  const double expected = (6 + 12.0 / 16) * shared + 18 * all_expert_weights(job.model) / 16 + 96 * kMiB;
  EXPECT_NEAR(live_memory(job, 0).states / expected, 1, 1e-9);
}

TEST(RankMemory, APlanReservesHardlyMoreThanIsAskedForAndNoMoreThanPyTorch) {
  Job job = pipeline_job();
  job.configuration.recompute = Recompute::kFull;
  const Reservation reservation = reserve(job, 0);
  EXPECT_GE(reservation.planned, reservation.requested);
  EXPECT_LE(static_cast<double>(reservation.planned), 1.001 * static_cast<double>(reservation.requested));
  EXPECT_LE(reservation.planned, reservation.native);
  EXPECT_LE(reservation.planned, reservation.expandable);
}

}  // namespace
}  // namespace stweaver
