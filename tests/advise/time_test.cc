#include "advise/time.h"

#include <gtest/gtest.h>

#include "advise/layers.h"

namespace stweaver {
namespace {

Job job_of(const char* model) {
  Job job{.model = known_model(model), .gpu = known_gpu("h100"), .configuration = {}};
  job.configuration.gpus = 64;
  job.configuration.tp = 4;
  job.configuration.pp = 4;
  job.configuration.global_batch = 256;
  job.configuration.sequence = 4096;
  return job;
}

double seconds(const Job& job) {
  return step_time(job, known_constants("megatron")).total;
}

TEST(StepTime, IsTheSumOfItsParts) {
  const StepTime time = step_time(job_of("llama3_70b"), known_constants("megatron"));
  EXPECT_DOUBLE_EQ(time.total, time.work + time.bubble + time.traffic + time.optimizer);
  EXPECT_GT(time.bubble, 0);
  EXPECT_GT(time.traffic, 0);
}

TEST(StepTime, NeverBeatsThePeakOfTheGpu) {
  Job job = job_of("llama3_70b");
  const double flops = 6 * dense_weights(job.model) * tokens_of(job.configuration);
  EXPECT_GT(seconds(job), flops / (job.configuration.gpus * job.gpu.bf16));
}

TEST(StepTime, GrowsWithRecomputation) {
  Job job = job_of("llama3_70b");
  job.configuration.flash_attention = false;
  const double without = seconds(job);
  job.configuration.recompute = Recompute::kSelective;
  const double selective = seconds(job);
  job.configuration.recompute = Recompute::kFull;
  EXPECT_LT(without, selective);
  EXPECT_LT(selective, seconds(job));
}

TEST(StepTime, GrowsBySelectiveRecomputationOnlyWhereThatHasSomethingToDo) {
  Job job = job_of("llama3_70b");
  const double dense = seconds(job);
  job.configuration.recompute = Recompute::kSelective;
  EXPECT_EQ(seconds(job), dense) << "norms are in their products, and flash attention keeps no scores";
  EXPECT_FALSE(has_cheap_operators(job));
  Job experts = job_of("qwen3_30b_a3b");
  const double without = seconds(experts);
  experts.configuration.recompute = Recompute::kFull;
  const double full = seconds(experts);
  experts.configuration.recompute = Recompute::kSelective;
  EXPECT_GT(seconds(experts), without);
  EXPECT_LT(seconds(experts) - without, (full - without) / 10) << "no product, and nothing is sent again";
  use_pytorch_modules(job);
  const double plain = seconds(job);
  job.configuration.recompute = Recompute::kNone;
  EXPECT_GT(plain, 1.01 * seconds(job)) << "their norms and activation functions stand alone";
}

TEST(StepTime, ExpertsTakeNoLessOfTheHostInALargerNode) {
  Job job = job_of("qwen3_30b_a3b");
  job.configuration.gpus = job.configuration.ep = 8;
  job.configuration.tp = job.configuration.pp = 1;
  const double eight = seconds(job);
  job.gpu.domain = 16;
  EXPECT_EQ(seconds(job), eight);
}

TEST(StepTime, IsThatOfAPaddedVocabularyWhereItIsPadded) {
  Job job = job_of("gpt2_345m");
  job.configuration.tp = job.configuration.pp = 1;
  job.model.vocabulary = 50257;
  const auto ratio = [&job] {
    Job even = job;
    even.model.vocabulary = 50304;
    return seconds(job) / seconds(even);
  };
  EXPECT_NEAR(ratio(), 1, 1e-4);
  use_pytorch_modules(job);
  EXPECT_GT(ratio(), 1.02) << "no multiple of eight";
}

TEST(StepTime, HasASmallerBubbleWithVirtualStagesAndWithMoreMicroBatches) {
  Job job = job_of("llama3_70b");
  const double plain = seconds(job);
  job.configuration.virtual_stages = 4;
  EXPECT_LT(seconds(job), plain);
  Job twice = job_of("llama3_70b");
  twice.configuration.global_batch *= 2;
  EXPECT_LT(seconds(twice), 2 * plain);
}

TEST(StepTime, SomeStagesOfAPipelineAreInTwoDomainsHoweverSmallTheyAre) {
  Job fast = job_of("llama3_70b");
  fast.configuration.pp = fast.configuration.gpus / 4;
  Job slow = fast;
  slow.gpu.network /= 100;
  EXPECT_GT(seconds(slow), seconds(fast));
  fast.gpu.domain = slow.gpu.domain = fast.configuration.gpus;
  EXPECT_DOUBLE_EQ(seconds(slow), seconds(fast));
}

TEST(StepTime, PaysForLinksBetweenDomains) {
  Job near = job_of("llama3_8b");
  near.configuration.pp = 1;
  near.configuration.tp = 16;
  Job far = near;
  near.gpu.domain = 64;
  EXPECT_GT(seconds(far), seconds(near));
}

TEST(StepTime, IsThatOfTheFullestStageWhereLayersAreSharedOut) {
  Job job = job_of("llama3_70b");
  job.model.layers = 82;
  job.configuration.first_layers = job.configuration.last_layers = 20;  // and twice 21
  const double even = seconds(job);
  job.configuration.first_layers = 10;  // and twice 26
  EXPECT_GT(seconds(job), 1.1 * even);
  job.configuration.first_layers = 20;
  job.configuration.last_layers = 30;  // and twice 16
  EXPECT_GT(seconds(job), 1.1 * even);
}

Job expert_job() {
  Job job = job_of("qwen3_235b_a22b");
  job.configuration.tp = 1;
  job.configuration.pp = 2;
  job.configuration.ep = 8;
  return job;
}

TEST(StepTime, OneKernelForExpertsIsForGatedOnesInMxfp8) {
  // What the kernel saves.
  const auto saved = [](const char* model, Precision precision) {
    Job job = job_of(model);
    job.configuration.tp = 1;
    job.configuration.precision = precision;
    const double one = seconds(job);
    job.configuration.fused_experts = false;
    return seconds(job) - one;
  };
  EXPECT_GT(saved("qwen3_235b_a22b", Precision::kMxfp8), 0);
  EXPECT_DOUBLE_EQ(saved("qwen3_235b_a22b", Precision::kBf16), 0);
  EXPECT_DOUBLE_EQ(saved("nemotron_3_nano", Precision::kMxfp8), 0);  // squared ReLU
  EXPECT_DOUBLE_EQ(saved("llama3_70b", Precision::kMxfp8), 0);
}

TEST(StepTime, BlackwellUltraIsFasterByPowerOrByUnits) {
  Constants constants = known_constants("megatron");
  const auto faster = [&constants](Precision precision) {
    Job job = job_of("llama3_70b");
    job.configuration.precision = precision;
    job.gpu = known_gpu("b200");
    const double before = step_time(job, constants).work;
    job.gpu.ultra = true;
    return before / step_time(job, constants).work;
  };
  // In fp4 the output layer alone, which is in bf16.
  EXPECT_GT(faster(Precision::kMxfp8) - 1, 2 * (faster(Precision::kNvfp4) - 1));
  EXPECT_GT(known_gpu("b300").fp4, known_gpu("b200").fp4);
}

TEST(StepTime, PaysForExpertsInOtherDomainsUnlessTheScheduleHidesThem) {
  Constants constants = known_constants("megatron");
  constants.expert_exposed = 0;
  const auto traffic = [&constants](const Job& job) { return step_time(job, constants).traffic; };
  Job near = expert_job();
  Job far = near;
  far.configuration.ep = 32;
  EXPECT_GT(traffic(far), 2 * traffic(near));
  far.gpu.domain = 32;
  EXPECT_LE(traffic(far), traffic(near));
  far.gpu.domain = 8;
  far.configuration.overlap_experts = true;
  EXPECT_LE(traffic(far), traffic(near));
  const double hidden = traffic(near);
  constants.expert_exposed = 1;
  EXPECT_GT(traffic(near), hidden);
  near.configuration.overlap_experts = true;
  EXPECT_LE(traffic(near), hidden);
}

/// Seconds that a step spends on traffic; data parallel traffic that can be hidden is.
double traffic_of(const Job& job) {
  Constants constants = known_constants("megatron");
  constants.data_exposed = 0;
  return step_time(job, constants).traffic;
}

TEST(StepTime, CopiesOfExpertsInOtherNodesMeetOverOneAdapter) {
  Job job = job_of("qwen3_235b_a22b");
  job.configuration.tp = job.configuration.pp = 1;
  job.configuration.ep = 8;  // a node full of them, so that each node has one copy of each
  job.configuration.zero = 3;
  Constants constants;
  constants.data_exposed = 1;
  const double weights = all_expert_weights(job.model) / job.configuration.ep;
  const double bytes = weights * (2 * 2 + job.configuration.gradient_bytes) * 7 / 8;
  const double least = micro_batches(job.configuration) * bytes / job.gpu.network;
  EXPECT_GT(step_time(job, constants).traffic, least);
}

TEST(StepTime, KeysAndValuesTravelBesideAttention) {
  Job near = job_of("llama3_8b");
  near.configuration.pp = 1;
  near.configuration.tp = near.configuration.cp = 8;
  near.gpu.domain = 64;
  Job far = near;
  far.gpu.domain = 8;
  EXPECT_GT(traffic_of(far), 1.2 * traffic_of(near));
  far.configuration.sequence = near.configuration.sequence = 131072;
  EXPECT_DOUBLE_EQ(traffic_of(far), traffic_of(near));
  far.configuration.megatron = near.configuration.megatron = false;  // gathers them before it can begin
  EXPECT_GT(traffic_of(far), traffic_of(near));
}

TEST(StepTime, TensorParallelRanksGatherWhatTheyCompute) {
  Job job = job_of("qwen3_30b_a3b");
  const double attention = traffic_of(job);  // each rank has whole experts
  job.configuration.expert_tp = 4;
  EXPECT_NEAR(traffic_of(job) / attention, 2, 1e-9);
  job.configuration.expert_tp = 1;
  job.model.shared_ffn = 768;
  EXPECT_NEAR(traffic_of(job) / attention, 2, 1e-9);
}

TEST(StepTime, CollectivesTakeTimeOfTheHost) {
  Constants constants;
  constants.matrix = constants.attention = constants.streaming = 1e9;  // a device that takes no time
  constants.layer = 0;
  const auto calls = [&constants](int tp, int cp, bool sequence_parallel) {
    Job job = job_of("llama3_70b");
    job.configuration.tp = tp;
    job.configuration.cp = cp;
    job.configuration.sequence_parallel = sequence_parallel;
    const int stage = job.model.layers / job.configuration.pp;
    const double layers = 1.0 * micro_batches(job.configuration) * stage;
    return step_time(job, constants).work / 35e-6 / layers;
  };
  EXPECT_NEAR(calls(1, 1, true), 0, 0.01);
  EXPECT_NEAR(calls(4, 1, false), 4, 0.01);
  EXPECT_NEAR(calls(4, 1, true), 8, 0.01);
  EXPECT_NEAR(calls(1, 4, true), 9, 0.01);
}

TEST(StepTime, AnInterleavedPipelineWaitsForSendsWhileItFills) {
  // How much longer pipelines take whose stages are in other nodes.
  const auto sending = [](int virtual_stages, int batch) {
    Job job = job_of("llama3_70b");
    job.configuration.virtual_stages = virtual_stages;
    job.configuration.global_batch = batch;
    const double far = step_time(job, known_constants("megatron")).bubble;
    job.gpu.network = 1e15;
    return far - step_time(job, known_constants("megatron")).bubble;
  };
  const double sent = sending(1, 256) / (64 + 4 - 2);
  EXPECT_NEAR(sending(5, 256) / sent, 2 * 3 + 4 * 4, 0.01);
  EXPECT_NEAR(sending(5, 512) / sent, 2 * 3 + 4 * 4, 0.01);
}

TEST(StepTime, WritesAndReadsWhatOperatorsThatAreNotFusedHandOn) {
  Job job = job_of("llama3_8b");
  job.configuration.tp = job.configuration.pp = 1;
  const Constants& constants = known_constants("torchtitan");
  job.configuration.compiled = false;
  const double eager = step_time(job, constants).work;
  job.configuration.compiled = true;
  EXPECT_GT(eager, 1.1 * step_time(job, constants).work);
}

TEST(StepTime, ReachesLessOfHopperWithTheFlashAttentionOfPyTorch) {
  // How much more a step takes with sequences that are four times as long, and as many tokens.
  const auto attention = [](const char* gpu, bool megatron) {
    Job job = job_of("llama3_8b");
    job.gpu = known_gpu(gpu);
    job.configuration.tp = job.configuration.pp = 1;
    job.configuration.micro_batch = 4;
    job.configuration.megatron = megatron;
    Constants constants;
    constants.sharpness = 20;
    const double without = step_time(job, constants).work;
    job.configuration.micro_batch = 1;
    job.configuration.sequence *= 4;
    job.configuration.global_batch /= 4;
    return (step_time(job, constants).work - without) * job.gpu.bf16;
  };
  EXPECT_NEAR(attention("a100", false) / attention("a100", true), 1, 0.001);
  EXPECT_NEAR(attention("h100", false) / attention("h100", true), 1 / 0.629, 0.001);
}

TEST(StepTime, ReadsTheWeightsOfExpertsForEveryMicroBatch) {
  // Twice the micro-batches of half the size: as many tokens, and the experts once more.
  Constants constants = known_constants("megatron");
  constants.layer = constants.moe_layer_node = constants.head = 0;
  Job large = expert_job();
  large.configuration.micro_batch = 2;
  const Job small = expert_job();
  const double weights = all_expert_weights(small.model) / small.configuration.ep;
  const double bytes = weights * (2 * 2 + 2 * 4);
  const double batches = micro_batches(large.configuration);
  const double rate = constants.streaming * small.gpu.bandwidth;
  // Two products of each, in three passes.
  const double products = 2.0 * 3 * small.model.moe_layers * small.model.experts / small.configuration.ep;
  const double expected = batches * (bytes / rate + products * 4e-6) / small.configuration.pp;
  const double more = step_time(small, constants).work - step_time(large, constants).work;
  EXPECT_NEAR(more / expected, 1, 0.001);
}

TEST(StepTime, IsThatOfTheFullestStage) {
  Job job = job_of("llama3_70b");
  job.configuration.gpus = 16;
  job.configuration.tp = 1;
  job.configuration.pp = 16;
  job.configuration.global_batch = 1024;
  const auto of = [&job](int layers) {
    job.model.layers = layers;
    return step_time(job, known_constants("megatron"));
  };
  // One layer more than comes out even: some stage has four of them, and the others wait for it.
  const StepTime uneven = of(49);
  EXPECT_GT(uneven.bubble, 0.2 * uneven.work);
  EXPECT_LT(uneven.total, of(64).total);
}

TEST(StepTime, AdaptersAreLaunchedWithTwoOfThreePasses) {
  Constants constants = known_constants("megatron");
  constants.layer = 1;  // all that counts
  Job job = job_of("llama3_70b");
  const double trained = step_time(job, constants).work;
  job.configuration.lora = true;
  EXPECT_NEAR(step_time(job, constants).work / trained, 2.0 / 3, 0.01);
}

TEST(StepTime, ExpertsInALoopAreLaunchedOneByOne) {
  Constants constants;
  constants.layer = 1;  // all that counts
  Job job = job_of("qwen3_30b_a3b");
  job.configuration.pp = 1;
  use_pytorch_modules(job);
  const double share = expert_share(job);
  EXPECT_GT(share, 0.1);
  EXPECT_LT(share, 0.5);
  const double alone = step_time(job, constants).work;
  job.configuration.ep = 8;
  EXPECT_NEAR(alone / step_time(job, constants).work, (1 + 128 * share) / (1 + 16 * share), 0.01);
  job.configuration.grouped_experts = true;
  EXPECT_LT(step_time(job, constants).work, 0.1 * alone);
}

TEST(StepTime, SoftmaxOfAnOddNumberOfHeadsIsLaunchedInPieces) {
  Constants constants = known_constants("megatron-deepspeed");
  constants.layer = 1;
  Job job = job_of("gpt_175b");
  job.configuration.flash_attention = false;
  job.configuration.tp = 16;  // six heads
  const double apart = step_time(job, constants).work;
  constants.unfused_softmax = 0;
  EXPECT_NEAR(apart / step_time(job, constants).work, 1.5525, 0.01);
  job.configuration.tp = 8;  // twelve
  const double whole = step_time(job, constants).work;
  constants.unfused_softmax = 1;
  EXPECT_DOUBLE_EQ(step_time(job, constants).work, whole);
}

TEST(StepTime, PaysForWindowsAsFarAsTheyReach) {
  Job job = job_of("llama3_8b");
  job.configuration.sequence = 32768;
  const double full = seconds(job);
  job.model.full_attention = 0;
  job.model.window = 32768;
  EXPECT_DOUBLE_EQ(seconds(job), full);
  job.model.window = 4096;
  const double windowed = seconds(job);
  job.model.window = 1;
  const double hardly = seconds(job);
  EXPECT_NEAR((windowed - hardly) / (full - hardly), 2.0 / 8, 0.02);
  job.configuration.flash_attention = false;  // which computes all scores and masks most
  const double masked = seconds(job);
  job.model.full_attention = 1;
  EXPECT_DOUBLE_EQ(seconds(job), masked);
}

}  // namespace
}  // namespace stweaver
