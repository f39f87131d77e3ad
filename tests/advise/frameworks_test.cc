#include "advise/frameworks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stweaver {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

Job job_of(int gpus) {
  Job job{.model = known_model("llama3_8b"), .gpu = known_gpu("h100"), .configuration = {}};
  job.configuration.gpus = gpus;
  job.configuration.global_batch = 64;
  job.configuration.sequence = 4096;
  job.configuration.micro_batch = 2;
  return job;
}

std::string megatron_line(const Job& job) {
  return megatron_arguments(job).value_or("none");
}

Job mixture_job() {
  Job job = job_of(16);
  job.model = known_model("qwen3_30b_a3b");
  return job;
}

TEST(MegatronArguments, NameTheLayersThatAreRecomputed) {
  Job job = job_of(8);
  job.configuration.tp = 2;
  job.configuration.pp = 2;
  job.configuration.recompute = Recompute::kFull;
  job.configuration.recompute_layers = 3;
  EXPECT_THAT(megatron_line(job), HasSubstr("--recompute-method block --recompute-num-layers 3"));
  job.configuration.recompute_layers = 0;
  EXPECT_THAT(megatron_line(job), HasSubstr("--recompute-num-layers 16"));
}

TEST(MegatronArguments, HideExpertsTrafficWhereTheScheduleCan) {
  Job job = mixture_job();
  job.configuration.pp = 2;
  job.configuration.ep = 8;
  EXPECT_FALSE(can_overlap_experts(job));
  EXPECT_THAT(megatron_line(job), Not(HasSubstr("--overlap-moe-expert-parallel-comm")));
  job.configuration.virtual_stages = 2;
  EXPECT_TRUE(can_overlap_experts(job));
  job.configuration.overlap_experts = true;
  EXPECT_THAT(megatron_line(job), HasSubstr("--overlap-moe-expert-parallel-comm"));
  job.model.mtp_layers = 2;
  EXPECT_FALSE(can_overlap_experts(job));
  job.model.mtp_layers = 0;
  job.configuration.recompute = Recompute::kFull;
  EXPECT_FALSE(can_overlap_experts(job));
}

TEST(MegatronArguments, GatherKeysWhereWindowsHaveNoRing) {
  Job job = job_of(8);
  job.configuration.cp = 2;
  EXPECT_THAT(megatron_line(job), Not(HasSubstr("--cp-comm-type")));
  job.model.window = 1024;
  job.model.full_attention = 0.5;
  EXPECT_THAT(megatron_line(job), HasSubstr("--context-parallel-size 2 --cp-comm-type all_gather"));
}

TEST(MegatronArguments, SayToFsdpWhatItInsistsOn) {
  Job job = job_of(8);
  EXPECT_THAT(megatron_line(job), HasSubstr("--overlap-param-gather --use-distributed-optimizer"));
  EXPECT_THAT(megatron_line(job), Not(HasSubstr("--ckpt-format")));
  EXPECT_THAT(megatron_line(job), Not(HasSubstr("meta-device")));
  job.configuration.zero = 3;
  EXPECT_THAT(megatron_line(job), HasSubstr("--use-megatron-fsdp"));
  EXPECT_THAT(megatron_line(job), HasSubstr("--ckpt-format fsdp_dtensor"));
  EXPECT_THAT(megatron_line(job), HasSubstr("--init-model-with-meta-device"));
  EXPECT_THAT(megatron_line(job), HasSubstr("--use-distributed-optimizer"));
}

TEST(MegatronArguments, KeepStatesOnTheHostWithTheOptimizerThatCan) {
  Job job = job_of(8);
  EXPECT_THAT(megatron_line(job), Not(HasSubstr("--use-precision-aware-optimizer")));
  job.configuration.offload_optimizer = true;
  EXPECT_THAT(megatron_line(job), HasSubstr("--use-precision-aware-optimizer --optimizer-cpu-offload"));
  EXPECT_THAT(megatron_line(job), HasSubstr("--use-distributed-optimizer"));
  for (const int zero : {0, 3}) {
    job.configuration.zero = zero;
    EXPECT_FALSE(megatron_arguments(job)) << zero;
  }
}

TEST(MegatronArguments, ShareNothingWhereNothingIsShared) {
  Job job = job_of(8);
  job.configuration.zero = 0;
  EXPECT_THAT(megatron_line(job), HasSubstr("--overlap-grad-reduce"));
  EXPECT_THAT(megatron_line(job), Not(HasSubstr("--use-distributed-optimizer")));
  EXPECT_THAT(megatron_line(job), Not(HasSubstr("--overlap-param-gather")));
}

TEST(MegatronArguments, AreNoneForWhatItCannotDo) {
  const auto none_with = [](const auto& change) {
    Job job = job_of(8);
    change(job.configuration);
    return !megatron_arguments(job);
  };
  EXPECT_FALSE(none_with([](Configuration&) {}));
  EXPECT_TRUE(none_with([](Configuration& how) { how.zero = 2; }));
  EXPECT_TRUE(none_with([](Configuration& how) { how.recompute = Recompute::kOperators; }));
  EXPECT_TRUE(none_with([](Configuration& how) { how.precision = Precision::kFp8Rowwise; }));
}

TEST(MegatronArguments, SayHowLayersAreSharedOutWhereTheyAreNotAlike) {
  Job job = job_of(16);
  job.configuration.pp = 8;
  ASSERT_TRUE(share_out_layers(job));
  EXPECT_THAT(megatron_line(job), Not(HasSubstr("pipeline-num-layers")));
  job.model.layers = 61;
  ASSERT_TRUE(share_out_layers(job));
  EXPECT_THAT(megatron_line(job),
              HasSubstr("--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 6"));
  job.configuration.short_last = true;
  ASSERT_TRUE(share_out_layers(job));
  EXPECT_THAT(megatron_line(job), HasSubstr(" --decoder-last-pipeline-num-layers 5"));
  job.configuration.short_last = false;
  job.model.layers = 62;
  job.configuration.virtual_stages = 4;
  ASSERT_TRUE(share_out_layers(job));
  EXPECT_THAT(megatron_line(job), HasSubstr("--num-layers-per-virtual-pipeline-stage 2 "
                                            "--account-for-embedding-in-pipeline-split "
                                            "--account-for-loss-in-pipeline-split"));
  EXPECT_THAT(megatron_line(job), Not(HasSubstr("decoder-first")));
}

TEST(MegatronArguments, NameTheRecipeOfAPrecision) {
  const auto line = [](Precision precision) {
    Job job = job_of(8);
    job.configuration.precision = precision;
    return megatron_line(job);
  };
  EXPECT_THAT(line(Precision::kBf16), AllOf(HasSubstr("--bf16"), Not(HasSubstr("--fp"))));
  EXPECT_THAT(line(Precision::kFp8), HasSubstr("--bf16 --fp8-format hybrid --fp8-recipe tensorwise"));
  EXPECT_THAT(line(Precision::kMxfp8), HasSubstr("--fp8-recipe mxfp8"));
  EXPECT_THAT(line(Precision::kNvfp4), AllOf(HasSubstr("--fp4-format e2m1"), Not(HasSubstr("--fp8"))));
}

TEST(MegatronArguments, RunExpertsAsTheModelHasThem) {
  constexpr const char* kExperts =
      "--expert-tensor-parallel-size 1 --moe-grouped-gemm --moe-token-dispatcher-type alltoall";
  Job job = mixture_job();
  EXPECT_THAT(megatron_line(job), AllOf(HasSubstr(kExperts), Not(HasSubstr("--expert-model-parallel"))));
  job.configuration.ep = 8;
  EXPECT_THAT(megatron_line(job), AllOf(HasSubstr(kExperts), HasSubstr("--expert-model-parallel-size 8")));
  EXPECT_THAT(megatron_line(job_of(16)), Not(HasSubstr("moe")));
}

TEST(MegatronArguments, RecomputeTheModulesThatItKnows) {
  const auto line = [](const char* model) {
    Job job = job_of(16);
    job.model = known_model(model);
    job.configuration.recompute = Recompute::kSelective;
    return megatron_line(job);
  };
  EXPECT_EQ(line("llama3_8b"), "none");  // its norms are a part of products, and it has no scores
  for (const char* model : {"qwen3_30b_a3b", "deepseek_v3"})
    EXPECT_THAT(line(model), HasSubstr("selective --recompute-modules layernorm moe_act --bf16")) << model;
}

TEST(TorchtitanArguments, SayWhatFsdpCanDo) {
  Job job = job_of(8);
  EXPECT_FALSE(torchtitan_arguments(job));  // optimizer states alone
  job.configuration.zero = 3;
  job.configuration.tp = 2;
  ASSERT_TRUE(torchtitan_arguments(job));
  EXPECT_THAT(*torchtitan_arguments(job), HasSubstr("--parallelism.data_parallel_shard_degree 4 "));
  EXPECT_THAT(*torchtitan_arguments(job), HasSubstr("--training.local_batch_size 2 "));
  job.configuration.recompute = Recompute::kFull;
  EXPECT_THAT(*torchtitan_arguments(job),
              EndsWith(" --training.disable_cuda_graphs activation-checkpoint:full"));
  job.configuration.recompute_layers = 3;
  EXPECT_FALSE(torchtitan_arguments(job));
  job.configuration.recompute = Recompute::kSelective;  // norms and activation functions alone
  EXPECT_FALSE(torchtitan_arguments(job));
  job.configuration.recompute = Recompute::kOperators;
  EXPECT_THAT(*torchtitan_arguments(job), EndsWith(" activation-checkpoint:selective"));
}

TEST(DeepspeedConfiguration, IsOfDataParallelJobs) {
  Job job = job_of(8);
  job.configuration.zero = 3;
  job.configuration.offload_optimizer = true;
  ASSERT_TRUE(deepspeed_configuration(job));
  EXPECT_EQ(*deepspeed_configuration(job),
            R"({"train_batch_size":64,"train_micro_batch_size_per_gpu":2,"gradient_accumulation_steps":4,)"
            R"("bf16":{"enabled":true},"zero_optimization":{"stage":3,"overlap_comm":true,)"
            R"("offload_optimizer":{"device":"cpu","pin_memory":true}},)"
            R"("data_types":{"grad_accum_dtype":"fp32"}})");
  job.configuration.gradient_bytes = 2;
  EXPECT_THAT(*deepspeed_configuration(job), Not(HasSubstr("data_types")));
  job.configuration.zero = 0;
  EXPECT_FALSE(deepspeed_configuration(job)) << "states that nobody shares stay on the device";
  job.configuration.offload_optimizer = false;
  EXPECT_TRUE(deepspeed_configuration(job));
  job.configuration.tp = 2;
  EXPECT_FALSE(deepspeed_configuration(job));
}

}  // namespace
}  // namespace stweaver
