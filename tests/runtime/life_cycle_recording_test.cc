// What is recorded, and for how long.
#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "archive/archive.h"
#include "support/files.h"
#include "support/life_cycle.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(LifeCycleTest, FollowsNoPlanOfTwoStepsThatAreAlikeByChance) {
  // Recording begins late, for a plan is followed at first that has nothing to do with the job.
  Plan foreign;
  for (Time i = 0; i < 4; ++i) foreign.slots.push_back({.size = 3 * kMiB + 512, .offset = 0, .death = i + 1});
  foreign.arena = foreign.lower_bound = 3 * kMiB + 512;
  const auto stage_after = [&](const std::vector<Bytes>& scales) {
    RuntimeAllocator fresh(device, upstream);
    Program job(fresh);
    LifeCycle life(fresh, options(), foreign);
    job.build();
    for (const Bytes scale : scales) {
      life.begin_step();
      job.step(scale);
      life.wait_for_planner();
    }
    return life.stage();
  };
  EXPECT_EQ(stage_after({16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16}), Stage::kFollowing);
  EXPECT_EQ(stage_after({24, 12, 20, 28, 14, 22, 18, 26, 16, 16, 16, 16}), Stage::kPlanning);
  std::vector<Bytes> scales = {24, 12, 20, 28, 14, 22, 18, 26};
  scales.resize(scales.size() + 14, 16);
  EXPECT_EQ(stage_after(scales), Stage::kFollowing);
}

TEST_F(LifeCycleTest, WhereStepsFollowNoLengthItRecordsLongerToBeSureAndFollowsNoPlan) {
  LifeCycleOptions how = options();
  how.plan = plan_of_no_length;
  LifeCycle life(allocator, how);
  program.build();
  for (const Bytes scale : kTwentyLengths) run(life, 1, scale);
  EXPECT_THAT(
      lines,
      ElementsAre(HasSubstr("recording 2 steps"), HasSubstr("planning from"), HasSubstr("recording longer"),
                  HasSubstr("planning from"), HasSubstr("recording longer"), HasSubstr("planning from"),
                  HasSubstr("recording longer"), HasSubstr("planning from"), HasSubstr("recording longer"),
                  HasSubstr("planning from"), HasSubstr("following no plan: steps differ")))
      << "of three steps two lengths may be in the same order by chance";
  EXPECT_EQ(life.stage(), Stage::kResting);
  EXPECT_THAT(life.why_no_plan(), HasSubstr("steps differ"));
}

TEST_F(LifeCycleTest, RecordsWithoutAResidue) {
  LifeCycle life(allocator, options());
  program.build();
  run(life, 5);
  const RuntimeStatistics now = allocator.statistics();
  EXPECT_EQ(now.peaks.fallback_reserved, 0);
  // The slack of a small job, and a page.
  EXPECT_LE(now.step.peaks.reserved, now.step.peaks.requested + Policy().least_slack + 2 * kMiB);
  EXPECT_GT(now.unplanned, 0) << "weights and states";
}

TEST_F(LifeCycleTest, AJobThatDoesNotRepeatIsRecordedLongerAndThenLeftAlone) {
  std::vector<std::size_t> seen;
  LifeCycle life(allocator, finding_nothing(seen));
  program.build();
  run(life, 60);
  EXPECT_THAT(lines, Contains(HasSubstr("recording longer")));
  EXPECT_EQ(life.stage(), Stage::kResting);
  ASSERT_EQ(seen.size(), 5U);
  EXPECT_GT(seen.back(), 4 * seen.front());
}

TEST_F(LifeCycleTest, AJobWhoseStepsNobodyMarksIsSearchedLongerAndThenLeftAlone) {
  Policy policy;
  policy.first_search = 2000;  // which takes a tenth of the time
  RuntimeAllocator searched(device, upstream, policy);
  std::vector<std::size_t> seen;
  LifeCycle life(searched, finding_nothing(seen));
  Program job(searched, 2 * kKiB);
  job.build();
  for (int i = 0; i < 100'000 && life.stage() != Stage::kResting; ++i) {
    job.step();
    life.poll();
    life.wait_for_planner();
  }
  ASSERT_EQ(life.stage(), Stage::kResting);
  ASSERT_EQ(seen.size(), 5U);
  EXPECT_GT(seen.back(), 8 * seen.front());
}

TEST_F(LifeCycleTest, ARecordingWithoutStepsEndsAndBeginsAnewWithThem) {
  LifeCycleOptions how = options();
  how.most_recorded = 5000;
  LifeCycle life(allocator, how);
  program.build();
  for (int i = 0; i < 6000; ++i) allocator.free(allocator.allocate(kMiB));
  EXPECT_TRUE(allocator.recorded().requests.empty());
  run(life, 6);
  EXPECT_TRUE(allocator.follows_plan()) << ::testing::PrintToString(lines);
}

TEST_F(LifeCycleTest, FindsStepsThatNobodyMarks) {
  LifeCycle life(allocator, options());
  small_program.build();
  for (int i = 0; i < 600 && !allocator.follows_plan(); ++i) {
    small_program.step();
    life.poll();
    life.wait_for_planner();
  }
  ASSERT_TRUE(allocator.follows_plan()) << ::testing::PrintToString(lines);
  for (int i = 0; i < 2; ++i) small_program.step();
  const Served before = allocator.statistics().served;
  small_program.step();
  const Served now = allocator.statistics().served;
  EXPECT_EQ(now.beside_plan(), before.beside_plan())
      << ::testing::PrintToString(now.unplanned) << ::testing::PrintToString(lines);
}

TEST_F(LifeCycleTest, RecordsIntoAFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("job.stwtrace");
  LifeCycleOptions how = options();
  how.trace_path = path;
  LifeCycle life(allocator, how);
  program.build();
  run(life, 4);
  const std::vector<Trace> traces = read_traces(open_archive(path), path);
  ASSERT_EQ(traces.size(), 1U);
  EXPECT_TRUE(traces.front().complete);
  EXPECT_GE(profile_of(traces.front()).steps.spans.size(), 2U);
}

TEST_F(LifeCycleTest, AFullDiskIsALineInTheLog) {
  LifeCycleOptions how = options();
  how.trace_path = "/dev/full";
  LifeCycle life(allocator, how);
  program.build();
  run(life, 4);
  EXPECT_THAT(lines, Contains(HasSubstr("/dev/full")));
  EXPECT_EQ(last_step().beside_plan(), 0);
}

TEST_F(LifeCycleTest, FollowsAPlanWhereOddStepsAreAmongTheRecordedOnes) {
  LifeCycle life(allocator, options());
  program.build();
  small_program.build();
  for (int step = 0; step < 12; ++step) {
    life.begin_step();
    program.step();
    if (step % 6 == 1) small_program.step(64);
    life.wait_for_planner();
  }
  EXPECT_EQ(life.stage(), Stage::kFollowing);
  EXPECT_EQ(last_step().beside_plan(), 0);
  EXPECT_THAT(lines, Contains(HasSubstr("recording longer")));
}

}  // namespace
}  // namespace stweaver
