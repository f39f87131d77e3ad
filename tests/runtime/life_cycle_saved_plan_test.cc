// A life that begins with a saved plan.
#include <cstddef>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/files.h"
#include "support/life_cycle.h"

namespace stweaver {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(LifeCycleTest, StartsWithASavedPlanWeightsIncluded) {
  LifeCycle life(allocator, options(), saved_plan());
  program.build();
  EXPECT_EQ(allocator.statistics().served.beside_plan(), 0);
  run(life, 4);
  EXPECT_EQ(allocator.statistics().served.beside_plan(), 0);
  EXPECT_EQ(upstream.reserved(), 0);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("following a plan from step 0 on")));
}

/// As an earlier run left it that had seen more of the same steps.
Plan saved_plan_of_steps() {
  HostDevice device(kLifeCapacity);
  CachingUpstream upstream(AllocatorSettings(), device);
  RuntimeAllocator allocator(device, upstream);
  Plan plan;
  LifeCycleOptions how;
  how.plan = [&](const Trace& trace, const Gaps&) { return plan = plan_step(trace); };
  LifeCycle life(allocator, how);
  Program program(allocator);
  program.build();
  for (int i = 0; i < 4; ++i) {
    life.begin_step();
    program.step();
  }
  life.wait_for_planner();
  return plan;
}

TEST_F(LifeCycleTest, FollowsASavedPlanOfStepsAloneOnceStepsRepeat) {
  Plan plan = saved_plan_of_steps();
  ASSERT_EQ(plan.prologue, 0U);
  LifeCycle life(allocator, options(), std::move(plan));
  program.build();
  program.step();
  run(life, 1);
  EXPECT_FALSE(allocator.follows_plan()) << "nothing tells weights from what only crosses the boundary";
  run(life, 2);
  EXPECT_EQ(last_step().beside_plan(), 0);
  EXPECT_EQ(last_step().reused, 0);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("following a plan from step 2 on")));
}

/// A job that builds its model otherwise leaves gaps of 2 MiB, which cannot move and are in no saved plan.
/// The blocks between them are the caller's to free.
std::vector<void*> leave_gaps(RuntimeAllocator& allocator) {
  std::vector<void*> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(allocator.allocate(2 * kMiB));
  std::vector<void*> lasting;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 2 == 0) {
      allocator.free(blocks[i]);
    } else {
      lasting.push_back(blocks[i]);
    }
  }
  return lasting;
}

TEST_F(LifeCycleTest, ASavedPlanOfStepsGivesWayWhereWhatLivesLeavesGapsBesideIt) {
  LifeCycle life(allocator, options(), saved_plan_of_steps());
  const std::vector<void*> lasting = leave_gaps(allocator);
  program.build();
  program.step();
  run(life, 2);
  EXPECT_FALSE(allocator.follows_plan());
  EXPECT_THAT(life.why_no_plan(), HasSubstr("may do"));
  run(life, 4);
  EXPECT_TRUE(allocator.follows_plan()) << "one that was made for those gaps";
  EXPECT_GT(life.saved_plan().slots, 0);
  EXPECT_THAT(life.saved_plan().refused, HasSubstr("may do")) << "whatever was followed later";
  EXPECT_THAT(life.why_no_plan(), IsEmpty());
  EXPECT_THAT(lines, ElementsAre(HasSubstr("not following the plan: it takes"),
                                 HasSubstr("recording 2 steps from step 2"), HasSubstr("planning"),
                                 HasSubstr("following a plan")));
  for (void* const block : lasting) allocator.free(block);
}

TEST_F(LifeCycleTest, ASavedPlanIsLeftWhereTheJobHasNotBegunAsRecorded) {
  LifeCycle life(allocator, options(), saved_plan());
  const std::vector<void*> lasting = leave_gaps(allocator);
  program.build();
  run(life, 8);
  EXPECT_TRUE(allocator.follows_plan());
  EXPECT_THAT(life.saved_plan().refused, IsEmpty()) << "it was followed at first";
  EXPECT_THAT(lines,
              ElementsAre(HasSubstr("following a plan from step 0"), HasSubstr("following no plan: it takes"),
                          HasSubstr("recording 2 steps from step 2"), HasSubstr("planning"),
                          HasSubstr("following a plan")));
  for (void* const block : lasting) allocator.free(block);
}

TEST_F(LifeCycleTest, StartsWithThePlanInAFile) {
  const TemporaryFolder folder;
  LifeCycleOptions how = options();
  how.plan_path = folder.file("job.plan");
  std::ofstream file(how.plan_path);
  write_plan(saved_plan(), file);
  file.close();
  LifeCycle life(allocator, how);
  program.build();
  run(life, 4);
  EXPECT_EQ(allocator.statistics().served.beside_plan(), 0);
}

TEST_F(LifeCycleTest, APlanThatCannotBeReadIsALineInTheLogAndTheJobIsRecorded) {
  const TemporaryFolder folder;
  const std::string missing = folder.file("missing.plan");
  const std::string damaged = folder.file("damaged.plan");
  std::ofstream(damaged) << "stweaver-plan 6\nsource x\n";
  for (const std::string& path : {missing, damaged, folder.path().string()}) {
    lines.clear();
    LifeCycleOptions how = options();
    how.plan_path = path;
    const LifeCycle life(allocator, how);
    EXPECT_EQ(life.stage(), Stage::kRecording);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_THAT(lines.front(), HasSubstr(path));
    EXPECT_EQ("stweaver[0]: not following the plan: " + life.why_no_plan(), lines.front());
    EXPECT_EQ(life.saved_plan().refused, life.why_no_plan());
    EXPECT_EQ(life.saved_plan().slots, 0);
  }
}

TEST_F(LifeCycleTest, APlanOfAnotherAlignmentIsNotFollowed) {
  Plan plan = saved_plan();
  plan.alignment = 16;
  const LifeCycle life(allocator, options(), plan);
  EXPECT_EQ(life.stage(), Stage::kRecording);
  EXPECT_THAT(lines, Contains(HasSubstr("alignment of 16 bytes")));
}

TEST_F(LifeCycleTest, ASavedPlanOfStepsThatFollowNoLengthIsNotFollowedAndNotMadeAgain) {
  Plan plan = saved_plan();
  plan.shape = StepShape::kDynamic;
  LifeCycle life(allocator, options(), plan);
  EXPECT_EQ(life.stage(), Stage::kResting);
  program.build();
  run(life, 6);
  EXPECT_FALSE(allocator.follows_plan());
  EXPECT_THAT(lines, ElementsAre(HasSubstr("following no plan: steps differ, and not by lengths")));
  EXPECT_EQ(life.saved_plan().refused, "steps differ, and not by lengths");
}

TEST_F(LifeCycleTest, ASavedPlanThatDoesNotFitTheDeviceIsReplacedByRecording) {
  Plan plan = saved_plan();
  plan.arena = plan.lower_bound = 64 * kLifeCapacity;
  LifeCycle life(allocator, options(), plan);
  EXPECT_EQ(life.stage(), Stage::kRecording);
  program.build();
  run(life, 4);
  EXPECT_EQ(last_step().beside_plan(), 0);
}

TEST_F(LifeCycleTest, ASavedPlanWhoseSlotsOverlapIsRefusedInOneLine) {
  Plan plan = saved_plan();
  for (std::size_t i = 0; i < plan.slots.size(); i += 2) plan.slots[i].offset = 0;
  const LifeCycle life(allocator, options(), plan);
  EXPECT_EQ(life.stage(), Stage::kRecording);
  EXPECT_THAT(lines.front(), HasSubstr("not following the plan: it is not sound: "));
}

}  // namespace
}  // namespace stweaver
