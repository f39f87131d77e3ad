#include "runtime/runtime_allocator.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/clocked_device.h"
#include "support/planned_training.h"
#include "support/play.h"
#include "support/watched.h"

namespace stweaver {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Property;
using testing::ThrowsMessage;

std::shared_ptr<const PlanIndex> index_of(Plan plan) {
  return std::make_shared<PlanIndex>(std::move(plan));
}

/// A plan of one slot for the whole arena, on one stream, and no step.
std::shared_ptr<const PlanIndex> roomy_plan(Bytes arena) {
  Plan plan;
  plan.arena = arena;
  plan.prologue = 1;
  plan.slots = {{.size = arena, .offset = 0, .stream = 0, .death = 1}};
  return index_of(std::move(plan));
}

/// A step of slots side by side, all of the step alive at once, and behind them bytes that no slot uses.
std::shared_ptr<const PlanIndex> plan_of(const std::vector<Bytes>& sizes, Bytes spare = 0) {
  Plan plan;
  for (const Bytes size : sizes) {
    plan.slots.push_back(
        {.size = size, .offset = plan.arena, .stream = 0, .death = static_cast<Time>(sizes.size())});
    plan.arena += size;
  }
  plan.arena += spare;
  return index_of(std::move(plan));
}

std::byte* bytes(void* memory) {
  return static_cast<std::byte*>(memory);
}

// ---- the job as planned ----

/// Of the prologue, then of each step.
std::vector<std::int64_t> misses_of(const Played& played) {
  std::vector<std::int64_t> misses;
  for (const Served& served : played.served) misses.push_back(served.beside_plan());
  return misses;
}

TEST(RuntimeAllocator, ServesEveryRequestOfTheJobAtItsPlannedPlace) {
  for (const PlannedTraining& job :
       {plain_training(), training_on_two_streams(), PlannedTraining({.zero_grad_first = true}),
        PlannedTraining({.side_stream = 7, .keeps = 64 * kKiB})}) {
    const Played played = Player(job.plan).play(job.script);
    EXPECT_THAT(misses_of(played), Each(0));
    EXPECT_EQ(played.end.served.planned, static_cast<std::int64_t>(job.script.requests.size()));
    EXPECT_EQ(played.end.peaks.reserved, align_up(job.plan->plan().arena, 2 * kMiB));
    EXPECT_EQ(played.end.peaks.fallback_reserved, 0);
  }
}

TEST(RuntimeAllocator, ServesStreamsWhoseHandlesAreNotThoseOfTheRecording) {
  PlannedTraining job = training_on_two_streams();
  for (Asked& asked : job.script.requests) asked.stream = asked.stream == 0 ? 0 : 4711;
  const Played played = Player(job.plan).play(job.script);
  EXPECT_EQ(played.end.served.planned, static_cast<std::int64_t>(job.script.requests.size()));
}

TEST(RuntimeAllocator, AdoptingAPlanTakesNoMemory) {
  const PlannedTraining job = plain_training();
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, job.plan);
  EXPECT_EQ(watched.allocator.statistics().reserved(), 0);
  ASSERT_TRUE(watched.hits(job.script.requests.front().size));
  EXPECT_GT(watched.allocator.statistics().reserved(), 0);
  EXPECT_LE(watched.allocator.statistics().reserved(), align_up(job.plan->plan().arena, 2 * kMiB));
  EXPECT_FALSE(watched.hits(job.plan->plan().arena + 1)) << "no slot is that large";
}

TEST(RuntimeAllocator, AWrongPlanHoldsNoMoreThanNoPlan) {
  const PlannedTraining job = plain_training();
  HostDevice device(16 * kGiB);
  std::array<Bytes, 2> reserved{};
  for (const bool with_plan : {false, true}) {
    CachingUpstream upstream(AllocatorSettings(), device);
    Watched watched(device, upstream);
    watched.allocator.place_unplanned(true);
    // A plan for far more than the job asks for, of which the job's first request takes a place.
    if (with_plan) {
      ASSERT_TRUE(watched.allocator.adopt(plan_of({100 * kMiB, 4 * kGiB, 4 * kGiB})));
    }
    std::vector<void*> blocks;
    for (int step = 0; step < 5; ++step) {
      for (const Bytes size : {100, 300, 500, 70, 20, 5}) blocks.push_back(watched.allocate(size * kMiB));
      for (void* const block : blocks) watched.free(block);
      blocks.clear();
      watched.begin_step();
    }
    reserved.at(with_plan ? 1 : 0) = watched.allocator.statistics().peaks.reserved;
  }
  EXPECT_LE(reserved[1], reserved[0] + 16 * kMiB);
}

TEST(RuntimeAllocator, APlanThatNobodySawFitPlacesRequestsOnlyWhileItKnowsThem) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream);
  const std::vector<Bytes> sizes = {4 * kMiB, 5 * kMiB, 6 * kMiB, 7 * kMiB, 8 * kMiB, 9 * kMiB};
  ASSERT_TRUE(watched.allocator.adopt(plan_of(sizes)));
  const auto hits = [&](Bytes size) {
    const std::int64_t before = watched.allocator.statistics().served.in_plan();
    watched.free(watched.allocate(size));
    return watched.allocator.statistics().served.in_plan() > before;
  };
  EXPECT_FALSE(hits(3 * kMiB));
  EXPECT_TRUE(hits(4 * kMiB)) << "one of two: the first of a stream may be a guess";
  EXPECT_TRUE(hits(5 * kMiB));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(hits(20 * kMiB));
  EXPECT_FALSE(hits(6 * kMiB)) << "four of seven were not the plan's";
  watched.begin_step();
  for (const Bytes size : sizes) EXPECT_TRUE(hits(size));
  watched.begin_step();  // that step was as planned
  EXPECT_FALSE(hits(20 * kMiB));
  EXPECT_FALSE(hits(30 * kMiB));
  EXPECT_TRUE(hits(4 * kMiB)) << "one of three, but the plan is this job's";
}

/// Whether a plan of 128 places and one request without a place takes a step for its own in which the job
/// asked for so many others.
bool is_proven_beside(int unknown) {
  Plan plan = plan_of(std::vector<Bytes>(128, 64 * kKiB))->plan();
  for (std::size_t i = 0; i < plan.slots.size(); ++i) plan.slots[i].size -= static_cast<Bytes>(i) * 512;
  plan.slots.push_back({.size = kMiB, .stream = 0, .death = 129, .varying = true});
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream);
  EXPECT_TRUE(watched.allocator.adopt(index_of(plan)));
  for (const Slot& slot : plan.slots) watched.free(watched.allocate(slot.size));
  for (int i = 0; i < unknown; ++i) watched.free(watched.allocate(20 * kMiB));
  watched.begin_step();
  for (int i = 0; i < 4; ++i) watched.free(watched.allocate(30 * kMiB));
  watched.free(watched.allocate(plan.slots.front().size));  // one of five
  return watched.allocator.statistics().step.served.planned == 1;
}

TEST(RuntimeAllocator, APlanIsTheJobsIfAllButA64thOfAStepWasAsPlanned) {
  EXPECT_TRUE(is_proven_beside(0)) << "what has no place in the plan is as planned";
  EXPECT_TRUE(is_proven_beside(2));
  EXPECT_FALSE(is_proven_beside(3));
}

TEST(RuntimeAllocator, BlocksOfAPlanOfAlikeStepsAreNoLargerThanTheSlack) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  watched.free(watched.allocate(512 * kMiB));  // so much may be mapped from here on
  ASSERT_TRUE(watched.allocator.adopt(plan_of(std::vector<Bytes>(64, 16 * kMiB)), true));
  void* const block = watched.allocate(16 * kMiB);
  const Bytes slack = watched.allocator.policy().slack(kGiB);
  for (const auto& [address, size] : watched.allocator.extents()) EXPECT_LE(size, slack);
  EXPECT_LE(watched.allocator.statistics().reserved(), 16 * kMiB + slack);
  watched.free(block);
}

/// Whether a plan is said to cost memory whose step holds 7 MiB beyond the budget, behind a step without a
/// plan that held more beyond its own, or did not.
bool costs_memory_after(bool step_beyond_budget, StepShape shape) {
  Policy policy;
  policy.least_slack = 0;
  policy.slack_share = Bytes{1} << 60U;
  HostDevice device(4 * kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  RuntimeAllocator allocator(device, upstream, policy);
  allocator.place_unplanned(true);
  if (step_beyond_budget) {
    std::vector<void*> blocks;
    for (int i = 0; i < 32; ++i) blocks.push_back(allocator.allocate(5 * kMiB));
    for (std::size_t i = 0; i < blocks.size(); i += 2) allocator.free(std::exchange(blocks[i], nullptr));
    blocks.push_back(allocator.allocate(64 * kMiB));
    for (void* const block : blocks) allocator.free(block);
  }
  allocator.begin_step();
  void* const weights = allocator.allocate(300 * kMiB);
  for (int step = 0; step < 2; ++step) allocator.begin_step();
  // The second slot lies in the first one's memory, and keeps a block of it from moving to the third.
  Plan plan;
  plan.shape = shape;
  plan.slots = {{.size = 64 * kMiB, .offset = 0, .stream = 0, .death = 1},
                {.size = kMiB, .offset = 0, .stream = 0, .death = 3},
                {.size = 64 * kMiB, .offset = 64 * kMiB, .stream = 0, .death = 3}};
  plan.arena = 128 * kMiB;
  EXPECT_TRUE(allocator.adopt(index_of(std::move(plan))));
  allocator.free(allocator.allocate(64 * kMiB));
  for (void* const block : {allocator.allocate(kMiB), allocator.allocate(64 * kMiB)}) allocator.free(block);
  allocator.begin_step();
  EXPECT_EQ(allocator.statistics().last_step.peaks.reserved, 372 * kMiB);
  allocator.free(weights);
  return allocator.plan_costs_memory();
}

TEST(RuntimeAllocator, APlanMayHoldAsMuchBeyondTheBudgetAsTheJobDidWithoutOne) {
  for (const StepShape shape : {StepShape::kFixed, StepShape::kVarying}) {
    EXPECT_TRUE(costs_memory_after(false, shape));
    EXPECT_FALSE(costs_memory_after(true, shape));
  }
}

TEST(RuntimeAllocator, APlanOfLongerStepsIsLaidOutForThoseOfThisRunWhereItCosts) {
  constexpr Time kSlots = 40;
  HostDevice device(4 * kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Plan plan;
  plan.shape = StepShape::kVarying;
  plan.arena = kSlots * 64 * kMiB;
  for (Bytes at = 0; at < plan.arena; at += 64 * kMiB)
    plan.slots.push_back({.size = 64 * kMiB, .offset = at, .death = kSlots, .varying = true, .power = 1});
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  ASSERT_TRUE(watched.allocator.adopt(index_of(std::move(plan)), false));
  const auto step = [&](Bytes size) {
    std::vector<void*> blocks;
    for (Time i = 0; i < kSlots; ++i) blocks.push_back(watched.allocate(size));
    for (void* const block : blocks) watched.free(block);
    watched.begin_step();
    return watched.allocator.statistics();
  };
  EXPECT_GE(step(33 * kMiB).peaks.reserved, kSlots * 34 * kMiB) << "half a page is idle in each place";
  EXPECT_FALSE(watched.allocator.fit_lengths()) << "longer ones may come";
  const Bytes held = step(35 * kMiB).peaks.reserved;
  EXPECT_TRUE(watched.allocator.fit_lengths());
  EXPECT_EQ(watched.allocator.statistics().planned_arena, kSlots * 35 * kMiB);
  EXPECT_EQ(step(35 * kMiB).last_step.served.planned, kSlots);
  EXPECT_EQ(watched.allocator.statistics().peaks.reserved, held);
}

TEST(RuntimeAllocator, ReplacesAPlanWithoutRaisingThePeak) {
  const std::vector<Bytes> sizes(12, 64 * kMiB);
  HostDevice device(16 * kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  for (int plan = 0; plan < 4; ++plan) {
    for (int step = 0; step < 2; ++step) {
      std::vector<void*> blocks;
      for (const Bytes size : sizes) blocks.push_back(watched.allocate(size));
      for (void* const block : blocks) watched.free(block);
      watched.begin_step();
    }
    ASSERT_TRUE(watched.allocator.adopt(plan_of(sizes)));
  }
  const RuntimeStatistics now = watched.allocator.statistics();
  EXPECT_EQ(now.peaks.reserved, now.peaks.requested);
}

TEST(RuntimeAllocator, CountsWhyTheFallbackServed) {
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream);
  watched.allocate(1000);
  Plan plan = plan_of({4096, 8192})->plan();
  plan.slots.push_back({.size = 512, .offset = kUnplanned, .stream = 0, .death = 3});
  ASSERT_TRUE(watched.allocator.adopt(index_of(plan)));
  for (const Bytes size : {4096, 8192, 512, 777, 20000}) watched.allocate(size);
  watched.allocate(4096, 0, 3);
  watched.allocate(4096);  // the next step's, while this one's lives
  const auto& missed = watched.allocator.statistics().served.unplanned;
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kNoPlan)], 1);
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kDynamic)], 1);
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kUnknown)], 1);
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kTooLarge)], 1);
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kPool)], 1);
  EXPECT_EQ(missed[static_cast<std::size_t>(Unplanned::kOccupied)], 1);
  EXPECT_EQ(watched.allocator.statistics().step.unplanned_bytes, 1000 + 777 + 20000 + 4096 + 4096)
      << "all but what the plan itself has no place for";
}

TEST(RuntimeAllocator, KeepsTheStatisticsOfTheStepAndOfTheOneBefore) {
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({kMiB, kMiB}));
  void* const kept = watched.allocate(kMiB);
  watched.free(watched.allocate(kMiB));
  watched.free(watched.allocate(3 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().step.served.in_plan(), 2);
  watched.begin_step();
  const RuntimeStatistics now = watched.allocator.statistics();
  EXPECT_EQ(now.steps, 1);
  EXPECT_EQ(now.last_step.served.planned, 2);
  EXPECT_EQ(now.last_step.served.beside_plan(), 1);
  EXPECT_EQ(now.last_step.peaks.requested, 4 * kMiB);
  EXPECT_EQ(now.step.served.in_plan(), 0);
  EXPECT_EQ(now.step.peaks.requested, kMiB) << "what is still alive";
  watched.free(kept);
}

// ---- the job in other ways than planned ----

constexpr std::size_t kChanged = 3;  // the step that is changed in the tests below; 0 is the first

// What a change may cost beside itself: the requests that look like its neighbours.
constexpr std::int64_t kNeighbourhood = 6;

class Streams : public testing::TestWithParam<bool> {
 protected:
  PlannedTraining job = GetParam() ? training_on_two_streams() : plain_training();

  [[nodiscard]] const std::vector<RequestId>& step() const { return job.script.steps[kChanged]; }

  /// A request more, made and freed before another one.
  [[nodiscard]] Script with_extra(RequestId before, const Asked& extra) const {
    Script script = job.script;
    script.requests.push_back(extra);
    const auto id = static_cast<RequestId>(script.requests.size() - 1);
    const std::size_t at = find_call(script, Call::Kind::kAllocate, before);
    insert_call(script, at, {Call::Kind::kFree, id});
    insert_call(script, at, {Call::Kind::kAllocate, id});
    return script;
  }

  void expect_cost(const Script& script, std::int64_t most) const {
    const std::vector<std::int64_t> misses = misses_of(Player(job.plan).play(script));
    EXPECT_LE(misses[kChanged + 1], most);
    EXPECT_THAT(std::vector(misses.begin() + kChanged + 2, misses.end()), Each(0));
  }
};
INSTANTIATE_TEST_SUITE_P(RuntimeAllocator, Streams, testing::Bool(),
                         [](const auto& param) { return param.param ? "Two" : "One"; });

TEST_P(Streams, AnExtraRequestCostsItsNeighbourhood) {
  // Of any size: such as no slot has, and such as slots far ahead have too.
  std::set<Bytes> sizes = {1, 1000, 123 * kKiB};
  for (const RequestId id : step()) sizes.insert(job.script.requests[id].size);
  for (const Bytes size : sizes) {
    for (const RequestId at : {step()[0], step()[7], job.middle_of(kChanged)}) {
      SCOPED_TRACE(text(size, " bytes before request ", at));
      expect_cost(with_extra(at, {size}), 1 + kNeighbourhood);
    }
  }
}

TEST_P(Streams, AMissingRequestCostsItsNeighbourhood) {
  for (std::size_t i = 0; i < step().size(); i += 3) {
    SCOPED_TRACE(text("without request ", i, " of the step"));
    Script script = job.script;
    erase_call(script, find_call(script, Call::Kind::kFree, step()[i]));
    erase_call(script, find_call(script, Call::Kind::kAllocate, step()[i]));
    expect_cost(script, kNeighbourhood);
  }
}

TEST_P(Streams, ALargerRequestCostsItsNeighbourhood) {
  for (std::size_t i = 0; i < step().size(); i += 3) {
    SCOPED_TRACE(text("request ", i, " of the step is larger"));
    Script script = job.script;
    Bytes& size = script.requests[step()[i]].size;
    size = size * 2 + 4096;
    expect_cost(script, 1 + kNeighbourhood);
  }
}

TEST_P(Streams, AStepCutShortLeavesTheNextOneWhole) {
  Script script = job.script;
  for (std::size_t i = step().size() / 2; i < step().size(); ++i) {
    erase_call(script, find_call(script, Call::Kind::kFree, step()[i]));
    erase_call(script, find_call(script, Call::Kind::kAllocate, step()[i]));
  }
  expect_cost(script, 0);
}

TEST_P(Streams, ATensorKeptForTwoStepsCostsWhatWouldHaveTakenItsPlace) {
  for (const RequestId id : {step()[3], job.middle_of(kChanged)}) {
    SCOPED_TRACE(text("request ", id));
    Script script = job.script;
    const std::size_t end = find_step(script, kChanged + 2);
    insert_call(script, end, {Call::Kind::kFree, id});
    erase_call(script, find_call(script, Call::Kind::kFree, id));
    const Played played = Player(job.plan).play(script);
    // Whatever lies there meanwhile: at worst a few per layer.
    EXPECT_LE(misses_of(played)[kChanged + 1], 40);
    EXPECT_LE(misses_of(played)[kChanged + 2], 40);
    EXPECT_EQ(misses_of(played)[kChanged + 3], 0);
    EXPECT_LE(played.end.peaks.reserved, job.plan->plan().arena * 2);
  }
}

TEST_P(Streams, RequestsOfPrivatePoolsAreTheFallbacksAndCostThePlanNothing) {
  const RequestId middle = job.middle_of(kChanged);
  const Asked& like = job.script.requests[middle];
  for (const Asked& pooled : {Asked{like.size, like.stream, 1}, Asked{64 * kKiB, 0, 2}}) {
    const Played played = Player(job.plan).play(with_extra(middle, pooled));
    EXPECT_EQ(played.end.served.unplanned[static_cast<std::size_t>(Unplanned::kPool)], 1);
    EXPECT_EQ(played.end.served.beside_plan(), 1);
  }
}

TEST(RuntimeAllocator, KeepsItsPlaceAmongPlannedRequestsOfPrivatePools) {
  // Each step allocates the same size in a private pool and outside of it, in turn.
  Job job;
  std::vector<Lifespan> spans;
  job.allocate(kMiB);
  for (int step = 0; step < 6; ++step) {
    const Time begin = job.now();
    job.mark(text("iteration ", step));
    std::vector<RequestId> kept;
    for (Bytes i = 1; i <= 20; ++i) {
      kept.push_back(job.allocate(i * 64 * kKiB, 0, 1));
      kept.push_back(job.allocate(i * 64 * kKiB, 7));
      kept.push_back(job.allocate(i * 64 * kKiB));
    }
    job.free_all(kept);
    spans.push_back({begin, job.now()});
  }
  const std::shared_ptr<const PlanIndex> plan = index_of(checked_plan(job.trace()));
  ASSERT_GT(plan->plan().slots.size(), plan->plan().prologue);
  const std::vector<std::int64_t> misses = misses_of(Player(plan).play(script_of(job.trace(), spans, 0)));
  EXPECT_THAT(std::vector(misses.begin() + 1, misses.end()), Each(20)) << "those of the pool";
}

// ---- streams ----

TEST(RuntimeAllocator, LendsIdleSpaceInTheArena) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}, 8 * kMiB));
  ASSERT_TRUE(watched.hits(8 * kMiB));  // maps the block of memory that it lies in
  EXPECT_TRUE(watched.hits(5 * kMiB)) << "no slot is like that, but there is space beside all slots";
  EXPECT_EQ(watched.allocator.statistics().reused, 5 * kMiB);
  EXPECT_TRUE(watched.hits(kMiB, 9)) << "nobody ever used that";
}

TEST(RuntimeAllocator, DoesNotLendWhatThePlanIsAboutToUse) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB, 4096}));
  EXPECT_FALSE(watched.hits(5 * kMiB));
  EXPECT_TRUE(watched.hits(8 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().served.planned, 1);
}

TEST(RuntimeAllocator, LendsAllThatIsIdleWhereThePlanIsNotFollowed) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB, 4096}));
  watched.free(watched.allocate(8 * kMiB));
  for (std::size_t i = 0; i < kAnchor; ++i) watched.free(watched.allocate(3 * kMiB));
  EXPECT_TRUE(watched.hits(5 * kMiB)) << "as in an evaluation, which has the arena to itself";
}

TEST(RuntimeAllocator, DoesNotLendWhatAnotherStreamUsedLast) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}, 8 * kMiB));
  watched.free(watched.allocate(8 * kMiB));
  watched.free(watched.allocate(7 * kMiB));
  EXPECT_FALSE(watched.hits(5 * kMiB, 9));
  EXPECT_TRUE(watched.hits(5 * kMiB, 0));
  EXPECT_THAT(device.waited_for(), IsEmpty()) << "lending is not worth a wait";
}

TEST(RuntimeAllocator, LendsAnythingToAnybodyBeforeItRunsOutOfMemory) {
  HostDevice device(12 * kMiB);
  CachingUpstream upstream{AllocatorSettings(), device};
  Watched watched(device, upstream, plan_of({8 * kMiB, 4096}));
  watched.free(watched.allocate(8 * kMiB));
  EXPECT_TRUE(watched.hits(5 * kMiB, 9)) << "upstream has not that much";
  EXPECT_EQ(watched.allocator.statistics().ooms, 0);
  EXPECT_EQ(watched.allocator.allocate(5 * kMiB), nullptr);
  EXPECT_EQ(watched.allocator.statistics().ooms, 1);
}

TEST(RuntimeAllocator, GivesASlotToItsOwnStreamOnly) {
  const PlannedTraining job = training_on_two_streams();
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, job.plan);
  const Bytes size = job.script.requests[1].size;  // nothing on the other stream is like it
  watched.free(watched.allocate(size, 7));
  EXPECT_EQ(watched.allocator.statistics().served.planned, 0);
  watched.allocate(job.script.requests[0].size, 0);
  EXPECT_EQ(watched.allocator.statistics().served.planned, 1);
}

TEST(RuntimeAllocator, HoldsABlockBackUntilTheStreamsItWasRecordedForAreDone) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB, 4096}, 8 * kMiB));
  watched.free(watched.allocate(8 * kMiB));  // puts memory there
  watched.begin_step();
  void* const block = watched.allocate(7 * kMiB);
  device.work(5);
  watched.allocator.record_stream(block, 5);
  watched.free(block);
  EXPECT_EQ(watched.allocator.statistics().requested, 0);
  EXPECT_EQ(watched.allocator.statistics().allocated, 7 * kMiB) << "stream 5 may still use it";
  EXPECT_FALSE(watched.hits(5 * kMiB)) << "unplanned: not worth a wait";
  device.finish(5);
  EXPECT_TRUE(watched.hits(5 * kMiB));
  EXPECT_EQ(device.waited_for().size(), 0U);
}

TEST(RuntimeAllocator, WaitsForOtherStreamsWhereThePlanNeedsTheirPlace) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}));
  void* const block = watched.allocate(8 * kMiB);
  const Work work = device.work(5);
  watched.allocator.record_stream(block, 5);
  watched.free(block);
  EXPECT_FALSE(device.is_behind(0, work));
  EXPECT_EQ(watched.allocate(8 * kMiB), block);
  EXPECT_TRUE(device.is_behind(0, work));
}

TEST(RuntimeAllocator, MakesAThirdStreamWaitForTheSecondsUseOfTheFirstsBlock) {
  // The block of stream 1 is used on stream 5. Stream 2 gets one half of it and waits; stream 3 gets the
  // other half behind an event of stream 1, which must not be one from before stream 1 itself waited for
  // stream 5.
  Plan plan;
  plan.arena = 8 * kMiB;
  plan.stream_gap = 4;
  plan.slots = {{.size = 8 * kMiB, .offset = 0, .stream = 1, .death = 1},
                {.size = 4 * kMiB, .offset = 0, .stream = 2, .death = 2},
                {.size = 4 * kMiB, .offset = 4 * kMiB, .stream = 3, .death = 3}};
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, index_of(plan));
  void* const block = watched.allocate(8 * kMiB, 1);
  const Work work = device.work(5);
  watched.allocator.record_stream(block, 5);
  watched.free(block);
  EXPECT_TRUE(watched.hits(4 * kMiB, 2));
  EXPECT_TRUE(device.is_behind(2, work));
  EXPECT_TRUE(watched.hits(4 * kMiB, 3));
  EXPECT_TRUE(device.is_behind(3, work));
}

TEST(RuntimeAllocator, WaitsForEveryStreamOfABlockThatManyUsed) {
  // More streams than a freed block keeps events of: its own stream waits for the others, and who takes the
  // block must not do so behind an event from before that.
  Plan plan;
  plan.arena = 9 * kMiB;
  plan.stream_gap = 4;
  plan.slots = {{.size = 8 * kMiB, .offset = 0, .stream = 1, .death = 2},
                {.size = kMiB, .offset = 8 * kMiB, .stream = 1, .death = 2},
                {.size = 9 * kMiB, .offset = 0, .stream = 2, .death = 3}};
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, index_of(plan));
  void* const shared = watched.allocate(8 * kMiB, 1);
  void* const other = watched.allocate(kMiB, 1);
  std::vector<Work> works;
  for (Stream stream = 11; stream <= 16; ++stream) {
    works.push_back(device.work(stream));
    watched.allocator.record_stream(shared, stream);
  }
  watched.free(other);  // an event of stream 1 is due at the next call
  watched.free(shared);
  for (Stream stream = 11; stream <= 14; ++stream) device.finish(stream);
  EXPECT_TRUE(watched.hits(9 * kMiB, 2));
  for (const Work& work : works) EXPECT_TRUE(device.is_behind(2, work)) << work.stream;
}

TEST(RuntimeAllocator, HoldsABlockBackWhileItCannotTellWhetherItsStreamsAreDone) {
  ClockedDevice clocked;
  FailingDevice device(clocked);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}));
  void* const block = watched.allocate(8 * kMiB);
  const Work work = clocked.work(5);
  watched.allocator.record_stream(block, 5);
  device.fail_every(DeviceCall::kRecord);
  device.fail_every(DeviceCall::kSynchronize);
  watched.free(block);
  watched.begin_step();
  EXPECT_FALSE(watched.hits(8 * kMiB)) << "nothing says that stream 5 is done";
  device.heal();
  watched.begin_step();
  EXPECT_TRUE(watched.hits(8 * kMiB));
  EXPECT_TRUE(clocked.is_behind(0, work));
}

TEST(RuntimeAllocator, RecordingItsOwnStreamHoldsNothingBack) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}));
  void* const block = watched.allocate(8 * kMiB, 3);
  watched.allocator.record_stream(block, 3);
  watched.free(block);
  EXPECT_EQ(watched.allocator.statistics().allocated, 0);
}

/// A program that uses its memory on several streams, on a device that knows what comes after what.
class StreamProgram {
 public:
  StreamProgram(std::shared_ptr<const PlanIndex> plan, unsigned seed, int streams, bool in_arena)
      : plan_(std::move(plan)), random_(seed), streams_(streams), watched_(device_, upstream_, plan_) {
    watched_.allocator.place_unplanned(in_arena);
    if (seed % 4 == 3) watched_.allocator.hold(kGiB);
  }

  void run(int calls) {
    for (int i = 0; i < calls; ++i) {
      if (!blocks_.empty() && chance(0.48)) {
        free_one();
      } else {
        allocate_one();
      }
      if (chance(0.1)) device_.finish(any_stream());
      if (chance(0.01)) begin_step();
      if (chance(0.002)) watched_.allocator.drop_plan();
      if (chance(0.01)) watched_.allocator.adopt(plan_);
    }
    while (!blocks_.empty()) free_one();
    device_.finish();
    watched_.allocator.empty_cache();
    watched_.expect_all_returned();
  }

  [[nodiscard]] RuntimeStatistics statistics() const { return watched_.allocator.statistics(); }

 private:
  struct Used {
    void* memory = nullptr;
    Bytes size = 0;
    Stream stream = 0;
  };

  bool chance(double of) { return std::uniform_real_distribution<>(0, 1)(random_) < of; }
  std::size_t any(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(random_); }
  Stream any_stream() { return any(static_cast<std::size_t>(streams_) - 1) * 7; }

  void begin_step() {
    watched_.begin_step();
    cursor_ = plan_->plan().prologue;
  }

  void allocate_one() {
    Asked wish = {static_cast<Bytes>(any(262144)) + 1, any_stream()};
    if (chance(0.8)) {
      const std::vector<Slot>& slots = plan_->plan().slots;
      cursor_ = cursor_ + 1 < slots.size() ? cursor_ + 1 : plan_->plan().prologue;
      wish = {slots[cursor_].size, slots[cursor_].stream};
    }
    const Used block = {watched_.allocate(wish.size, wish.stream), wish.size, wish.stream};
    races_.expect_done(address(block), block.size, block.stream);
    use(block, block.stream);
    blocks_.push_back(block);
  }

  void free_one() {
    const std::size_t which = chance(0.5) ? blocks_.size() - 1 : any(blocks_.size() - 1);
    const Used block = blocks_[which];
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(which));
    use(block, block.stream);
    if (chance(0.2)) {
      for (std::size_t i = any(7); i-- > 0;) lend(block, any_stream());
    }
    watched_.free(block.memory);
  }

  /// Another stream works with the block, after what its own has done so far.
  void lend(const Used& block, Stream stream) {
    const DeviceEvent event = device_.record(block.stream);
    device_.wait(stream, event);
    device_.forget(event);
    watched_.allocator.record_stream(block.memory, stream);
    use(block, stream);
  }

  void use(const Used& block, Stream stream) {
    races_.used(address(block), block.size, device_.work(stream));
  }
  static std::uintptr_t address(const Used& block) { return reinterpret_cast<std::uintptr_t>(block.memory); }

  ClockedDevice device_;
  CachingUpstream upstream_{AllocatorSettings(), device_};
  RaceDetector races_{device_};
  std::shared_ptr<const PlanIndex> plan_;
  std::mt19937 random_;
  int streams_;
  Watched watched_;
  std::vector<Used> blocks_;
  std::size_t cursor_ = 0;
};

TEST(RuntimeAllocator, NeverHandsMemoryToAStreamBeforeItsLastUsersAreDone) {
  const std::shared_ptr<const PlanIndex> plan = training_on_two_streams().plan;
  std::int64_t waits = 0;
  for (const int streams : {2, 8, 90}) {
    for (unsigned seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE(text(streams, " streams, seed ", seed));
      StreamProgram program(plan, seed, streams, seed % 2 == 1);
      program.run(1500);
      EXPECT_GT(program.statistics().served.planned, 30);
      waits += program.statistics().waits;
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(waits, 0);
}

TEST(RuntimeAllocator, ServesMoreStreamsThanHaveNumbersFromTheFallback) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings(), device};
  Watched watched(device, upstream, plan_of({44 * kMiB}, 4 * kMiB));
  watched.free(watched.allocate(44 * kMiB));  // puts memory there, and behind it
  for (Stream stream = 1; stream <= 64; ++stream) watched.free(watched.allocate(512, stream));
  EXPECT_FALSE(watched.hits(512, 1000));
  void* const block = watched.allocate(512, 1);
  const Work work = device.work(1000);
  watched.allocator.record_stream(block, 1000);
  watched.free(block);
  void* const other = watched.allocate(512, 1);
  EXPECT_TRUE(other != block || device.is_behind(1, work));
  device.finish(1000);
  watched.allocator.empty_cache();
  EXPECT_EQ(watched.allocate(512, 1), block);
}

// ---- limits ----

TEST(RuntimeAllocator, WithoutAPlanIsTheFallback) {
  const PlannedTraining job = plain_training();
  for (const auto& plan : {std::shared_ptr<const PlanIndex>(), index_of(Plan())}) {
    const Played played = Player(plan).play(job.script);
    EXPECT_EQ(played.end.served.in_plan(), 0);
    EXPECT_EQ(played.end.arena, 0);
    EXPECT_EQ(played.end.peaks.reserved, played.end.peaks.fallback_reserved);
  }
}

TEST(RuntimeAllocator, GivesNothingForNoBytes) {
  const PlannedTraining job = plain_training();
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, job.plan);
  EXPECT_EQ(watched.try_allocate(0), nullptr);
  EXPECT_EQ(watched.try_allocate(0, 9, 3), nullptr);
  EXPECT_EQ(watched.allocator.allocate(-1), nullptr);
  watched.free(nullptr);
  EXPECT_TRUE(watched.hits(job.script.requests.front().size));
  EXPECT_EQ(watched.allocator.statistics().served.planned, 1);
}

TEST(RuntimeAllocator, RefusesWhatItDidNotGive) {
  HostDevice device(kGiB);
  CachingUpstream upstream{AllocatorSettings()};
  Watched watched(device, upstream, plan_of({8 * kMiB}));
  void* const block = watched.allocate(8 * kMiB);
  void* const other = watched.allocate(9 * kMiB);  // the fallback's
  const auto one_line = AllOf(HasSubstr("no block begins"), Not(HasSubstr("\n")));
  const auto not_allocated = AllOf(HasSubstr("not allocated"), Not(HasSubstr("\n")));
  const auto freeing = [&](void* memory) { return [&, memory] { watched.allocator.free(memory); }; };
  const auto sharing = [&](void* memory) {
    return [&, memory] { watched.allocator.record_stream(memory, 3); };
  };
  int elsewhere = 0;
  EXPECT_THAT(freeing(bytes(block) + 512), ThrowsMessage<Error>(one_line));
  EXPECT_THAT(sharing(bytes(block) + 512), ThrowsMessage<Error>(one_line));
  EXPECT_THAT(freeing(&elsewhere), ThrowsMessage<Error>(not_allocated));
  EXPECT_THAT(sharing(&elsewhere), ThrowsMessage<Error>(not_allocated));
  EXPECT_THAT(freeing(bytes(other) + 1), ThrowsMessage<Error>(not_allocated));
  watched.expect_balanced_books();
  watched.free(block);
  watched.free(other);
  EXPECT_THAT(freeing(block), ThrowsMessage<Error>(one_line));
  EXPECT_THAT(sharing(block), ThrowsMessage<Error>(one_line));
  EXPECT_THAT(freeing(other), ThrowsMessage<Error>(not_allocated));
  watched.expect_balanced_books();
  watched.expect_all_returned();
  EXPECT_EQ(watched.allocate(8 * kMiB), block) << "all is as if nobody had tried";
}

TEST(RuntimeAllocator, APlanForMoreThanTheDeviceHasCostsNothing) {
  HostDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  EXPECT_FALSE(watched.allocator.adopt(roomy_plan(2 * kGiB))) << "not even addresses";
  EXPECT_FALSE(watched.allocator.follows_plan());
  EXPECT_TRUE(watched.allocator.adopt(roomy_plan(66 * kMiB)));
  EXPECT_EQ(device.memory().free, 64 * kMiB);
  EXPECT_FALSE(watched.allocator.adopt(roomy_plan(2 * kGiB)));
  EXPECT_TRUE(watched.allocator.follows_plan()) << "all is as before";
  EXPECT_EQ(watched.try_allocate(66 * kMiB), nullptr);
  EXPECT_NE(watched.try_allocate(60 * kMiB), nullptr);
  EXPECT_EQ(watched.allocator.statistics().plans, 1);
}

TEST(RuntimeAllocator, OutOfMemoryIsNoBlockAndChangesNothing) {
  HostDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, roomy_plan(32 * kMiB));
  EXPECT_EQ(watched.try_allocate(80 * kMiB), nullptr);
  EXPECT_EQ(watched.try_allocate(Bytes{1} << 60U), nullptr);
  EXPECT_EQ(watched.allocator.statistics().ooms, 2);
  EXPECT_EQ(watched.allocator.statistics().served.in_plan(), 0);
  EXPECT_EQ(watched.allocator.statistics().arena, 0);
  EXPECT_TRUE(watched.hits(32 * kMiB));
}

TEST(RuntimeAllocator, GivesIdleArenaToAFallbackThatHasNoneLeft) {
  HostDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({40 * kMiB}));
  watched.free(watched.allocate(40 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().arena, 40 * kMiB);
  void* const large = watched.allocate(60 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().reclaims, 1);
  EXPECT_EQ(watched.allocator.statistics().arena, 0);
  watched.free(large);
  watched.allocator.empty_cache();
  watched.begin_step();
  EXPECT_TRUE(watched.hits(40 * kMiB)) << "the slot gets memory again when its request comes";
}

TEST(RuntimeAllocator, KeepsTheArenaOfLivingBlocksWhenItGivesTheRest) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({300 * kMiB, 300 * kMiB}));
  void* const block = watched.allocate(300 * kMiB);
  watched.free(watched.allocate(300 * kMiB));
  std::memset(block, 42, 300 * kMiB);
  watched.allocate(500 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().reclaims, 1);
  EXPECT_GE(watched.allocator.statistics().arena, 300 * kMiB);
  EXPECT_LT(watched.allocator.statistics().arena, 600 * kMiB);
  EXPECT_EQ(bytes(block)[0], std::byte{42});
  EXPECT_EQ(bytes(block)[300 * kMiB - 1], std::byte{42});
  watched.free(block);
}

TEST(RuntimeAllocator, BlocksThatWaitForStreamsAreReclaimedToo) {
  ClockedDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({40 * kMiB}));
  void* const block = watched.allocate(40 * kMiB);
  device.work(5);
  watched.allocator.record_stream(block, 5);
  watched.free(block);
  watched.allocate(60 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().allocated, 0);
}

// ---- plans come and go ----

TEST(RuntimeAllocator, LeavesLivingBlocksWhereTheyAreWhenThePlanChanges) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({4 * kMiB, 4 * kMiB}));
  std::vector<std::pair<void*, int>> blocks;
  const auto fill = [&](Bytes size) {
    void* const block = watched.allocate(size);
    blocks.emplace_back(block, static_cast<int>(blocks.size()) + 1);
    std::memset(block, blocks.back().second, static_cast<std::size_t>(size));
  };
  const auto expect_untouched = [&] {
    for (const auto& [block, value] : blocks) {
      EXPECT_EQ(bytes(block)[0], std::byte(value));
      EXPECT_EQ(bytes(block)[4 * kMiB - 1], std::byte(value));
    }
  };
  fill(4 * kMiB);
  watched.begin_step();
  watched.begin_step();
  for (const Bytes slots : {3, 40, 1, 10}) {
    ASSERT_TRUE(
        watched.allocator.adopt(plan_of(std::vector<Bytes>(static_cast<std::size_t>(slots), 4 * kMiB))));
    fill(4 * kMiB);
    fill(4 * kMiB);
    expect_untouched();
    watched.begin_step();
    watched.begin_step();
    expect_untouched();
  }
  watched.allocator.drop_plan();
  fill(4 * kMiB);
  expect_untouched();
  while (!blocks.empty()) {
    watched.free(blocks.back().first);
    blocks.pop_back();
    expect_untouched();
  }
  watched.allocator.empty_cache();
  watched.expect_all_returned();
  EXPECT_EQ(device.memory().free, kGiB);
}

TEST(RuntimeAllocator, PutsANewPlanWhereNobodyHasOutlivedAStep) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({4 * kMiB, 4 * kMiB}));
  void* const old = watched.allocate(4 * kMiB);
  watched.begin_step();
  watched.begin_step();
  ASSERT_TRUE(watched.allocator.adopt(plan_of({6 * kMiB, 2 * kMiB})));
  EXPECT_GE(bytes(watched.allocate(6 * kMiB)), bytes(old) + 4 * kMiB);
  watched.allocate(2 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().served.planned, 3) << "the old block is in nobody's way";
}

/// Three blocks of 4 MiB side by side, of which the middle one is gone, and a plan whose one slot takes its
/// place.
class GapOfAPlan : public testing::Test {
 protected:
  void SetUp() override {
    watched.allocator.place_unplanned(true);
    std::vector<void*> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(watched.allocate(4 * kMiB));
    gap = blocks[1];
    kept = {blocks[0], blocks[2]};
    for (int i = 0; i < 2; ++i) watched.begin_step();
    watched.free(gap);
    gaps = watched.allocator.lasting_gaps();
    Plan plan;
    plan.slots = {{.size = 4 * kMiB, .stream = 0, .death = 1}};
    plan.in_gaps = {{0, {gaps.front().lower, gaps.front().lower + 4 * kMiB}}};
    ASSERT_TRUE(watched.allocator.adopt(index_of(std::move(plan)), true));
  }

  HostDevice device{kGiB};
  CachingUpstream upstream{AllocatorSettings(), device};
  Watched watched{device, upstream};
  void* gap = nullptr;
  std::vector<void*> kept;
  Gaps gaps;
};

TEST_F(GapOfAPlan, IsWhatLastingBlocksLeaveOfTheirExtents) {
  EXPECT_THAT(gaps, ElementsAre(Property(&Interval::length, 4 * kMiB), Property(&Interval::length, 4 * kMiB)))
      << "and the end of the extent";
}

TEST_F(GapOfAPlan, ServesItsSlotAndTakesNoMemory) {
  const Bytes before = watched.allocator.statistics().arena;
  for (int step = 0; step < 3; ++step) {
    void* const block = watched.allocate(4 * kMiB);
    EXPECT_EQ(block, gap);
    watched.free(block);
    watched.begin_step();
  }
  EXPECT_EQ(watched.allocator.statistics().served.planned, 3);
  EXPECT_EQ(watched.allocator.statistics().arena, before);
}

TEST_F(GapOfAPlan, IsNoPlaceWhereItsMemoryIsGone) {
  for (void* const block : kept) watched.free(block);
  watched.allocator.empty_cache();
  ASSERT_EQ(watched.allocator.statistics().arena, 0);
  watched.begin_step();
  watched.free(watched.allocate(4 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().served.planned, 0);
  EXPECT_EQ(watched.allocator.statistics().step.unplanned_bytes, 4 * kMiB);
}

TEST(RuntimeAllocator, GivesTheArenaBackWhenThePlanIsDropped) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, roomy_plan(64 * kMiB));
  watched.free(watched.allocate(64 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().reserved(), 64 * kMiB);
  watched.allocator.drop_plan();
  EXPECT_FALSE(watched.allocator.follows_plan());
  EXPECT_EQ(watched.allocator.statistics().reserved(), 0);
  EXPECT_EQ(device.memory().free, kGiB);
  EXPECT_FALSE(watched.hits(4096));
  ASSERT_TRUE(watched.allocator.adopt(roomy_plan(64 * kMiB)));
  EXPECT_TRUE(watched.hits(64 * kMiB));
}

TEST(RuntimeAllocator, EmptyCacheGivesAllIdleMemoryBackThatOfThePlanToo) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({64 * kMiB}));
  watched.free(watched.allocate(64 * kMiB));
  watched.free(watched.allocate(100 * kMiB));
  EXPECT_GE(watched.allocator.statistics().fallback_reserved, 100 * kMiB);
  watched.allocator.empty_cache();
  EXPECT_EQ(watched.allocator.statistics().reserved(), 0);
  EXPECT_EQ(device.memory().free, kGiB);
  watched.begin_step();
  EXPECT_TRUE(watched.hits(64 * kMiB)) << "the plan is followed all the same";
}

TEST(RuntimeAllocator, WhatIsFreedGoesBackToTheDeviceWhereNothingIsServedAnyMore) {
  HostDevice device(8 * kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  std::vector<void*> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(watched.allocate(64 * kMiB));
  watched.allocator.place_unplanned(false);
  const Bytes most = watched.allocator.statistics().arena;
  for (std::size_t i = 0; i < blocks.size() / 2; ++i) watched.free(blocks[i]);
  EXPECT_LE(watched.allocator.statistics().arena, most / 2 + most / 100);
  for (std::size_t i = blocks.size() / 2; i < blocks.size(); ++i) watched.free(blocks[i]);
  EXPECT_LE(watched.allocator.statistics().arena, 8 * kMiB);
}

TEST(RuntimeAllocator, GivesTheFallbacksIdleMemoryBackAfterAStepThatWasAsPlanned) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({256 * kMiB}));
  void* const kept = watched.allocate(256 * kMiB);
  watched.free(watched.allocate(100 * kMiB));
  watched.begin_step();
  EXPECT_GT(watched.allocator.statistics().fallback_reserved, 0) << "the next step may need it, too";
  watched.begin_step();
  EXPECT_EQ(watched.allocator.statistics().fallback_reserved, 0);
  watched.free(kept);
}

// ---- what is not planned ----

TEST(RuntimeAllocator, WithoutAPlanServesFromTheArena) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  void* const block = watched.allocate(5 * kMiB);
  const RuntimeStatistics now = watched.allocator.statistics();
  EXPECT_EQ(now.unplanned, 5 * kMiB);
  EXPECT_EQ(now.arena, 16 * kMiB) << "a block of memory at once";
  EXPECT_EQ(now.fallback_reserved, 0);
  EXPECT_EQ(now.served.unplanned[static_cast<std::size_t>(Unplanned::kNoPlan)], 1) << "no plan served it";
  EXPECT_EQ(now.step.unplanned_bytes, 5 * kMiB);
  watched.free(block);
  EXPECT_THAT([&] { watched.allocator.free(block); }, ThrowsMessage<Error>(HasSubstr("freed twice")));
  watched.allocator.empty_cache();
  EXPECT_EQ(device.memory().free, kGiB);
}

TEST(RuntimeAllocator, RequestsOfPrivatePoolsAreTheFallbacksWithoutAPlanToo) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  void* const block = watched.allocate(5 * kMiB, 0, 3);
  EXPECT_EQ(watched.allocator.statistics().fallback, 5 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().arena, 0);
  watched.free(block);
}

TEST(RuntimeAllocator, AdoptingAPlanGivesIdleMemoryBack) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  std::vector<void*> blocks;
  std::vector<void*> stay;
  for (int i = 0; i < 10; ++i) {
    blocks.push_back(watched.allocate(40 * kMiB));
    if (i % 5 == 2) stay.push_back(watched.allocate(2 * kMiB));
  }
  for (void* const block : blocks) watched.free(block);
  for (int i = 0; i < 2; ++i) watched.begin_step();
  EXPECT_GE(watched.allocator.statistics().arena, 400 * kMiB) << "kept for the next step";
  ASSERT_TRUE(watched.allocator.adopt(roomy_plan(400 * kMiB)));
  EXPECT_LE(watched.allocator.statistics().reserved(), 16 * kMiB) << "memory behind what lives";
  EXPECT_LE(watched.allocator.statistics().peaks.reserved, 420 * kMiB);
  EXPECT_TRUE(watched.hits(400 * kMiB));
  EXPECT_LE(watched.allocator.statistics().peaks.reserved, 420 * kMiB);
  for (void* const block : stay) watched.free(block);
  watched.begin_step();
  EXPECT_EQ(watched.allocator.statistics().reserved(), 400 * kMiB) << "no block is outside of the plan";
}

TEST(RuntimeAllocator, WhatThePlanHasNoPlaceForGoesBesideItAndItsMemoryBackAfterAStepThatWasAsPlanned) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({256 * kMiB}));
  watched.allocator.place_unplanned(true);
  void* const planned = watched.allocate(256 * kMiB);
  void* const extra = watched.allocate(100 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().unplanned, 100 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().served.beside_plan(), 1);
  EXPECT_EQ(watched.allocator.statistics().reserved(), 356 * kMiB);
  watched.free(planned);
  watched.free(extra);
  watched.begin_step();
  EXPECT_EQ(watched.allocator.statistics().reserved(), 356 * kMiB) << "the next step may need it, too";
  watched.free(watched.allocate(256 * kMiB));
  watched.begin_step();
  EXPECT_EQ(watched.allocator.statistics().reserved(), 256 * kMiB);
}

TEST(RuntimeAllocator, TakesMemoryFromBehindIdleSlotsRatherThanHoldMoreThanEver) {
  HostDevice device(4 * kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({kGiB}));
  watched.allocator.place_unplanned(true);
  watched.free(watched.allocate(kGiB));
  for (int step = 0; step < 5; ++step) {
    watched.begin_step();
    void* const first = watched.allocate(600 * kMiB);  // as no slot is
    void* const second = watched.allocate(400 * kMiB);
    EXPECT_LE(watched.allocator.statistics().peaks.reserved, kGiB + 16 * kMiB) << "in step " << step;
    watched.free(first);
    watched.free(second);
  }
  watched.begin_step();
  EXPECT_TRUE(watched.hits(kGiB)) << "the slot gets its memory back";
  EXPECT_LE(watched.allocator.statistics().peaks.reserved, kGiB + 16 * kMiB);
}

TEST(RuntimeAllocator, InSteadyStepsNothingMovesAndTheDriverIsNotCalled) {
  const PlannedTraining job = plain_training();
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({64 * kMiB, 32 * kMiB, 200 * kMiB}));
  watched.allocator.place_unplanned(true);
  for (int step = 0; step < 6; ++step) {
    std::vector<void*> blocks;
    for (const Bytes size : {64, 32, 200}) blocks.push_back(watched.allocate(size * kMiB));
    for (void* const block : blocks) watched.free(block);
    watched.begin_step();
    const std::int64_t calls = watched.allocator.statistics().last_step.driver_calls;
    EXPECT_TRUE(step == 0 || calls == 0) << calls << " calls in step " << step;
  }
}

TEST(RuntimeAllocator, RecordsNoEventsBehindFreesBeforeMemoryMoves) {
  HostDevice host(4 * kGiB);
  FailingDevice device(host);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream, plan_of({kGiB, 200 * kMiB}));
  watched.allocator.place_unplanned(true);
  const auto events_of_step = [&](const std::vector<Bytes>& sizes) {
    const std::int64_t before = device.calls(DeviceCall::kRecord);
    std::vector<void*> blocks;
    for (const Bytes size : sizes) blocks.push_back(watched.allocate(size));
    for (void* const block : blocks) watched.free(block);
    watched.begin_step();
    return device.calls(DeviceCall::kRecord) - before;
  };
  const std::vector<Bytes> as_planned = {kGiB, 200 * kMiB};
  EXPECT_EQ(events_of_step(as_planned), 2) << "the first step maps memory";
  EXPECT_EQ(events_of_step(as_planned), 2) << "behind such a step";
  EXPECT_EQ(events_of_step(as_planned), 0);
  EXPECT_EQ(events_of_step({600 * kMiB, 300 * kMiB}), 3)
      << "memory moves: one to wait for, one for each free";
}

TEST(RuntimeAllocator, ServesFromTheFallbackAgainWhenItIsTold) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  void* const stays = watched.allocate(40 * kMiB);
  watched.free(watched.allocate(40 * kMiB));
  watched.allocator.place_unplanned(false);
  watched.allocator.drop_plan();
  EXPECT_EQ(watched.allocator.statistics().arena, 40 * kMiB) << "what lives";
  watched.free(watched.allocate(40 * kMiB));
  EXPECT_EQ(watched.allocator.statistics().fallback_reserved, 40 * kMiB);
  watched.free(stays);
  watched.begin_step();
  EXPECT_EQ(watched.allocator.statistics().arena, 0);
}

TEST(RuntimeAllocator, GivesBackWhatWaitedForOtherStreamsWhereNothingIsServedAnyMore) {
  ClockedDevice device;
  CachingUpstream upstream{AllocatorSettings()};
  RuntimeAllocator allocator(device, upstream);
  allocator.place_unplanned(true);
  void* const used = allocator.allocate(512 * kMiB, 1);
  device.work(2);
  allocator.record_stream(used, 2);
  allocator.place_unplanned(false);
  allocator.free(used);
  EXPECT_EQ(allocator.statistics().arena, 512 * kMiB) << "the other stream is at work there";
  device.finish();
  allocator.free(allocator.allocate(kMiB, 1));
  EXPECT_EQ(allocator.statistics().waiting, 0);
  EXPECT_EQ(allocator.statistics().arena, 0);
}

TEST(RuntimeAllocator, ServesAgainAfterARequestThatNoDeviceCouldServe) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  watched.allocate(100 * kMiB);
  EXPECT_EQ(watched.try_allocate(8 * kGiB), nullptr);
  watched.allocate(100 * kMiB);
  EXPECT_EQ(watched.allocator.statistics().fallback_reserved, 0);
  EXPECT_EQ(watched.allocator.statistics().arena, 200 * kMiB);
}

TEST(RuntimeAllocator, TellsTheMostBehindTheArenaApartFromWhatTheFallbackHeld) {
  HostDevice device(kGiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  watched.free(watched.allocate(40 * kMiB));
  watched.allocator.empty_cache();
  watched.free(watched.allocate(30 * kMiB, 0, 1));  // a pool's
  watched.begin_step();
  const Peaks peaks = watched.allocator.statistics().last_step.peaks;
  EXPECT_EQ(peaks.arena, 40 * kMiB);
  EXPECT_EQ(peaks.reserved, 40 * kMiB);
  EXPECT_GT(peaks.fallback_reserved, 0);
}

TEST(RuntimeAllocator, AnyStreamGetsAnyMemoryBeforeItRunsOut) {
  HostDevice device(64 * kMiB);
  CachingUpstream upstream(AllocatorSettings(), device);
  Watched watched(device, upstream);
  watched.allocator.place_unplanned(true);
  void* const first = watched.allocate(40 * kMiB, 1);
  watched.allocate(10 * kMiB, 1);
  watched.free(first);
  EXPECT_NE(watched.try_allocate(46 * kMiB, 2), nullptr);
  EXPECT_EQ(watched.try_allocate(20 * kMiB, 2), nullptr);
  EXPECT_EQ(watched.try_allocate(Bytes{1} << 62U, 2), nullptr);
  EXPECT_EQ(watched.allocator.statistics().ooms, 2);
  EXPECT_GT(watched.allocator.statistics().refusals, 0);
}

// ---- a device that fails ----

constexpr std::array kDeviceCallsOfTheArena = {
    DeviceCall::kReserve, DeviceCall::kRelease, DeviceCall::kMap,
    DeviceCall::kUnmap,   DeviceCall::kRecord,  DeviceCall::kWait,
    DeviceCall::kPassed,  DeviceCall::kAwait,   DeviceCall::kSynchronize};

class Everywhere : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(RuntimeAllocator, Everywhere, testing::Bool(), [](const auto& unplanned) {
  return unplanned.param ? "InTheArena" : "ByTheFallback";
});

TEST_P(Everywhere, ServesTheJobWhateverCallOfTheDeviceFails) {
  const bool in_arena = GetParam();
  const PlannedTraining job = training_on_two_streams();
  for (const DeviceCall call : kDeviceCallsOfTheArena) {
    for (const std::int64_t nth : {0, 1, 2, 5}) {
      SCOPED_TRACE(text("call ", static_cast<int>(call), ", number ", nth));
      HostDevice host(kGiB);
      FailingDevice device(host);
      CachingUpstream upstream{AllocatorSettings()};
      Watched watched(device, upstream);
      watched.allocator.place_unplanned(in_arena);
      if (nth == 0) {
        device.fail_every(call);
      } else {
        device.fail_nth(call, nth);
      }
      watched.allocator.adopt(job.plan);
      std::map<RequestId, void*> blocks;
      for (const Call& played : job.script.calls) {
        const Asked& asked = job.script.requests[played.request];
        if (played.kind == Call::Kind::kStep) {
          watched.begin_step();
        } else if (played.kind == Call::Kind::kFree) {
          watched.free(blocks.at(played.request));
          blocks.erase(played.request);
        } else {
          void* const block = blocks[played.request] = watched.allocate(asked.size, asked.stream);
          if (played.request % 9 == 0) watched.allocator.record_stream(block, 77 + played.request % 7);
        }
      }
      watched.allocator.drop_plan();
      for (int i = 0; i < 20; ++i) watched.free(watched.allocate(kMiB * i + 1));
      watched.allocator.adopt(job.plan);
      for (const auto& [id, block] : blocks) watched.free(block);
      device.heal();
      watched.allocator.empty_cache();
      watched.allocator.drop_plan();
      watched.expect_all_returned();
      EXPECT_EQ(watched.allocator.statistics().arena, 0);
    }
  }
}

TEST(RuntimeAllocator, DoesWithoutAnArenaOnADeviceThatCannotMap) {
  HostDevice host(kGiB);
  FailingDevice device(host);
  CachingUpstream upstream(AllocatorSettings(), host);
  Watched watched(device, upstream);
  device.fail_every(DeviceCall::kReserve);
  EXPECT_FALSE(watched.allocator.adopt(roomy_plan(64 * kMiB)));
  EXPECT_FALSE(watched.hits(4096));
  device.heal();
  device.fail_every(DeviceCall::kMap);
  EXPECT_TRUE(watched.allocator.adopt(roomy_plan(64 * kMiB)));
  EXPECT_FALSE(watched.hits(64 * kMiB));
  device.heal();
  watched.begin_step();
  EXPECT_TRUE(watched.allocator.adopt(roomy_plan(64 * kMiB)));
  EXPECT_TRUE(watched.hits(64 * kMiB));
}

TEST(RuntimeAllocator, ServesElsewhereWhatCannotBeOrdered) {
  for (const DeviceCall call : {DeviceCall::kRecord, DeviceCall::kWait}) {
    ClockedDevice clocked;
    FailingDevice device(clocked);
    CachingUpstream upstream{AllocatorSettings()};
    Plan plan;
    plan.arena = 8 * kMiB;
    plan.slots = {{.size = 8 * kMiB, .offset = 0, .stream = 1, .death = 1},
                  {.size = 8 * kMiB, .offset = 0, .stream = 2, .death = 2}};
    Watched watched(device, upstream, index_of(plan));
    void* const first = watched.allocate(8 * kMiB, 1);
    const Work work = clocked.work(1);
    watched.free(first);
    device.fail_every(call);
    EXPECT_FALSE(watched.hits(8 * kMiB, 2));
    device.heal();
    watched.begin_step();
    EXPECT_TRUE(watched.hits(8 * kMiB, 1));
    static_cast<void>(work);
  }
}

// ---- any stream of requests ----

/// Requests at random: often as the plan has them next, often not.
class RandomRequests {
 public:
  RandomRequests(const std::shared_ptr<const PlanIndex>& plan, unsigned seed, double foreign)
      : plan_(plan->plan()), random_(seed), foreign_(foreign), watched_(device_, upstream_, plan) {
    watched_.allocator.place_unplanned(seed % 2 == 1);
  }

  void make(int calls) {
    for (int i = 0; i < calls; ++i) {
      if (!blocks_.empty() && chance(0.47)) {
        free_one();
      } else {
        allocate_one();
      }
      if (chance(0.002)) cursor_ = plan_.prologue;
      if (chance(0.005)) watched_.begin_step();
    }
    while (!blocks_.empty()) free_one();
    watched_.expect_all_returned();
  }

 private:
  bool chance(double of) { return std::uniform_real_distribution<>(0, 1)(random_) < of; }
  template <typename Number>
  Number any(Number low, Number high) {
    return std::uniform_int_distribution<Number>(low, high)(random_);
  }

  void allocate_one() {
    Asked wish{any<Bytes>(0, 3 * kMiB), any<Stream>(0, 1) * 7, 0};
    if (chance(0.05)) wish.pool = any<Pool>(1, 2);
    if (!plan_.slots.empty() && !chance(foreign_)) {
      cursor_ = (cursor_ + (chance(0.1) ? any<std::size_t>(0, 5) : 1)) % plan_.slots.size();
      const Slot& slot = plan_.slots[cursor_];
      wish = {slot.size, slot.stream, 0};
      if (slot.varying || chance(0.05)) wish.size = any<Bytes>(slot.size / 2, slot.size + 600);
    }
    blocks_.push_back(watched_.try_allocate(wish.size, wish.stream, wish.pool));
  }

  void free_one() {
    const std::size_t which = chance(0.5) ? blocks_.size() - 1 : any<std::size_t>(0, blocks_.size() - 1);
    watched_.free(blocks_[which]);
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  HostDevice device_{64 * kGiB};
  CachingUpstream upstream_{AllocatorSettings()};
  const Plan& plan_;
  std::mt19937 random_;
  double foreign_;
  Watched watched_;
  std::size_t cursor_ = 0;
  std::vector<void*> blocks_;
};

TEST(RuntimeAllocator, NeverLetsTwoLivingBlocksShareAByteWhateverIsAsked) {
  Training varying({.side_stream = 7});
  for (const Bytes scale : {8, 12, 16, 11, 14, 9}) varying.step(scale);
  const std::vector<std::shared_ptr<const PlanIndex>> plans = {
      plain_training().plan, training_on_two_streams().plan, index_of(checked_plan(varying.job.trace())),
      index_of(Plan())};
  for (std::size_t which = 0; which < plans.size(); ++which) {
    for (const double foreign : {0.02, 0.4, 1.0}) {  // fits, half fits, does not fit
      for (unsigned seed = 0; seed < 4; ++seed) {
        SCOPED_TRACE(text("plan ", which, ", foreign ", foreign, ", seed ", seed));
        RandomRequests(plans[which], seed, foreign).make(3000);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace stweaver
