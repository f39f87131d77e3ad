// A job that runs in another way than planned.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/runtime.h"
#include "support/planned_training.h"
#include "support/play.h"
#include "support/small_plans.h"
#include "support/watched.h"

namespace stweaver {
namespace {

using testing::Each;

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
