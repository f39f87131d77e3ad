#include "advise/memory.h"

#include <algorithm>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/base.h"
#include "support/pipeline.h"

namespace stweaver {
namespace {

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

TEST(RankMemory, ClosedFormAndTraceSayTheSameWhereTheEndsTakeThePlaceOfALayer) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    Job job = pipeline_job();
    job.model.layers = 4 * 2 * 3 - 2;
    job.configuration.recompute = recompute;
    job.configuration.virtual_stages = 2;
    ASSERT_TRUE(share_out_layers(job));
    for (const int stage : {0, 1, 3}) EXPECT_NEAR(difference(job, stage), 0, 0.01) << stage;
    EXPECT_EQ(fullest_rank(job, chunk_memory(job)).stage, 1);
  }
}

/// DeepSeek-V3 on 16 stages, which differs by one layer of multi-token prediction.
Job predicting_job(int layers) {
  Job job{.model = known_model("deepseek_v3"), .gpu = known_gpu("h100"), .configuration = {}};
  job.model.mtp_layers = layers;
  job.configuration = {.gpus = 1024, .pp = 16, .ep = 64, .global_batch = 1024, .sequence = 4096};
  return job;
}

TEST(RankMemory, LayersOfMultiTokenPredictionAreOnTheLastStage) {
  const Job without = predicting_job(0), with = predicting_job(1);
  EXPECT_DOUBLE_EQ(live_memory(with, 0).peak(), live_memory(without, 0).peak());
  // A layer of experts, what makes two states one, and the embedding, which the first stage has otherwise.
  const double experts = expert_weights(with.model) * 256 / 64;
  const double shared =
      attention_weights(with.model) + 3.0 * 7168 * 2048 + 7168.0 * 256 + 2.0 * 7168 * 7168 + 7168.0 * 129280;
  const double states = live_memory(with, 15).states - live_memory(without, 15).states;
  EXPECT_NEAR(states / ((6 + 12.0 / 64) * shared + 18 * experts), 1, 1e-9);
}

TEST(RankMemory, PredictedTokensHaveLogitsOfTheirOwnAtTheSameTime) {
  const Job without = predicting_job(0), with = predicting_job(1);
  const double logits = 4 * 4096.0 * 129280;  // in fp32
  const double more = live_memory(with, 15).transient - live_memory(without, 15).transient;
  EXPECT_GT(more, logits);
  EXPECT_LT(more, logits + 2 * chunk_memory(with).plain.kept);
  for (const int layers : {1, 2}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      Job job = predicting_job(layers);
      job.configuration.recompute = recompute;
      EXPECT_NEAR(difference(job, 15), 0, 0.01) << layers << name_of(recompute);
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

TEST(Reserved, IsWhatThereIsWhereItHelpsToEmptyTheCache) {
  Job job = pipeline_job();
  use_pytorch_modules(job);
  const Trace trace = rank_trace(job, 0);
  const Bytes asked = peak_requested(trace);
  for (const bool expandable : {false, true}) {
    const Bytes free = reserved_by_pytorch(trace, expandable, job.gpu.memory);
    ASSERT_GT(free, asked);
    const Bytes tight = reserved_by_pytorch(trace, expandable, free - kMiB);
    EXPECT_LE(asked, tight);
    EXPECT_LT(tight, free);
    EXPECT_EQ(reserved_by_pytorch(trace, expandable, asked - kMiB), free);  // nothing helps
  }
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
  EXPECT_EQ(live_memory(job, 0).host, 0);
  job.configuration.offload_optimizer = true;
  EXPECT_NEAR(live_memory(job, 0).states, 6 * weights + workspaces, 1);
  EXPECT_NEAR(live_memory(job, 0).host, 12.0 / 16 * weights, 1);
  job.configuration.offload_optimizer = false;
  job.configuration.zero = 3;
  EXPECT_NEAR(live_memory(job, 0).states, 18.0 / 16 * weights + workspaces, 1);
}

TEST(RankMemory, FsdpOfPyTorchSharesFp32ParametersAndGathersTheEmbeddingsOnce) {
  Job job = pipeline_job();
  job.configuration.pp = 1;
  job.configuration.zero = 3;
  use_pytorch_modules(job);
  const double embeddings = 2.0 * 32000 * 4096;
  const double states = 16.0 / 16 * total_weights(job.model) + 2 * embeddings + 64 * kMiB;
  EXPECT_NEAR(live_memory(job, 0).states / states, 1, 0.001);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    job.configuration.recompute = recompute;
    EXPECT_NEAR(difference(job, 0), 0, 0.01) << name_of(recompute);
  }
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
  // All 16 ranks share the optimizer states of the rest; nobody shares those of an expert. Products of
  // experts run on four streams, each with a workspace.
  const double workspaces = 224 * kMiB;
  const double expected = (6 + 12.0 / 16) * shared + 18 * all_expert_weights(job.model) / 16 + workspaces;
  EXPECT_NEAR(live_memory(job, 0).states / expected, 1, 1e-9);
  job.configuration.grouped_experts = false;
  EXPECT_NEAR(live_memory(job, 0).states, expected - 128 * kMiB, 1);
}

TEST(RankMemory, TensorParallelRanksHaveRoutersAndLatentProjectionsWhole) {
  Job job{.model = known_model("deepseek_v3"), .gpu = known_gpu("h100"), .configuration = {}};
  job.model.mtp_layers = 0;
  job.configuration.gpus = 8;
  job.configuration.global_batch = 8;
  job.configuration.sequence = 2048;
  job.configuration.zero = 0;
  const double alone = live_memory(job, 0).states;
  job.configuration.tp = 8;
  job.configuration.expert_tp = 8;
  const double whole = 7168.0 * (61 * (1536 + 512 + 64) + 58 * 256);
  EXPECT_DOUBLE_EQ(undivided_weights(job.model), whole);
  const double workspaces = 224 * kMiB;
  const double expected = (alone - workspaces - 18 * whole) / 8 + 18 * whole + workspaces;
  EXPECT_NEAR(live_memory(job, 0).states / expected, 1, 1e-3);
}

TEST(RankMemory, GroupsThatShareStatesShareThoseOfExpertsToo) {
  Configuration how{.gpus = 16, .ep = 4};
  EXPECT_EQ(expert_sharding(how), 4);
  how.shard = 8;
  EXPECT_EQ(expert_sharding(how), 2);
}

TEST(RankMemory, StagesHaveTheLayersThatTheyAreGiven) {
  Job job = pipeline_job();
  job.configuration.first_layers = 3;
  job.configuration.last_layers = 5;
  EXPECT_EQ(why_not(job), "");
  int layers = 0;
  for (const int stage : {0, 1, 2, 3}) {
    layers += stage_layers(job, stage);
    EXPECT_NEAR(difference(job, stage), 0, 0.01) << stage;
  }
  EXPECT_EQ(layers, job.model.layers);
  EXPECT_EQ(stage_layers(job, 0), 3);
  EXPECT_EQ(stage_layers(job, 1), 12);
  EXPECT_EQ(stage_layers(job, 3), 5);
  for (const int last : {-1, 29, 32, 2147483647}) {
    job.configuration.last_layers = last;
    EXPECT_NE(why_not(job), "") << last;
  }
  job.configuration.pp = 2;
  job.configuration.last_layers = 28;
  EXPECT_NE(why_not(job), "");  // a layer is nowhere
  job.configuration.last_layers = 29;
  EXPECT_EQ(why_not(job), "");
}

TEST(RankMemory, LongerRoundsKeepMoreMicroBatches) {
  Job job = pipeline_job();
  job.configuration.virtual_stages = 2;
  const double before = live_memory(job, 0).activations;
  job.configuration.rounds = 6;
  // Six and one passages ahead, and two more of each chunk but the last.
  EXPECT_NEAR(live_memory(job, 0).activations, before * 13 / 11, 1);
  EXPECT_NEAR(difference(job, 0), 0, 0.01);
  EXPECT_EQ(why_not(job), "");
  for (const int rounds : {-1, 17, 2147483647}) {
    job.configuration.rounds = rounds;
    EXPECT_NE(why_not(job), "") << rounds;  // of 16 micro-batches
  }
}

TEST(RankMemory, AnotherPassageIsAheadWhereExpertsTrafficIsHidden) {
  Job job = pipeline_job();
  job.configuration.virtual_stages = 2;
  const double before = live_memory(job, 0).activations;
  job.configuration.overlap_experts = true;
  EXPECT_NEAR(live_memory(job, 0).activations, before * 12 / 11, 1);
}

TEST(RankMemory, TheFlashLibraryKeepsItsOwnResult) {
  Job job = pipeline_job();
  const double fused = chunk_memory(job).plain.kept;
  const double context = 2.0 * 2048 * 4096;
  job.configuration.flash_library = true;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, fused);  // one sequence needs no other order
  job.configuration.micro_batch = 2;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, 2 * (fused + context));
  job.configuration.flash_library = false;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, 2 * fused);
  job.gpu = known_gpu("a100");
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, 2 * (fused + context));
}

/// Bytes that the head of a job needs at most, in logits.
double head_logits(const Job& job) {
  const Configuration& how = job.configuration;
  const LayerMemory head = chunk_memory(job).head;
  return std::max(head.forward, head.backward) / how.sequence / how.micro_batch / 32000 * how.tp;
}

TEST(RankMemory, LogitsAreAsWideAndAsManyAsTheLossHasThem) {
  Job job = pipeline_job();
  job.configuration.sequence = 128;  // so that little but logits counts
  job.model.hidden = 64;
  const auto needs = [&job](Loss loss, int tp) {
    job.configuration.loss = loss;
    job.configuration.tp = tp;
    EXPECT_NEAR(difference(job, 3), 0, 0.01);
    return head_logits(job);
  };
  EXPECT_NEAR(needs(Loss::kMegatron, 1), 2 + 4, 0.1);
  EXPECT_NEAR(needs(Loss::kTransformerEngine, 1), 2, 0.1);
  EXPECT_NEAR(needs(Loss::kCompiled, 1), 2 + 2, 0.1);
  EXPECT_NEAR(needs(Loss::kPyTorch, 1), 3 * 4, 0.1);  // logarithms, their gradient, and that of logits
  EXPECT_NEAR(needs(Loss::kPyTorch, 2), 4 * 4, 0.1);  // ranks share the vocabulary: terms of it beside it
}

TEST(RankMemory, LegacyModelsKeepHeadsInTheLibrarysOrderAndABufferForGathering) {
  Job job = pipeline_job();
  job.configuration.tp = 2;
  job.configuration.micro_batch = 4;
  job.configuration.compiled = false;
  const double tokens = 4 * 2048;
  const double plain = chunk_memory(job).plain.kept, states = live_memory(job, 1).states;
  use_legacy_modules(job);
  EXPECT_NEAR(difference(job, 1), 0, 0.01);
  EXPECT_DOUBLE_EQ(live_memory(job, 1).states, states + 2 * tokens * 4096);
  // Three blocks in place of what the products gave and of turned queries and keys; what the library gives
  // has another order, and is kept beside the input of the next product.
  const double heads = 2 * tokens * 4096 / 2;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, plain - 2 * heads + heads);
}

TEST(RankMemory, HalvesOfAGateKeepMoreWhereTheyAreNotFused) {
  Job job = pipeline_job();
  const double fused = chunk_memory(job).plain.kept;
  job.configuration.fused_gate = false;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, fused + 2.0 * 2048 * 11008);
}

TEST(RankMemory, GradientsThatWereReducedInBf16AreCopiedForTheOptimizer) {
  Job job = pipeline_job();
  job.configuration.recompute = Recompute::kFull;
  job.configuration.sequence = 32;  // so that the optimizer needs more than the passes
  job.configuration.gradient_bytes = 2;
  const RankMemory memory = live_memory(job, 1);
  const double weights = dense_weights(job.model) / 4;
  EXPECT_NEAR(memory.peak(), memory.states + 4 * weights / 4, 1);  // four ranks share the optimizer
  EXPECT_NEAR(difference(job, 1), 0, 0.01);
  job.configuration.offload_optimizer = true;
  EXPECT_LT(live_memory(job, 1).peak(), live_memory(job, 1).states + weights / 4);
}

TEST(RankMemory, WithoutTransformerEngineAdamMakesRootsAndProductsNeedNoWorkspaceOfItsOwn) {
  Job job = pipeline_job();
  job.configuration.recompute = Recompute::kFull;
  job.configuration.zero = 0;
  const RankMemory with = live_memory(job, 1);
  job.configuration.transformer_engine = false;
  const RankMemory without = live_memory(job, 1);
  EXPECT_DOUBLE_EQ(without.states, with.states - 32 * kMiB);
  EXPECT_NEAR(difference(job, 1), 0, 0.01);
  // Of 18 bytes of a parameter four are its square root's, and nothing else is there then.
  const double weights = (with.states - 96 * kMiB) / 18;
  EXPECT_NEAR(without.activations + without.transient, 4 * weights, 1);
}

TEST(RankMemory, RoutersAreTransformerEnginesThoughLayersAreNot) {
  Job job = pipeline_job();
  const double fused = live_memory(job, 1).states;
  job.configuration.local_layers = true;
  EXPECT_DOUBLE_EQ(live_memory(job, 1).states, fused - 32 * kMiB);
  job.model = known_model("qwen3_30b_a3b");
  const double local = live_memory(job, 1).states;
  job.configuration.local_layers = false;
  EXPECT_DOUBLE_EQ(live_memory(job, 1).states, local);
}

TEST(RankMemory, ProductsOfMegatronGatherIntoOneBufferForGood) {
  Job job = pipeline_job();
  job.configuration.tp = 2;
  const auto states = [&job](bool local, int stage) {
    job.configuration.local_layers = local;
    return live_memory(job, stage).states;
  };
  const double gathered = 2.0 * 2048 * 4096, workspace = 32 * kMiB;
  EXPECT_DOUBLE_EQ(states(true, 1), states(false, 1) - workspace + gathered);
  EXPECT_DOUBLE_EQ(states(true, 3),
                   states(false, 3) - workspace);  // the output layer is Megatron's in any case
  job.configuration.sequence_parallel = false;
  EXPECT_DOUBLE_EQ(states(true, 1), states(false, 1) - workspace);
}

TEST(RankMemory, StagesHoldWhatTheySendAndReceive) {
  Job job = pipeline_job();
  const double state = 2.0 * 2048 * 4096;
  const auto in_transit = [&job](int stage) {
    job.configuration.megatron = true;
    const Bytes with = peak_requested(rank_trace(job, stage));
    EXPECT_NEAR(difference(job, stage), 0, 0.01);
    job.configuration.megatron = false;
    return static_cast<double>(with - peak_requested(rank_trace(job, stage)));
  };
  EXPECT_DOUBLE_EQ(in_transit(0), 0);
  EXPECT_DOUBLE_EQ(in_transit(1), state);      // the gradient that it sent
  EXPECT_DOUBLE_EQ(in_transit(3), 2 * state);  // and forward, where it needs most, what it was given last
  job.configuration.virtual_stages = 2;
  EXPECT_DOUBLE_EQ(in_transit(1), 3 * state);  // what it sent forward, and its next input
}

TEST(RankMemory, WhatIsRecomputedIsCopiedToItsPlace) {
  Job job = pipeline_job();
  job.configuration.recompute = Recompute::kSelective;
  job.configuration.local_layers = true;  // whose norms stand alone
  const double kept = chunk_memory(job).plain.kept;
  const double backward = chunk_memory(job).plain.backward - kept;
  job.configuration.recompute = Recompute::kNone;
  const double state = 2.0 * 2048 * 4096;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept - kept, 2 * state);
  // The first product's input waits from the end of the MLP on.
  EXPECT_DOUBLE_EQ(backward - (chunk_memory(job).plain.backward - chunk_memory(job).plain.kept), 2 * state);
}

TEST(RankMemory, MegatronRecomputesNothingOfDenseLayersWhoseNormsAreInProducts) {
  Job job = pipeline_job();
  const LayerMemory kept = chunk_memory(job).plain;
  job.configuration.recompute = Recompute::kSelective;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, kept.kept);
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.backward, kept.backward);
  use_pytorch_modules(job);
  const double saved = chunk_memory(job).plain.kept;
  job.configuration.recompute = Recompute::kNone;
  EXPECT_GT(chunk_memory(job).plain.kept, saved);
}

TEST(RankMemory, OfActivationFunctionsThoseOfRoutedExpertsAreRecomputed) {
  Job job = pipeline_job();
  job.model = known_model("qwen3_30b_a3b");
  const auto saved = [&job] {
    job.configuration.recompute = Recompute::kNone;
    const double kept = chunk_memory(job).plain.kept;
    job.configuration.recompute = Recompute::kSelective;
    return kept - chunk_memory(job).plain.kept;
  };
  const double tokens = 2.0 * 2048;                      // bytes of an element of each
  EXPECT_DOUBLE_EQ(saved(), tokens * (8 * 768 + 2048));  // and the norm in front of them
  job.model.shared_ffn = 4096;
  EXPECT_DOUBLE_EQ(saved(), tokens * (8 * 768 + 2048));
}

TEST(RankMemory, RotaryOperatorsKeepTheirCosinesAndSines) {
  Job job = pipeline_job();
  const double fused = chunk_memory(job).plain.kept;
  job.configuration.transformer_engine = false;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, fused + 4 * 2.0 * 2048 * 128);
  job.configuration.micro_batch = 2;  // sequences share them
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, 2 * fused + 4 * 2.0 * 2048 * 128);
}

TEST(RankMemory, ASoftmaxThatIsNotFusedKeepsItsResultInFp32AndAMask) {
  Job job = pipeline_job();
  job.configuration.flash_attention = false;
  const double fused = chunk_memory(job).plain.kept;
  job.configuration.fused_softmax = false;
  const double pairs = 2048.0 * 2048;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, fused + pairs * (4 * 32 + 1));
  EXPECT_NEAR(difference(job, 0), 0, 0.01);
}

TEST(RankMemory, MegatronsOwnAttentionHasKeysAndValuesForEveryHead) {
  Job job = pipeline_job();
  job.model = known_model("llama3_8b");  // eight of 32
  job.configuration.flash_attention = false;
  const double shared = chunk_memory(job).plain.kept;
  job.configuration.local_layers = true;
  // Both as wide as queries; in place of what queries, keys and values were made as.
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, shared + 2.0 * 2048 * (2 * 4096 - (4096 + 2 * 1024)));
}

TEST(RankMemory, ProductsKeepNarrowInputs) {
  Job job = pipeline_job();
  const double wide = chunk_memory(job).plain.kept;
  job.configuration.precision = Precision::kFp8;
  // A byte less for inputs of queries, keys and values, of the first product of the MLP, and of its second;
  // what attention gives is kept by it as well.
  const double tokens = 2048;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, wide - tokens * (2 * 4096 + 11008) + tokens * 4096);
  EXPECT_NEAR(difference(job, 0), 0, 0.01);
  job.configuration.narrow_inputs = false;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, wide);
}

TEST(RankMemory, WeightsOfLayersMayBeNarrowAndEmbeddingsAreNot) {
  Job job = pipeline_job();
  job.configuration.pp = 1;
  const double before = live_memory(job, 0).states;
  job.configuration.weight_bytes = 1;
  EXPECT_NEAR(live_memory(job, 0).states, before - dense_weights(job.model), 1);
}

TEST(RankMemory, NormsOfQueriesAndKeysKeepTheirResults) {
  Job job = pipeline_job();
  job.configuration.rotary = false;  // which would keep as much in their place
  const double without = chunk_memory(job).plain.kept;
  job.model.query_norm = true;
  EXPECT_DOUBLE_EQ(chunk_memory(job).plain.kept, without + 2048 * (2.0 * 2 * 4096 + 2 * 4 * 2 * 32));
}

TEST(RankMemory, AMaskOfAttentionIsWhereBatchesAre) {
  Job job = pipeline_job();
  job.configuration.recompute = Recompute::kFull;  // keeps it until the way back
  const auto asked = [&job](int stage) {
    return static_cast<double>(peak_requested(rank_trace(job, stage)));
  };
  const double first = asked(0), middle = asked(1), last = asked(3);
  job.configuration.attention_mask = true;
  const double mask = 2048.0 * 2048;
  EXPECT_DOUBLE_EQ(asked(0), first + 4 * mask);  // of each micro-batch on its way
  EXPECT_DOUBLE_EQ(asked(1), middle);
  EXPECT_DOUBLE_EQ(asked(3), last + mask);
}

TEST(RankMemory, PyTorchsOptimizerMakesItsMomentsBeforeItTakesRoots) {
  Job job = pipeline_job();
  use_pytorch_modules(job);
  const Trace trace = rank_trace(job, 0);
  const Time first = trace.marks.at(0).time, second = trace.marks.at(1).time;
  std::vector<Request> made;  // in the first step
  for (const Request& request : trace.requests)
    if (request.life.lower >= first && request.life.lower < second) made.push_back(request);
  ASSERT_GE(made.size(), 4U);
  const std::span<const Request> last = std::span(made).last(4);  // gradient, moments, roots
  for (const Request& request : last) EXPECT_EQ(request.size, last[0].size);
  EXPECT_LT(last[0].life.upper, second);
  EXPECT_EQ(last[1].life.upper, kForever);
  EXPECT_EQ(last[2].life.upper, kForever);
  EXPECT_LT(last[3].life.upper, second);
}

TEST(RankMemory, APlanReservesHardlyMoreThanIsAskedForAndNoMoreThanPyTorch) {
  Job job = pipeline_job();
  job.configuration.recompute = Recompute::kFull;
  const Reservation reservation = reserve(job, 0, job.gpu.memory);
  EXPECT_GE(reservation.planned, reservation.requested);
  EXPECT_LE(static_cast<double>(reservation.planned), 1.001 * static_cast<double>(reservation.requested));
  EXPECT_LE(reservation.planned, reservation.native);
  EXPECT_LE(reservation.planned, reservation.expandable);
}

}  // namespace
}  // namespace stweaver
