#include "advise/frameworks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stweaver {
namespace {

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

TEST(MegatronArguments, NameTheLayersThatAreRecomputed) {
  Job job = job_of(8);
  job.configuration.tp = 2;
  job.configuration.pp = 2;
  job.configuration.recompute = Recompute::kFull;
  job.configuration.recompute_layers = 3;
  EXPECT_THAT(megatron_arguments(job), HasSubstr("--recompute-method block --recompute-num-layers 3"));
  job.configuration.recompute_layers = 0;
  EXPECT_THAT(megatron_arguments(job), HasSubstr("--recompute-num-layers 16"));
}

TEST(MegatronArguments, HideExpertsTrafficWhereTheScheduleCan) {
  Job job = job_of(16);
  job.model = known_model("qwen3_30b_a3b");
  job.configuration.pp = 2;
  job.configuration.ep = 8;
  EXPECT_THAT(megatron_arguments(job), Not(HasSubstr("--overlap-moe-expert-parallel-comm")));
  job.configuration.virtual_stages = 2;
  EXPECT_THAT(megatron_arguments(job), HasSubstr("--overlap-moe-expert-parallel-comm"));
  job.configuration.recompute = Recompute::kFull;
  EXPECT_THAT(megatron_arguments(job), Not(HasSubstr("--overlap-moe-expert-parallel-comm")));
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
  EXPECT_THAT(*torchtitan_arguments(job), HasSubstr("--activation_checkpoint.mode full"));
  job.configuration.recompute_layers = 3;
  EXPECT_FALSE(torchtitan_arguments(job));
}

TEST(DeepspeedConfiguration, IsOfDataParallelJobs) {
  Job job = job_of(8);
  job.configuration.zero = 3;
  job.configuration.offload_optimizer = true;
  ASSERT_TRUE(deepspeed_configuration(job));
  EXPECT_EQ(*deepspeed_configuration(job),
            R"({"train_batch_size":64,"train_micro_batch_size_per_gpu":2,"gradient_accumulation_steps":4,)"
            R"("bf16":{"enabled":true},"zero_optimization":{"stage":3,"overlap_comm":true,)"
            R"("offload_optimizer":{"device":"cpu","pin_memory":true}}})");
  job.configuration.tp = 2;
  EXPECT_FALSE(deepspeed_configuration(job));
}

}  // namespace
}  // namespace stweaver
