#include "advise/time.h"

#include <gtest/gtest.h>

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
  const double without = seconds(job);
  job.configuration.recompute = Recompute::kSelective;
  const double selective = seconds(job);
  job.configuration.recompute = Recompute::kFull;
  EXPECT_LT(without, selective);
  EXPECT_LT(selective, seconds(job));
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

TEST(StepTime, PaysForLinksBetweenDomains) {
  Job near = job_of("llama3_8b");
  near.configuration.pp = 1;
  near.configuration.tp = 16;
  Job far = near;
  near.gpu.domain = 64;
  EXPECT_GT(seconds(far), seconds(near));
}

}  // namespace
}  // namespace stweaver
