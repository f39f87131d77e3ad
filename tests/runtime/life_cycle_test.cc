#include "runtime/life_cycle.h"

#include <future>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/life_cycle.h"

namespace stweaver {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(LifeCycleTest, FollowsAPlanOnceItHasSeenTwoSteps) {
  LifeCycle life(allocator, options());
  program.build();
  run(life, 3);
  EXPECT_EQ(life.stage(), Stage::kPlanning);
  EXPECT_FALSE(allocator.follows_plan());
  run(life, 1);
  EXPECT_EQ(life.stage(), Stage::kFollowing);
  EXPECT_EQ(last_step().beside_plan(), 0);
  EXPECT_EQ(last_step().reused, 0);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("stweaver[0]: recording 2 steps"), HasSubstr("planning from"),
                                 HasSubstr("following a plan from step 4 on")));
}

TEST_F(LifeCycleTest, FillsTheGapsThatBlocksOfTheFirstStepsLeave) {
  LifeCycle life(allocator, options());
  program.build();
  run(life, 6);
  EXPECT_EQ(life.stage(), Stage::kFollowing);
  EXPECT_EQ(allocator.statistics().planned_arena, 0) << "so small a step needs no other memory";
  EXPECT_EQ(last_step().planned, last_step().all());
}

/// Steps of ten lengths, the longest behind those that are recorded.
void train_on_lengths(LifeCycle& life, RuntimeAllocator& allocator) {
  Program large_program(allocator, 512 * kKiB);
  large_program.build();
  for (const Bytes scale : {16, 21, 12, 24, 19, 14, 25, 17, 28, 11}) {
    life.begin_step();
    large_program.step(scale);
    life.wait_for_planner();
  }
}

TEST_F(LifeCycleTest, FollowsAPlanOfStepsThatHaveLengthsAndKeepsItForLongerOnes) {
  LifeCycle life(allocator, options());
  void* const graph = allocator.allocate(64 * kMiB, 0, 7);  // upstream's memory is no cost of a plan
  train_on_lengths(life, allocator);
  allocator.free(graph);
  EXPECT_EQ(life.stage(), Stage::kFollowing);
  EXPECT_THAT(lines, Contains(HasSubstr("following a plan from step 6 on")));
  const RuntimeStatistics now = allocator.statistics();
  EXPECT_EQ(now.plans, 1);
  EXPECT_EQ(now.last_step.served.beside_plan(), 0) << "of the longest";
  EXPECT_LT(now.peaks.reserved - now.peaks.requested, now.peaks.reserved / 32);
}

TEST_F(LifeCycleTest, KeepsThePlanOfShortStepsForStepsOfSixTimesTheirLength) {
  LifeCycle life(allocator, options());
  Program large_program(allocator, 512 * kKiB);
  large_program.build();
  for (const Bytes scale : {3, 5, 2, 6, 4, 7, 36, 30, 35}) {
    life.begin_step();
    large_program.step(scale);
    life.wait_for_planner();
  }
  EXPECT_EQ(life.stage(), Stage::kFollowing);
  EXPECT_EQ(allocator.statistics().plans, 1);
  EXPECT_EQ(allocator.statistics().step.served.beside_plan(), 0);
  const Peaks peaks = allocator.statistics().peaks;
  EXPECT_LT(peaks.reserved - peaks.requested, peaks.reserved / 32);
}

TEST_F(LifeCycleTest, AnOutputInTheWayOfALongerStepIsNoChangeOfTheJob) {
  Policy policy;
  policy.patience = 1;
  policy.least_slack = 256 * kMiB;  // whatever the longer steps hold
  RuntimeAllocator roomy(device, upstream, policy);
  LifeCycle life(roomy, options());
  Program large_program(roomy, 512 * kKiB);
  large_program.build();
  // Of each step, until the next has made its own.
  void* batch = nullptr;
  void* output = nullptr;
  const auto replace = [&](void*& kept, Bytes size) {
    void* const made = roomy.allocate(size);
    if (kept != nullptr) roomy.free(kept);
    kept = made;
  };
  for (const Bytes scale : {3, 5, 2, 6, 4, 7, 6, 5, 9, 11, 13, 15, 17, 19, 7}) {
    life.begin_step();
    replace(batch, scale * 4 * kMiB);
    large_program.step(scale);
    replace(output, scale * 8 * kMiB);
    life.wait_for_planner();
  }
  EXPECT_THAT(lines, Contains(HasSubstr("following a plan from step")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("the job has changed"))));
  EXPECT_TRUE(roomy.follows_plan());
  EXPECT_EQ(roomy.statistics().plans, 1);
  EXPECT_EQ(roomy.statistics().step.served.beside_plan(), 0) << "of a step that is no longer";
  for (void* const kept : {batch, output}) roomy.free(kept);
}

TEST_F(LifeCycleTest, LeavesAPlanThatCostsMemory) {
  Policy policy;
  policy.patience = 1;
  policy.least_slack = 0;
  policy.slack_share = Bytes{1} << 60U;
  RuntimeAllocator exact(device, upstream, policy);
  // The second slot lies in the first one's memory, and keeps a block of it from moving to the third.
  Plan plan;
  plan.shape = StepShape::kVarying;
  plan.slots = {{.size = 64 * kMiB, .offset = 0, .stream = 0, .death = 1},
                {.size = kMiB, .offset = 0, .stream = 0, .death = 3},
                {.size = 64 * kMiB, .offset = 64 * kMiB, .stream = 0, .death = 3}};
  plan.arena = plan.lower_bound = 128 * kMiB;
  LifeCycle life(exact, options(), plan);
  void* const weights = exact.allocate(300 * kMiB);
  for (int step = 0; step < 2; ++step) life.begin_step();
  exact.free(exact.allocate(64 * kMiB));
  for (void* const block : {exact.allocate(kMiB), exact.allocate(64 * kMiB)}) exact.free(block);
  life.begin_step();
  EXPECT_THAT(lines, Contains(HasSubstr("following a plan from step 2 on")));
  EXPECT_THAT(lines, Contains(HasSubstr("more memory was held than without a plan")));
  EXPECT_FALSE(exact.follows_plan());
  EXPECT_EQ(life.stage(), Stage::kResting);
  exact.free(weights);
}

TEST_F(LifeCycleTest, KeepsAPlanOfLengthsThatCostsNoMoreThanTheStepsWithoutOne) {
  Policy policy;  // without slack, so that the rest of a page is beyond the budget
  policy.least_slack = 0;
  policy.slack_share = Bytes{1} << 60U;
  RuntimeAllocator exact(device, upstream, policy);
  LifeCycle life(exact, options());
  train_on_lengths(life, exact);
  EXPECT_THAT(lines, Contains(HasSubstr("following a plan from step 6 on")));
  EXPECT_TRUE(exact.follows_plan());
}

TEST_F(LifeCycleTest, KeepsAPlanOfLengthsWhereTheJobHadHeldMoreBefore) {
  Policy policy;
  policy.least_slack = 0;
  policy.slack_share = Bytes{1} << 60U;
  RuntimeAllocator exact(device, upstream, policy);
  exact.free(exact.allocate(2 * kGiB, 0));  // of upstream, which gives it back
  exact.empty_cache();
  LifeCycle life(exact, options());
  train_on_lengths(life, exact);
  EXPECT_THAT(lines, Contains(HasSubstr("following a plan from step 6 on")));
  EXPECT_TRUE(exact.follows_plan());
}

TEST_F(LifeCycleTest, WithoutAPlanHardlyMoreIsHeldThanAskedFor) {
  LifeCycleOptions how = options();
  how.plan = plan_of_no_length;
  LifeCycle life(allocator, how);
  Program large_program(allocator, 512 * kKiB);
  large_program.build();
  for (const Bytes scale : kTwentyLengths) {
    life.begin_step();
    large_program.step(scale);
    life.wait_for_planner();
  }
  EXPECT_THAT(lines, Contains(HasSubstr("following no plan: steps differ")));
  EXPECT_FALSE(allocator.follows_plan());
  const Peaks peaks = allocator.statistics().peaks;
  EXPECT_LT(peaks.reserved - peaks.requested, peaks.reserved / 32);
  EXPECT_EQ(peaks.fallback_reserved, 0) << "the arena serves it all the same";
}

TEST_F(LifeCycleTest, GivesTheFallbacksIdleMemoryBackBeforeItTakesTheArena) {
  LifeCycleOptions how = options();
  how.place_unplanned = false;
  LifeCycle life(allocator, how);
  program.build();
  run(life, 5);
  const RuntimeStatistics now = allocator.statistics();
  EXPECT_LE(now.step.peaks.reserved, upstream.reserved() + now.arena);
  EXPECT_LT(upstream.reserved(), now.peaks.fallback_reserved);
}

TEST_F(LifeCycleTest, NothingWaitsForThePlanner) {
  std::promise<void> go;
  LifeCycle life(allocator, waiting_for(go));
  program.build();
  for (int i = 0; i < 10; ++i) {
    life.begin_step();
    program.step();
  }
  EXPECT_EQ(life.stage(), Stage::kPlanning);
  EXPECT_EQ(last_step().in_plan(), 0);
  go.set_value();
  life.wait_for_planner();
  run(life, 1);
  EXPECT_EQ(last_step().beside_plan(), 0);
}

TEST_F(LifeCycleTest, APlanThatIsReadyAfterAnOddStepWaitsForOneMoreStep) {
  std::promise<void> go;
  LifeCycle life(allocator, waiting_for(go));
  program.build();
  const auto run_without_planner = [&](int steps, Bytes scale) {
    for (int i = 0; i < steps; ++i) {
      life.begin_step();
      program.step(scale);
    }
  };
  run_without_planner(8, 16);
  run_without_planner(1, 60);
  go.set_value();
  life.wait_for_planner();
  run(life, 1);
  EXPECT_EQ(life.stage(), Stage::kPlanning);
  run(life, 1);
  EXPECT_EQ(life.stage(), Stage::kFollowing);
  EXPECT_EQ(last_step().beside_plan(), 0);
  EXPECT_THAT(lines, Not(Contains(HasSubstr("recording longer"))));
}

TEST_F(LifeCycleTest, LeavesAPlanWhereANewRecordingShowsThatStepsDiffer) {
  LifeCycleOptions how = options();
  how.plan = plan_of_no_length;
  LifeCycle life(allocator, how, saved_plan());
  program.build();
  run(life, 4);
  for (int step = 0; step < 20; ++step) {
    run(life, 1);
    allocator.free(allocator.allocate(8 * kMiB));  // not in the plan
  }
  EXPECT_FALSE(allocator.follows_plan());
  EXPECT_THAT(lines, Contains(HasSubstr("the job has changed")));
  EXPECT_THAT(life.why_no_plan(), HasSubstr("steps differ"));
}

TEST_F(LifeCycleTest, APlanOfLengthsThatIsReadyAfterAnOddStepWaitsForOneMoreStep) {
  LifeCycle life(allocator, options());
  Program large_program(allocator, 512 * kKiB);
  large_program.build();
  program.build();
  std::size_t next = 0;
  const auto run_one = [&] {
    life.begin_step();
    large_program.step(kTwentyLengths.at(next++));
    life.wait_for_planner();
  };
  while (lines.size() < 3 || life.stage() != Stage::kPlanning) run_one();  // two steps alone say nothing
  for (int i = 0; i < 40; ++i) program.step(64);                           // an evaluation
  run_one();
  EXPECT_EQ(life.stage(), Stage::kPlanning);
  run_one();
  EXPECT_EQ(life.stage(), Stage::kFollowing) << ::testing::PrintToString(lines);
}

TEST_F(LifeCycleTest, APlanThatForetellsNeitherOfTwoStepsIsNotFollowed) {
  LifeCycle life(allocator, options());
  program.build();
  run(life, 2);
  run(life, 2, 60);
  EXPECT_THAT(lines, Not(Contains(HasSubstr("recording longer"))));
  run(life, 1);
  EXPECT_FALSE(allocator.follows_plan());
  EXPECT_THAT(lines, Contains(HasSubstr("recording longer")));
}

TEST_F(LifeCycleTest, PlansAgainWhenTheJobChangesAndLeavesLivingTensorsWhereTheyAre) {
  LifeCycle life(allocator, options(), saved_plan());
  program.build();
  run(life, 4);
  const std::vector<void*> weights = program.weights();
  run(life, 14, 40);
  EXPECT_THAT(lines, Contains(HasSubstr("found their places")));
  EXPECT_EQ(last_step().beside_plan(), 0);
  EXPECT_EQ(last_step().reused, 0);
  EXPECT_EQ(program.weights(), weights);
  EXPECT_EQ(allocator.statistics().plans, 2);
  // Back to what it was: the plan for larger steps serves that too, or there is another in time.
  run(life, 20, 16);
  EXPECT_EQ(last_step().beside_plan(), 0);
}

TEST_F(LifeCycleTest, GivesTheOldPlansMemoryBackWhenItMovesOn) {
  LifeCycle life(allocator, options(), saved_plan());
  program.build();
  run(life, 4);
  run(life, 10, 40);
  const RuntimeStatistics now = allocator.statistics();
  // The weights and the step, each rounded up to pages of memory.
  EXPECT_LT(now.reserved(), now.step.peaks.requested * 5 / 4 + 4 * kMiB);
}

TEST_F(LifeCycleTest, LeavesAPlanInWhichFewRequestsFindTheirPlaces) {
  LifeCycle life(allocator, options(), saved_plan());
  program.build();
  run(life, 4);
  run(life, 2, 40);
  EXPECT_TRUE(allocator.follows_plan());
  run(life, 1, 40);  // what the second was like is known when the third begins
  EXPECT_FALSE(allocator.follows_plan());
  EXPECT_THAT(lines, Contains(HasSubstr("planned requests found their places")));
}

TEST_F(LifeCycleTest, LeavesAPlanInWhichFewRequestsFindTheirPlacesWhileTheNextIsRecorded) {
  LifeCycle life(allocator, options(), saved_plan());
  program.build();
  run(life, 4);
  allocator.free(allocator.allocate(16 * kMiB));  // that step had most of its places, but more besides
  run(life, 2, 40);
  EXPECT_EQ(life.stage(), Stage::kRecording);
  EXPECT_TRUE(allocator.follows_plan());
  run(life, 1, 40);
  EXPECT_EQ(life.stage(), Stage::kRecording);
  EXPECT_FALSE(allocator.follows_plan());
  EXPECT_THAT(lines, Contains(HasSubstr("the job has changed")));
  EXPECT_THAT(lines.back(), HasSubstr("planned requests found their places"));
  run(life, 12, 40);
  EXPECT_TRUE(allocator.follows_plan()) << "the next one";
}

TEST_F(LifeCycleTest, OneOddStepIsNoReasonToPlanAgain) {
  LifeCycle life(allocator, options());
  program.build();
  run(life, 5);
  run(life, 1, 60);
  run(life, 5);
  EXPECT_THAT(lines, Not(Contains(HasSubstr("found their places"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("changed"))));
  EXPECT_EQ(last_step().beside_plan(), 0);
}

TEST_F(LifeCycleTest, APlannerThatFailsIsALineInTheLog) {
  LifeCycleOptions how = options();
  how.plan = [](const Trace&, const Gaps&) -> Plan { fail("no idea"); };
  LifeCycle life(allocator, how);
  program.build();
  run(life, 6);
  EXPECT_THAT(lines, Contains(HasSubstr("following no plan: no idea")));
  EXPECT_FALSE(allocator.follows_plan());
}

TEST_F(LifeCycleTest, APlanThatPlansNothingIsNotFollowed) {
  LifeCycleOptions how = options();
  how.plan = [](const Trace& trace, const Gaps&) {
    Plan plan = plan_step(trace);
    for (Slot& slot : plan.slots) slot.offset = kUnplanned;
    return plan;
  };
  LifeCycle life(allocator, how);
  program.build();
  run(life, 6);
  EXPECT_THAT(lines, Contains(HasSubstr("following no plan: it has a place for none of the requests")));
  EXPECT_FALSE(allocator.follows_plan());
}

TEST_F(LifeCycleTest, ServesFromTheAllocatorBehindItOnceItIsOver) {
  {
    LifeCycle life(allocator, options());
    allocator.free(allocator.allocate(4096));
    EXPECT_EQ(upstream.reserved(), 0);
  }
  allocator.free(allocator.allocate(4096));
  EXPECT_GT(upstream.reserved(), 0);
}

TEST(LifeCycle, ADeviceThatDoesNotMapIsOneLineInTheLogAndTheJobGoesOn) {
  for (const DeviceCall call : {DeviceCall::kReserve, DeviceCall::kMap}) {
    HostDevice host(kLifeCapacity);
    FailingDevice device(host);
    device.fail_every(call);
    CachingUpstream upstream(AllocatorSettings(), host);
    RuntimeAllocator allocator(device, upstream);
    std::vector<std::string> lines;
    LifeCycleOptions how;
    how.log = [&](const std::string& line) { lines.push_back(line); };
    LifeCycle life(allocator, how);
    Program program(allocator);
    program.build();
    for (int i = 0; i < 6; ++i) {
      life.begin_step();
      program.step();
      life.wait_for_planner();
    }
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                            [](const std::string& line) {
                              return line.find("the device has no memory left for the arena") !=
                                     std::string::npos;
                            }),
              1);
    EXPECT_EQ(allocator.statistics().arena, 0);
    EXPECT_EQ(allocator.statistics().ooms, 0);
  }
}

TEST_F(LifeCycleTest, WithoutMemoryForTheArenaTheJobGoesOnWithTheFallback) {
  LifeCycleOptions how = options();
  how.place_unplanned = false;
  how.plan = [](const Trace& trace, const Gaps&) {
    Plan plan = plan_step(trace);
    plan.arena = plan.lower_bound = 64 * kLifeCapacity;
    return plan;
  };
  LifeCycle life(allocator, how);
  program.build();
  run(life, 6);
  EXPECT_THAT(lines, Contains(HasSubstr("the device has no addresses for its arena of")));
  EXPECT_FALSE(allocator.follows_plan());
  EXPECT_EQ(allocator.statistics().arena, 0);
}

/// A plan that takes a little more than twice the slack beyond its bound.
Plan wasteful_plan(const Trace& trace, const Gaps& /*gaps*/) {
  Plan plan = plan_step(trace);
  plan.arena = plan.lower_bound + 2 * Policy().slack(plan.lower_bound) + plan.alignment;
  return plan;
}

/// A plan of which the five largest slots have all of their addresses for themselves.
Plan scattered_plan(const Trace& trace, const Gaps& /*gaps*/) {
  Plan plan = plan_step(trace);
  for (int i = 0; i < 5; ++i) {
    Slot& slot = *std::ranges::max_element(
        plan.slots, {}, [&](const Slot& one) { return one.offset < plan.lower_bound ? one.size : 0; });
    slot.offset = plan.arena;
    plan.arena += slot.size;
  }
  return plan;
}

TEST_F(LifeCycleTest, APlanThatTakesNoMoreThanTheJobHeldWithoutOneIsFollowed) {
  LifeCycleOptions how = options();
  how.plan = wasteful_plan;
  LifeCycle life(allocator, how);
  // What lives between gaps keeps them from moving to a larger block.
  std::vector<void*> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(allocator.allocate(5 * kMiB));
  for (std::size_t i = 0; i < blocks.size(); i += 2) allocator.free(std::exchange(blocks[i], nullptr));
  blocks.push_back(allocator.allocate(64 * kMiB));
  for (void* const block : blocks) allocator.free(block);
  program.build();
  run(life, 6);
  EXPECT_GT(allocator.statistics().excess, 2 * Policy().least_slack);
  EXPECT_TRUE(allocator.follows_plan()) << life.why_no_plan();

  allocator.drop_plan();
  LifeCycle next(allocator, how);
  run(next, 6);
  EXPECT_TRUE(allocator.follows_plan()) << next.why_no_plan();
}

TEST_F(LifeCycleTest, NorDoesSuchAPlanMoveMemory) {
  LifeCycleOptions how = options();
  how.plan = scattered_plan;
  LifeCycle life(allocator, how);
  Program large_program(allocator, 512 * kKiB);
  const auto step = [&] {
    life.wait_for_planner();
    life.begin_step();
    large_program.step();
  };
  // A little that lives keeps much from moving, while the job needs the most.
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocator.allocate(3 * kMiB / 2));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 5 != 0) allocator.free(std::exchange(blocks[i], nullptr));
  }
  large_program.build();
  step();
  for (void* const block : blocks) allocator.free(block);
  for (int i = 0; i < 7; ++i) step();
  const RuntimeStatistics now = allocator.statistics();
  ASSERT_TRUE(allocator.follows_plan()) << life.why_no_plan();
  EXPECT_EQ(now.last_step.driver_calls, 0);
  EXPECT_GT(now.arena, now.peaks.requested + 2 * Policy().least_slack) << "and all of its range is held";
  EXPECT_LE(now.arena, now.peaks.reserved);
}

TEST_F(LifeCycleTest, APlanThatTakesMoreThanTheJobWouldWithoutIsNotFollowed) {
  LifeCycleOptions how = options();
  how.plan = wasteful_plan;
  LifeCycle life(allocator, how);
  program.build();
  run(life, 6);
  EXPECT_FALSE(allocator.follows_plan());
  EXPECT_THAT(life.why_no_plan(), HasSubstr("it takes "));
}

TEST_F(LifeCycleTest, EveryLineSaysWhoseItIs) {
  LifeCycleOptions how = options();
  how.device = 3;
  LifeCycle life(allocator, how);
  program.build();
  run(life, 4);
  EXPECT_THAT(lines, ::testing::Each(StartsWith("stweaver[3]: ")));
  EXPECT_EQ(name_of(Stage::kRecording), "recording");
}

}  // namespace
}  // namespace stweaver
