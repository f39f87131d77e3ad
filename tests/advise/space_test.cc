#include "advise/space.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base.h"
#include "pareto/pareto.h"

namespace stweaver {
namespace {

Space space_of(const char* model, int gpus) {
  Space space;
  space.model = known_model(model);
  space.gpu = known_gpu("h100");
  space.gpus = gpus;
  space.sequence = 8192;
  space.global_batch = 96;
  return space;
}

TEST(Grid, VisitsWhatCanRunAndCountsIt) {
  const Grid grid(space_of("qwen3_30b_a3b", 24));
  std::int64_t visits = 0;
  std::set<int> gpus;
  std::set<Recompute> recomputes;
  EXPECT_TRUE(grid.for_each([&](const Job& job) {
    EXPECT_EQ(why_not(job), "");
    gpus.insert(job.configuration.gpus);
    recomputes.insert(job.configuration.recompute);
    ++visits;
    return true;
  }));
  EXPECT_EQ(gpus, (std::set<int>{1, 2, 4, 8, 16, 24}));
  EXPECT_EQ(recomputes, (std::set<Recompute>{Recompute::kNone, Recompute::kSelective, Recompute::kFull}));
  EXPECT_EQ(grid.count(visits + 1), visits);
  EXPECT_EQ(grid.count(10), 10);
}

TEST(Grid, EndsWhenItIsToldTo) {
  int visits = 0;
  EXPECT_FALSE(Grid(space_of("llama3_8b", 8)).for_each([&](const Job&) { return ++visits < 3; }));
  EXPECT_EQ(visits, 3);
}

TEST(Grid, MendsWhatCannotRunAndLeavesTheRestAlone) {
  const Grid grid(space_of("qwen3_30b_a3b", 24));
  const std::vector<pareto::Variable> variables = grid.variables();
  pareto::Random random(5);
  int mended = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> point;
    for (const pareto::Variable& variable : variables)
      point.push_back(static_cast<double>(random.below(static_cast<std::size_t>(variable.upper) + 1)));
    const std::vector<double> before = point;
    grid.repair(point);
    if (point != before) ++mended;
    EXPECT_EQ(why_not(grid.job_of(point)), "");
    const std::vector<double> once = point;
    grid.repair(point);
    EXPECT_EQ(point, once);
  }
  EXPECT_GT(mended, 1000);
}

TEST(Grid, HoldsToWhatIsFixedAndRefusesWhatIsNoParameter) {
  Space space = space_of("llama3_8b", 16);
  space.fixed = {{"tp", "4"}, {"gpus", "16"}, {"recompute", "full"}};
  EXPECT_TRUE(Grid(space).for_each([](const Job& job) {
    return job.configuration.tp == 4 && job.configuration.gpus == 16 &&
           job.configuration.recompute == Recompute::kFull && job.configuration.recompute_layers > 0;
  }));
  space.fixed = {{"speed", "1"}};
  EXPECT_THAT([&] { (void)Grid(space); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("no such parameter")));
  for (const char* name : {"gpus", "tp", "cp", "pp", "dp", "mbs", "vp", "ep"}) {
    space.fixed = {{name, "0"}};
    EXPECT_EQ(Grid(space).count(1), 0) << name;
  }
}

TEST(Grid, SaysWhichGivenParameterNothingGoesWithAndWhatItCouldBe) {
  Space space = space_of("llama3_8b", 16);
  const auto why_none_with = [&](const std::map<std::string, std::string>& fixed) {
    space.fixed = fixed;
    return why_none(space);
  };
  EXPECT_EQ(why_none_with({}), "");
  EXPECT_EQ(why_none_with({{"gpus", "0"}}), "gpus=0: no configuration has it here; it can be 1 2 4 8 16");
  EXPECT_EQ(why_none_with({{"tp", "3"}}), "tp=3: no configuration has it here; it can be 1 2 4 8");
  EXPECT_EQ(why_none_with({{"dp", "8"}, {"gpus", "3"}}),
            "dp=8: no configuration has it here; it can be 3, or gpus 8 16");
  EXPECT_EQ(why_none_with({{"recompute", "none"}, {"recompute_layers", "5"}}),
            "recompute=none: no configuration has it here; it can be full, or recompute_layers 0");
  EXPECT_EQ(why_none_with({{"mbs", "7"}, {"tp", "5"}}), "no configuration can run with mbs=7 tp=5");
}

TEST(Grid, ReachesOtherNumbersOfGpusByOneParameterAlone) {
  const Grid grid(space_of("llama3_8b", 96));
  const std::vector<Parameter>& parameters = grid.parameters();
  const auto dp = static_cast<std::size_t>(
      std::find_if(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.name == "dp"; }) -
      parameters.begin());
  std::vector<double> point(parameters.size(), 0);
  std::set<int> gpus;
  for (std::size_t i = 0; i < parameters[dp].values.size(); ++i) {
    point[dp] = static_cast<double>(i);
    grid.repair(point);
    gpus.insert(grid.job_of(point).configuration.gpus);
  }
  EXPECT_EQ(gpus, (std::set<int>{1, 2, 4, 8, 16, 24, 32, 48, 96}));  // what a batch of 96 can be split into
}

TEST(Grid, HasWholeNodesOfTheSizeThatTheyHave) {
  Space space = space_of("llama3_8b", 18);
  space.gpu.domain = 6;
  space.global_batch = 72;
  std::set<int> gpus;
  int widest = 0;
  Grid(space).for_each([&](const Job& job) {
    gpus.insert(job.configuration.gpus);
    widest = std::max(widest, job.configuration.tp);
    return true;
  });
  EXPECT_EQ(gpus, (std::set<int>{1, 2, 4, 6, 12, 18}));
  EXPECT_EQ(widest, 4);
  space.fixed = {{"tp", "4"}, {"gpus", "12"}};
  EXPECT_EQ(Grid(space).count(1), 0) << "the second group would be in two nodes";
}

TEST(Grid, HasPipelinesThatDoNotDivideTheLayersAsTheyAreSharedOut) {
  Space space = space_of("llama31_405b", 64);
  space.fixed = {{"tp", "1"}, {"cp", "1"}, {"gpus", "64"}};
  space.global_batch = 64;
  std::set<int> stages;
  EXPECT_TRUE(Grid(space).for_each([&](const Job& job) {
    const Configuration& how = job.configuration;
    int layers = 0;
    for (int stage = 0; stage < how.pp; ++stage) layers += stage_layers(job, stage);
    EXPECT_EQ(layers, 126);
    EXPECT_EQ(how.first_layers > 0, 126 % how.pp != 0);
    EXPECT_EQ(how.last_layers > 0, 126 % how.pp != 0);
    stages.insert(how.pp);
    return true;
  }));
  EXPECT_EQ(stages, (std::set<int>{1, 2, 4, 8, 16, 32, 64}));
  space.model.layers = 61;
  space.fixed["pp"] = "32";
  EXPECT_EQ(Grid(space).count(1), 0) << "thirty stages of two leave one layer for the first and the last";
}

TEST(Grid, HasVirtualStagesWhereTheEndsTakeThePlaceOfALayer) {
  const auto chunks = [](const char* model, const char* stages) {
    Space space = space_of(model, 64);
    space.fixed = {{"tp", "1"}, {"cp", "1"}, {"gpus", "64"}, {"pp", stages}};
    space.global_batch = 512;
    std::set<int> found;
    Grid(space).for_each([&](const Job& job) {
      found.insert(job.configuration.virtual_stages);
      return true;
    });
    return found;
  };
  EXPECT_EQ(chunks("llama31_405b", "8"), (std::set<int>{1, 2, 4, 8, 16}));           // of 126 layers and two
  EXPECT_EQ(chunks("qwen3_235b_a22b", "4"), (std::set<int>{1, 2, 3, 4, 6, 8, 12}));  // of 94 and two
  EXPECT_EQ(chunks("qwen3_235b_a22b", "2"), (std::set<int>{1}));  // which stages of 47 are not
}

TEST(Grid, SplitsKeysByWholeHeadsUnlessTheyAreLatent) {
  Space space = space_of("llama3_8b", 8);
  space.model.kv_heads = 2;
  const auto widest = [&] {
    int most = 0;
    Grid(space).for_each([&](const Job& job) {
      most = std::max(most, job.configuration.tp);
      return true;
    });
    return most;
  };
  EXPECT_EQ(widest(), 2);
  space.model.kv_lora = 512;
  EXPECT_EQ(widest(), 8);
}

TEST(Grid, SplitsSequencesAsRanksShareThem) {
  Space space = space_of("llama3_8b", 16);
  space.sequence = 32768 + 4;  // 8193 pieces of four
  std::set<std::pair<int, int>> groups;
  Grid(space).for_each([&](const Job& job) {
    groups.emplace(job.configuration.tp, job.configuration.cp);
    return true;
  });
  EXPECT_EQ(groups, (std::set<std::pair<int, int>>{{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}}));
}

TEST(Grid, SplitsLongSequencesFurtherButNotThoseOfAttentionWithSinks) {
  const auto widest = [](const char* model, int sequence) {
    Space space = space_of(model, 64);
    space.sequence = sequence;
    int most = 0;
    Grid(space).for_each([&](const Job& job) {
      most = std::max(most, job.configuration.cp);
      return true;
    });
    return most;
  };
  EXPECT_EQ(widest("llama3_8b", 8192), 2);
  EXPECT_EQ(widest("llama3_8b", 1 << 20), 64);
  EXPECT_EQ(widest("gpt_oss_20b", 32768), 1);
}

TEST(Grid, SaysThatNoSoftwareRunsThePrecision) {
  Space space = space_of("llama3_8b", 8);
  space.precision = Precision::kFp8;
  space.runs = [](const Job& job) { return job.configuration.precision == Precision::kBf16; };
  EXPECT_EQ(why_none(space), "no software that is named runs fp8 here; it can be bf16");
}

TEST(Grid, HasNoPrecisionWithoutUnits) {
  Space space = space_of("llama3_8b", 8);
  space.precision = Precision::kMxfp8;
  EXPECT_THAT([&] { (void)Grid(space); }, testing::ThrowsMessage<Error>(testing::HasSubstr("no units")));
  space.gpu = known_gpu("b200");
  EXPECT_GT(Grid(space).count(1), 0);
}

TEST(Grid, HasNoMoreGpusThanThereAreAndNoOtherStatesOnTheHostThanSomeOrNone) {
  Space space = space_of("llama3_8b", 8);
  space.fixed = {{"gpus", "16"}};
  EXPECT_EQ(why_none(space), "gpus=16: no configuration has it here; it can be 1 2 4 8");
  space.fixed = {{"offload", "7"}};
  EXPECT_THAT([&] { (void)Grid(space); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("offload=7: it can be 0 1")));
}

TEST(UsualBatch, IsOfFourMillionTokensOrTheNearestThatAllGpusShare) {
  EXPECT_EQ(usual_batch(64, 8192), 512);
  EXPECT_EQ(usual_batch(64, 131072), 32);
  EXPECT_EQ(usual_batch(24, 8192), 384);
  EXPECT_EQ(usual_batch(64, 6000), 512) << "and not 699, which is 3 x 233";
  EXPECT_EQ(usual_batch(96, 131072), 24);
  EXPECT_EQ(usual_batch(7, 1 << 22), 7);
  EXPECT_EQ(usual_batch(8, 1 << 24), 1);
}

TEST(Grid, HasPipelinesWithAShorterLastStage) {
  Space space = space_of("llama3_8b", 8);
  space.fixed = {{"pp", "4"}, {"tp", "1"}, {"cp", "1"}, {"gpus", "8"}};
  std::set<std::tuple<bool, int, int>> seen;
  Grid(space).for_each([&](const Job& job) {
    const Configuration& how = job.configuration;
    seen.emplace(how.short_last, how.last_layers, how.virtual_stages > 1);
    return true;
  });
  EXPECT_EQ(seen, (std::set<std::tuple<bool, int, int>>{{false, 0, 0}, {false, 0, 1}, {true, 6, 0}}));
  space.modules = Modules::kPyTorch;
  Grid(space).for_each([&](const Job& job) {
    EXPECT_FALSE(job.configuration.short_last);
    return true;
  });
}

TEST(JobNamed, SharesLayersOutAsTheSpaceDoes) {
  Space space = space_of("llama31_405b", 16);
  EXPECT_EQ(job_named(space, {{"pp", "16"}, {"global_batch", "32"}}).configuration.first_layers, 7);
}

TEST(JobNamed, HasAShorterLastStageWhereThatMakesOneFaster) {
  const Space space = space_of("llama3_8b", 16);
  const auto last = [&](std::map<std::string, std::string> values) {
    values["short_last"] = "1";
    return job_named(space, values).configuration.last_layers;
  };
  EXPECT_EQ(last({{"pp", "4"}}), 6);
  const auto without = [&] { last({{"pp", "1"}}); };
  EXPECT_THAT(without, testing::ThrowsMessage<Error>(testing::HasSubstr("short_last=1: no stage of pp=1")));
  const auto chunks = [&] { last({{"pp", "4"}, {"vp", "2"}}); };
  EXPECT_THAT(chunks,
              testing::ThrowsMessage<Error>(testing::HasSubstr("short_last=1: no stage of pp=4 vp=2")));
  const auto twice = [] { value_named("short_last", "2"); };
  EXPECT_THAT(twice, testing::ThrowsMessage<Error>(testing::HasSubstr("it can be 0 1")));
}

TEST(JobNamed, IsWhatIsNamedAndNothingElse) {
  const Space space = space_of("llama3_8b", 16);
  const Job job = job_named(space, {{"pp", "4"}, {"recompute", "full"}, {"global_batch", "32"}});
  EXPECT_EQ(job.configuration.gpus, 16);
  EXPECT_EQ(job.configuration.pp, 4);
  EXPECT_EQ(job.configuration.recompute, Recompute::kFull);
  EXPECT_EQ(job.configuration.global_batch, 32);
  EXPECT_EQ(job.configuration.tp, 1);
  EXPECT_EQ(job_named(space, {{"tp", "2"}, {"dp", "4"}}).configuration.gpus, 8);
  EXPECT_THAT(
      [&] {
        (void)job_named(space, {{"tp", "2"}, {"dp", "4"}, {"gpus", "16"}});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("gpus=16: tp x cp x pp x dp are 8")));
  EXPECT_THROW(job_named(space, {{"tp", "16777216"}, {"pp", "16777216"}, {"dp", "16777216"}}), Error);
  EXPECT_THROW(job_named(space, {{"pq", "4"}}), Error);
  EXPECT_THROW(job_named(space, {{"pp", "x"}}), Error);
  EXPECT_THROW(job_named(space, {{"pp", "3"}}), Error);
}

TEST(Links, AreKnownByName) {
  const Gpu& gpu = known_gpu("h100");
  EXPECT_EQ(link_named("nvlink", gpu), gpu.link);
  EXPECT_NEAR(link_named("pcie4", gpu), 31.5e9, 0.1e9);
  EXPECT_THROW(link_named("pcie", gpu), Error);
}

}  // namespace
}  // namespace stweaver
