#include "runtime/life_cycle.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "archive/archive.h"
#include "device/device.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "simulate/caching_upstream.h"
#include "support/files.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr Bytes kCapacity = 4 * kGiB;

/// A training job in real memory: every tensor is filled with its number and looked at before it is freed.
/// All sizes are multiples of the unit; with a small one, many steps take little time.
class Program {
 public:
  explicit Program(RuntimeAllocator& allocator, Bytes unit = 16 * kKiB)
      : allocator_(&allocator), unit_(unit) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  Program(Program&&) = delete;
  Program& operator=(Program&&) = delete;
  ~Program() { free_all(weights_); }

  void build() {
    for (int i = 0; i < kLayers; ++i) weights_.push_back(make(16 * unit_));
  }

  /// Forward, backward and optimizer, whose states are made in the first step.
  void step(Bytes scale = 16) {
    std::vector<Tensor> activations;
    for (int i = 0; i < kLayers; ++i) {
      activations.push_back(make(scale * unit_));
      activations.push_back(make(scale * unit_ / 4 + Bytes{i} * 512));
      take(make(scale * 2 * unit_));
    }
    std::vector<Tensor> gradients;
    for (int i = kLayers; i-- > 0;) {
      gradients.push_back(make(16 * unit_));
      for (int j = 0; j < 2; ++j) {
        take(activations.back());
        activations.pop_back();
      }
    }
    if (!optimized_) {
      for (int i = 0; i < kLayers; ++i) weights_.push_back(make(32 * unit_));
    }
    optimized_ = true;
    free_all(gradients);
  }

  [[nodiscard]] std::vector<void*> weights() const {
    std::vector<void*> addresses;
    for (const Tensor& weight : weights_) addresses.push_back(weight.memory);
    return addresses;
  }

 private:
  static constexpr int kLayers = 12;

  struct Tensor {
    void* memory = nullptr;
    Bytes size = 0;
    unsigned char number = 0;
  };

  Tensor make(Bytes size) {
    const Tensor tensor = {allocator_->allocate(size), size, ++number_};
    EXPECT_NE(tensor.memory, nullptr);
    std::memset(tensor.memory, tensor.number, static_cast<std::size_t>(size));
    return tensor;
  }

  void take(const Tensor& tensor) {
    const auto* const bytes = static_cast<const unsigned char*>(tensor.memory);
    // All bytes are the number when the first is and each is like the one before it.
    const bool intact = bytes[0] == tensor.number &&
                        std::memcmp(bytes, bytes + 1, static_cast<std::size_t>(tensor.size) - 1) == 0;
    EXPECT_TRUE(intact) << "somebody else wrote into a tensor";
    allocator_->free(tensor.memory);
  }

  void free_all(std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) take(tensor);
    tensors.clear();
  }

  RuntimeAllocator* allocator_;
  Bytes unit_;
  std::vector<Tensor> weights_;
  bool optimized_ = false;
  unsigned char number_ = 0;
};

class LifeCycleTest : public ::testing::Test {
 protected:
  LifeCycleOptions options() {
    LifeCycleOptions options;
    options.log = [this](const std::string& line) { lines.push_back(line); };
    return options;
  }

  /// A planner to which nothing repeats; it notes how many requests it was shown.
  LifeCycleOptions finding_nothing(std::vector<std::size_t>& seen) {
    LifeCycleOptions how = options();
    how.plan = [&seen](const Trace& trace, const Gaps&) {
      seen.push_back(trace.requests.size());
      return Plan();
    };
    return how;
  }

  /// A planner that is not done before it may go on.
  LifeCycleOptions waiting_for(std::promise<void>& go) {
    LifeCycleOptions how = options();
    how.plan = [ready = go.get_future().share()](const Trace& trace, const Gaps&) {
      ready.wait();
      return plan_step(trace);
    };
    return how;
  }

  /// Steps as a job makes them, which is slower than a planner.
  void run(LifeCycle& life, int steps, Bytes scale = 16) {
    for (int i = 0; i < steps; ++i) {
      life.begin_step();
      program.step(scale);
      life.wait_for_planner();
    }
  }

  [[nodiscard]] Served last_step() const { return allocator.statistics().step.served; }

  HostDevice device{kCapacity};
  CachingUpstream upstream{AllocatorSettings(), device};
  RuntimeAllocator allocator{device, upstream};
  Program program{allocator};
  Program small_program{allocator, 2 * kKiB};
  std::vector<std::string> lines;
};

/// A plan of the whole job, as an earlier run left it.
Plan saved_plan() {
  HostDevice device(kCapacity);
  CachingUpstream upstream(AllocatorSettings(), device);
  RuntimeAllocator allocator(device, upstream);
  const auto recorder = std::make_shared<Recorder>(Recorder::Options{});
  allocator.record(recorder);
  {
    Program program(allocator);
    program.build();
    for (int i = 0; i < 4; ++i) {
      allocator.begin_step();
      program.step();
    }
    allocator.record(nullptr);
  }
  const Trace& trace = recorder->trace();
  Plan plan = synthesize(trace, profile_of(trace), {}).plan;
  EXPECT_THAT(check_plan(plan, trace), IsEmpty());
  return plan;
}

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
  EXPECT_EQ(stage_after({24, 12, 20, 28, 14, 22, 18, 26, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16}),
            Stage::kFollowing);
}

/// A planner that finds sizes to follow no length.
Plan plan_of_no_length(const Trace& trace, const Gaps&) {
  Plan plan = plan_step(trace);
  plan.shape = StepShape::kDynamic;
  return plan;
}

TEST_F(LifeCycleTest, WhereStepsFollowNoLengthItRecordsLongerToBeSureAndFollowsNoPlan) {
  LifeCycleOptions how = options();
  how.plan = plan_of_no_length;
  LifeCycle life(allocator, how);
  program.build();
  for (const Bytes scale : {16, 21, 12, 24, 19, 14, 23, 17, 22, 13, 20}) run(life, 1, scale);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("recording 2 steps"), HasSubstr("planning from"),
                                 HasSubstr("recording longer"), HasSubstr("planning from"),
                                 HasSubstr("recording longer"), HasSubstr("planning from"),
                                 HasSubstr("following no plan: steps differ")))
      << "of three steps two lengths may be in the same order by chance";
  EXPECT_EQ(life.stage(), Stage::kResting);
  EXPECT_THAT(life.why_no_plan(), HasSubstr("steps differ"));
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
  for (const Bytes scale : {16, 21, 12, 24, 19, 14, 25}) {
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
  HostDevice device(kCapacity);
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
    EXPECT_EQ("stweaver[0]: " + life.why_no_plan(), lines.front());
  }
}

TEST_F(LifeCycleTest, APlanOfAnotherAlignmentIsNotFollowed) {
  Plan plan = saved_plan();
  plan.alignment = 16;
  const LifeCycle life(allocator, options(), plan);
  EXPECT_EQ(life.stage(), Stage::kRecording);
  EXPECT_THAT(lines, Contains(HasSubstr("alignment of 16 bytes")));
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

TEST_F(LifeCycleTest, ASavedPlanOfStepsThatFollowNoLengthIsNotFollowedAndNotMadeAgain) {
  Plan plan = saved_plan();
  plan.shape = StepShape::kDynamic;
  LifeCycle life(allocator, options(), plan);
  EXPECT_EQ(life.stage(), Stage::kResting);
  program.build();
  run(life, 6);
  EXPECT_FALSE(allocator.follows_plan());
  EXPECT_THAT(lines, ElementsAre(HasSubstr("following no plan: steps differ, and not by lengths")));
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
    HostDevice host(kCapacity);
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
    plan.arena = plan.lower_bound = 64 * kCapacity;
    return plan;
  };
  LifeCycle life(allocator, how);
  program.build();
  run(life, 6);
  EXPECT_THAT(lines, Contains(HasSubstr("the device has no addresses for its arena of")));
  EXPECT_FALSE(allocator.follows_plan());
  EXPECT_EQ(allocator.statistics().arena, 0);
}

TEST_F(LifeCycleTest, ASavedPlanThatDoesNotFitTheDeviceIsReplacedByRecording) {
  Plan plan = saved_plan();
  plan.arena = plan.lower_bound = 64 * kCapacity;
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

TEST_F(LifeCycleTest, APlanThatTakesMoreThanTheJobWouldWithoutIsNotFollowed) {
  LifeCycleOptions how = options();
  how.plan = [](const Trace& trace, const Gaps&) {
    Plan plan = plan_step(trace);
    plan.arena = plan.lower_bound + 2 * Policy().slack(plan.lower_bound) + plan.alignment;
    return plan;
  };
  LifeCycle life(allocator, how);
  program.build();
  run(life, 6);
  EXPECT_FALSE(allocator.follows_plan());
  EXPECT_THAT(life.why_no_plan(), HasSubstr("it takes "));
}

TEST_F(LifeCycleTest, AJobThatDoesNotRepeatIsRecordedLongerAndThenLeftAlone) {
  std::vector<std::size_t> seen;
  LifeCycle life(allocator, finding_nothing(seen));
  program.build();
  run(life, 60);
  EXPECT_THAT(lines, Contains(HasSubstr("recording longer")));
  EXPECT_EQ(life.stage(), Stage::kResting);
  ASSERT_EQ(seen.size(), 4U);
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
