#include "advise/configuration.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base.h"

namespace stweaver {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Job staged_job(int layers, int pp) {
  Job job{.model = known_model("llama3_8b"), .gpu = known_gpu("h100"), .configuration = {}};
  job.model.layers = layers;
  job.configuration.gpus = job.configuration.pp = pp;
  job.configuration.global_batch = pp;
  job.configuration.sequence = 4096;
  return job;
}

/// Layers of each stage once they are shared out; none where they cannot be, or where fewer in the last make
/// no stage faster.
std::vector<int> shared_out(int layers, int pp, bool short_last = false) {
  Job job = staged_job(layers, pp);
  job.configuration.short_last = short_last;
  std::vector<int> stages;
  if (!share_out_layers(job)) return stages;
  EXPECT_EQ(why_not(job), "");
  for (int stage = 0; stage < pp; ++stage) stages.push_back(stage_layers(job, stage));
  return stages;
}

TEST(Layers, AreSharedOutEquallyWhereTheyComeOutEven) {
  EXPECT_EQ(shared_out(32, 1), (std::vector<int>{32}));
  EXPECT_EQ(shared_out(32, 4), (std::vector<int>{8, 8, 8, 8}));
  Job job = staged_job(32, 4);
  job.configuration.first_layers = 3;
  share_out_layers(job);
  EXPECT_EQ(job.configuration.first_layers, 0);
}

TEST(Layers, LeaveTheRestToTheFirstAndTheLastStage) {
  EXPECT_EQ(shared_out(61, 2), (std::vector<int>{31, 30}));
  EXPECT_EQ(shared_out(61, 4), (std::vector<int>{15, 16, 16, 14}));
  EXPECT_EQ(shared_out(61, 8), (std::vector<int>{7, 8, 8, 8, 8, 8, 8, 6}));
  for (const int pp : {2, 4, 5, 8, 16, 64}) {
    const std::vector<int> stages = shared_out(126, pp);
    ASSERT_EQ(stages.size(), pp);
    EXPECT_EQ(std::accumulate(stages.begin(), stages.end(), 0), 126);
  }
}

TEST(Layers, AreFewerInTheLastStageForItsOutputLayerWhereThatIsAskedFor) {
  EXPECT_EQ(shared_out(32, 2, true), (std::vector<int>{17, 15}));
  EXPECT_EQ(shared_out(32, 4, true), (std::vector<int>{8, 9, 9, 6}));
  EXPECT_EQ(shared_out(33, 4, true), (std::vector<int>{9, 9, 9, 6}));
  const auto chunk = [](int pp, bool short_last) {
    Job job = staged_job(32, pp);
    job.configuration.short_last = short_last;
    EXPECT_TRUE(share_out_layers(job));
    return chunk_layers(job);
  };
  EXPECT_EQ(chunk(4, false), 8);
  EXPECT_EQ(chunk(4, true), 9) << "all of which may be recomputed";
  EXPECT_EQ(chunk(2, true), 17);
}

TEST(Layers, AreNoFewerInTheLastStageWhereNoStageGetsFaster) {
  const auto refused = [](int layers, const std::function<void(Job&)>& change) {
    Job job = staged_job(layers, 4);
    job.configuration.short_last = true;
    change(job);
    EXPECT_FALSE(share_out_layers(job));
    EXPECT_EQ(job.configuration.first_layers, 0);
    EXPECT_EQ(job.configuration.last_layers, 0);
  };
  for (const int layers : {32, 33}) {
    refused(layers, [](Job& job) { job.model.vocabulary = 512; });  // no output layer to speak of
    refused(layers, [](Job& job) { job.configuration.virtual_stages = 2; });
    refused(layers, [](Job& job) { job.configuration.pp = 1; });
    refused(layers, use_pytorch_modules);
  }
}

/// The layers that the slowest stage takes the time of, by products alone.
double slowest_of(const std::vector<int>& stages) {
  const double layer = 2 * 4096.0 * 4096 + 2 * 4096.0 * 1024 + 3 * 4096.0 * 14336 + 4096.0 * 4096;
  const double tail = 4096.0 * 128256 / layer;
  return std::max<double>(*std::max_element(stages.begin(), stages.end()), stages.back() + tail);
}

TEST(Layers, AreSharedOutSoThatTheSlowestStageIsTheFastest) {
  for (int pp = 2; pp <= 12; ++pp) {
    for (int layers = 2 * pp; layers <= 70; ++layers) {
      const std::vector<int> shorter = shared_out(layers, pp, true);
      const std::vector<int> stages = shorter.empty() ? shared_out(layers, pp) : shorter;
      if (stages.empty()) continue;
      const double slowest = slowest_of(stages);
      for (int first = 1; first < layers; ++first) {
        for (int last = 1; first + last <= layers; ++last) {
          const int between = layers - first - last;
          if (pp == 2 ? between != 0 : between == 0 || between % (pp - 2) != 0) continue;
          const int each = pp == 2 ? first : between / (pp - 2);
          if (first > each) continue;  // where the most micro-batches are kept
          EXPECT_LE(slowest, slowest_of({first, each, last}) + 1e-9)
              << layers << " on " << pp << ": " << first << ", " << last;
        }
      }
    }
  }
}

TEST(Layers, AreNotSharedOutOverMoreStagesThanTheyFill) {
  EXPECT_EQ(shared_out(61, 32), std::vector<int>{});  // thirty of two leave one
  EXPECT_EQ(shared_out(3, 4), std::vector<int>{});
  Job job = staged_job(61, 4);
  job.configuration.pp = 0;
  EXPECT_FALSE(share_out_layers(job));
}

TEST(Precisions, AreThoseThatTheGpuHasUnitsFor) {
  const auto require = [](const char* gpu, Precision precision) {
    return [=] { require_units(known_gpu(gpu), precision); };
  };
  for (const char* gpu : {"a100", "a800"}) {
    EXPECT_NO_THROW(require(gpu, Precision::kBf16)()) << gpu;
    for (const Precision narrow : {Precision::kFp8, Precision::kFp8Rowwise, Precision::kMxfp8})
      EXPECT_THAT(require(gpu, narrow), ThrowsMessage<Error>(HasSubstr("it can be bf16"))) << gpu;
  }
  EXPECT_NO_THROW(require("h100", Precision::kFp8)());
  for (const Precision narrow : {Precision::kMxfp8, Precision::kNvfp4})
    EXPECT_THAT(require("h100", narrow), ThrowsMessage<Error>(HasSubstr("it can be bf16 fp8 fp8-rowwise")));
  for (const char* gpu : {"b200", "gb300"}) EXPECT_NO_THROW(require(gpu, Precision::kNvfp4)()) << gpu;
}

TEST(Precisions, AreKnownByAnyCase) {
  EXPECT_EQ(precision_named("BF16"), Precision::kBf16);
  EXPECT_EQ(precision_named("NvFP4"), Precision::kNvfp4);
  EXPECT_THROW(precision_named("fp5"), Error);
}

}  // namespace
}  // namespace stweaver
