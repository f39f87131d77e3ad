#include "plan/checker.h"

#include <functional>

#include "support/checked.h"
#include "support/instances.h"
#include "support/job.h"

namespace stweaver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// ---- Bare rectangles
// -------------------------------------------------------------------------------------------

TEST(CheckPlacement, AgreesWithComparingEveryPair) {
  int sound = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Random random(seed);
    std::vector<Lifespan> lives;
    std::vector<Bytes> sizes;
    std::vector<Bytes> offsets;
    for (std::int64_t i = 0, count = pick(random, 0, 7); i < count; ++i) {
      const Time birth = pick(random, 0, 8);
      lives.push_back({birth, birth + pick(random, 1, 5)});
      sizes.push_back(pick(random, 0, 4));
      offsets.push_back(pick(random, 0, 12));
    }
    bool clean = true;
    for (std::size_t i = 0; i < lives.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const bool share = offsets[i] < offsets[j] + sizes[j] && offsets[j] < offsets[i] + sizes[i] &&
                           sizes[i] > 0 && sizes[j] > 0;
        clean = clean && !(share && overlaps(lives[i], lives[j]));
      }
    }
    EXPECT_EQ(check_placement(lives, sizes, offsets).empty(), clean) << "seed " << seed;
    sound += clean ? 1 : 0;
  }
  EXPECT_GT(sound, 1000);
  EXPECT_LT(sound, 3000);
}

TEST(CheckPlacement, NamesTheTwoThatMeetAndWhen) {
  EXPECT_THAT(check_placement({{0, 9}, {3, 5}}, {10, 10}, {0, 9}),
              ElementsAre("item 1 and item 0 share bytes at time 3"));
}

TEST(CheckPlacement, ReportsWhatLiesBelowZero) {
  EXPECT_THAT(check_placement({{0, 9}}, {10}, {-1}), ElementsAre("item 0 lies below 0"));
}

TEST(CheckPlacement, ReportsNoMoreThanAsked) {
  const std::vector<Lifespan> lives(50, {0, 1});
  const std::vector<Bytes> same(50, 8);
  EXPECT_EQ(check_placement(lives, same, same).size(), 20);
  EXPECT_EQ(check_placement(lives, same, same, {}, 3).size(), 3);
}

TEST(CheckPlacement, RefusesAnEndBeyondAllNumbers) {
  const Bytes most = std::numeric_limits<Bytes>::max();
  EXPECT_THAT(check_placement({{0, 1}}, {2}, {most - 1}), ElementsAre(HasSubstr("ends beyond all numbers")));
  EXPECT_THAT(check_placement({{0, 1}, {0, 1}}, {1, most}, {most - 1, 0}),
              ElementsAre(HasSubstr("share bytes")));
}

// ---- Plans
// -----------------------------------------------------------------------------------------------------

/// Two streams, gradients that cross the turn of the step, sizes that vary.
Trace busy_trace() {
  Training training({.layers = 4, .zero_grad_first = true, .side_stream = 7});
  for (int i = 0; i < 5; ++i) training.step(i % 2 == 0 ? 8 : 10);
  return training.job.trace();
}

class CheckPlan : public testing::Test {
 protected:
  Trace trace_ = busy_trace();
  Plan plan_ = checked_plan(trace_);

  /// The line that the checker gives for the plan after `change`.
  std::string offence(const std::function<void(Plan&)>& change) {
    Plan plan = plan_;
    change(plan);
    const std::vector<std::string> lines = check_plan(plan, trace_);
    return lines.empty() ? "nothing" : lines.front();
  }

  [[nodiscard]] std::size_t first_of_step() const { return plan_.prologue; }
};

TEST_F(CheckPlan, ReportsAPlanOfAnotherTrace) {
  EXPECT_THAT(offence([](Plan& plan) { ++plan.fingerprint; }), HasSubstr("made from another trace"));
  for (const auto& change : std::vector<std::function<void(Request&)>>{
           [](Request& request) { ++request.size; }, [](Request& request) { ++request.stream; },
           [](Request& request) { request.life.upper = kForever; }}) {
    Trace other = trace_;
    change(other.requests[trace_.requests.size() / 2]);
    EXPECT_THAT(check_plan(plan_, other), Not(IsEmpty()));
  }
}

TEST_F(CheckPlan, ReportsAnOffsetThatIsNotAligned) {
  EXPECT_THAT(offence([](Plan& plan) { plan.slots[3].offset += 1; }), HasSubstr("slot 3 at"));
  EXPECT_THAT(offence([](Plan& plan) { plan.alignment = 0; }), HasSubstr("alignment is 0"));
  EXPECT_THAT(offence([](Plan& plan) { plan.alignment = -512; }), HasSubstr("alignment is -512"));
}

TEST_F(CheckPlan, ReportsASlotOutsideTheArena) {
  EXPECT_THAT(offence([](Plan& plan) { plan.slots[3].offset = plan.arena; }),
              HasSubstr("does not fit the arena"));
  EXPECT_THAT(offence([](Plan& plan) { plan.slots[3].offset = -512; }), HasSubstr("does not fit the arena"));
  EXPECT_THAT(offence([](Plan& plan) { plan.arena -= 512; }), HasSubstr("does not fit the arena"));
  EXPECT_THAT(offence([](Plan& plan) { plan.slots[3].size = std::numeric_limits<Bytes>::max() - 1023; }),
              HasSubstr("does not fit the arena"));
}

TEST_F(CheckPlan, ReportsALifeThatEndsBeforeItBegins) {
  EXPECT_THAT(offence([](Plan& plan) { plan.slots[9].death = 9; }),
              HasSubstr("slot 9 dies before it is born"));
}

TEST_F(CheckPlan, ReportsALifeWithoutEndInTheStep) {
  const std::size_t slot = first_of_step();
  EXPECT_THAT(offence([slot](Plan& plan) { plan.slots[slot].death = kForever; }),
              HasSubstr("is never freed"));
}

TEST_F(CheckPlan, SurvivesDeathsBeyondAllNumbers) {
  for (std::size_t slot = first_of_step(); slot < plan_.slots.size(); ++slot) {
    EXPECT_NE(offence([slot](Plan& plan) { plan.slots[slot].death = kForever - 1; }), "nothing");
  }
}

TEST_F(CheckPlan, SurvivesAnAlignmentBeyondAllNumbers) {
  EXPECT_NE(offence([](Plan& plan) { plan.alignment = std::numeric_limits<Bytes>::max(); }), "nothing");
}

TEST_F(CheckPlan, ReportsRunsThatTheTraceDoesNotHave) {
  EXPECT_THAT(offence([](Plan& plan) { plan.runs.back().count += 1; }),
              HasSubstr("the plan speaks of requests"));
  EXPECT_THAT(offence([](Plan& plan) { plan.runs[0].slot = 0xffffffff; }),
              HasSubstr("the plan speaks of requests"));
  EXPECT_THAT(offence([](Plan& plan) { plan.runs[0].request = 0xffffffff; }),
              HasSubstr("the plan speaks of requests"));
}

TEST_F(CheckPlan, ReportsSlotsThatStandForNoRequestOrForTooMany) {
  EXPECT_THAT(offence([](Plan& plan) { plan.runs.clear(); }), HasSubstr("slot 0 stands for no request"));
  EXPECT_THAT(offence([](Plan& plan) { ++plan.prologue; }), HasSubstr("of the prologue stands for"));
}

TEST_F(CheckPlan, ReportsRequestsThatLiveLongerThanTheirSlots) {
  std::size_t found = 0;
  for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
    const Time born = static_cast<Time>(slot);
    if (plan_.slots[slot].death <= born + 1) continue;
    const std::string line = offence([&](Plan& plan) { plan.slots[slot].death = born + 1; });
    EXPECT_THAT(line, HasSubstr(text("lives longer than slot ", slot)));
    ++found;
  }
  EXPECT_GT(found, 20U);
}

TEST_F(CheckPlan, ReportsAPrologueLongerThanThePlan) {
  EXPECT_THAT(offence([](Plan& plan) { plan.prologue = plan.slots.size() + 1; }),
              HasSubstr("longer than the plan"));
}

TEST_F(CheckPlan, ReportsRequestsThatMissTheirSlots) {
  EXPECT_THAT(offence([](Plan& plan) { plan.runs[1].request += 1; }), HasSubstr("request "));
  EXPECT_THAT(offence([](Plan& plan) { plan.slots[0].stream = 99; }),
              HasSubstr("request 0 is on another stream"));
}

TEST_F(CheckPlan, ReportsEverySizeThatIsTooSmall) {
  int reported = 0;
  for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
    if (plan_.slots[slot].offset == kUnplanned || plan_.slots[slot].varying) continue;
    EXPECT_NE(offence([slot](Plan& plan) { plan.slots[slot].size -= 512; }), "nothing") << "slot " << slot;
    ++reported;
  }
  EXPECT_GT(reported, 20);
}

/// What the slots say, compared pair by pair over the prologue and three steps.
bool naive_clean(const Plan& plan) {
  struct Rectangle {
    Lifespan life;
    Bytes offset;
    Bytes size;
    Stream stream;
  };
  std::vector<Rectangle> all;
  const std::size_t length = plan.slots.size() - plan.prologue;
  for (std::size_t round = 0; round < 3; ++round) {
    for (std::size_t i = round == 0 ? 0 : plan.prologue; i < plan.slots.size(); ++i) {
      const Slot& slot = plan.slots[i];
      if (slot.offset == kUnplanned) continue;
      if (slot.offset < 0 || slot.offset + slot.size > plan.arena) return false;
      const auto shift = static_cast<Time>(round * length);
      const Time death = slot.death == kForever ? kForever : slot.death + shift;
      all.push_back({{static_cast<Time>(i) + shift, death}, slot.offset, slot.size, slot.stream});
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Rectangle& a = all[i];
      const Rectangle& b = all[j];
      if (a.offset >= b.offset + b.size || b.offset >= a.offset + a.size) continue;
      if (overlaps(a.life, b.life)) return false;
      const Time between =
          a.life.lower < b.life.lower ? b.life.lower - a.life.upper : a.life.lower - b.life.upper;
      if (a.stream != b.stream && between < plan.stream_gap) return false;
    }
  }
  return true;
}

TEST_F(CheckPlan, AgreesWithComparingEveryPairOfSlotsAfterRandomChanges) {
  ASSERT_TRUE(naive_clean(plan_));
  EXPECT_GT(plan_.stream_gap, 0);
  int clean = 0;
  int dirty = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Random random(seed);
    Plan plan = plan_;
    const auto last = static_cast<std::int64_t>(plan.slots.size()) - 1;
    Slot& slot = plan.slots[static_cast<std::size_t>(pick(random, 0, last))];
    Slot& other = plan.slots[static_cast<std::size_t>(pick(random, 0, last))];
    switch (pick(random, 0, 3)) {
      case 0:
        slot.offset += 512 * pick(random, -40, 40);
        break;
      case 1:
        if (slot.death != kForever) slot.death += pick(random, 0, 40);
        break;
      case 2:
        std::swap(slot.offset, other.offset);
        break;
      default:
        plan.stream_gap += pick(random, -5, 20);
        break;
    }
    if (slot.offset < 0 || slot.death < 0) continue;
    const auto number = static_cast<std::size_t>(&slot - plan.slots.data());
    if (slot.death == kForever && number >= plan.prologue) continue;
    const bool expected = naive_clean(plan);
    // Of the plan for ever after; what it says about the recorded requests is another question.
    EXPECT_EQ(check_plan(plan).empty(), expected) << "seed " << seed;
    (expected ? clean : dirty) += 1;
  }
  EXPECT_GT(clean, 20);
  EXPECT_GT(dirty, 100);
}

TEST_F(CheckPlan, ReportsALeastGapThatIsNotKept) {
  Plan plan = plan_;
  plan.stream_gap = static_cast<Time>(plan.slots.size()) * 3;
  std::vector<std::string> lines = check_plan(plan, trace_);
  ASSERT_THAT(lines, Not(IsEmpty())) << "the streams share nothing: nothing is tested here";
  EXPECT_THAT(lines.front(), HasSubstr("bytes of another stream's"));
}

/// The same with the places of all slots of its own step in gaps.
Plan moved_into_gaps(Plan plan) {
  for (std::uint32_t i = 0; i < plan.slots.size(); ++i) {
    Slot& slot = plan.slots[i];
    if (i < plan.prologue || slot.offset == kUnplanned) continue;
    plan.in_gaps.push_back({i, {slot.offset, slot.offset + slot.size}});
    slot.offset = kUnplanned;
  }
  return plan;
}

TEST_F(CheckPlan, LooksAtSlotsInGapsAsAtOthers) {
  plan_ = moved_into_gaps(checked_plan(trace_, {.step_only = true}));
  ASSERT_GT(plan_.in_gaps.size(), 20);
  EXPECT_THAT(check_plan(plan_, trace_), IsEmpty());
  EXPECT_THAT(offence([](Plan& plan) { plan.in_gaps[5].place = plan.in_gaps[4].place; }),
              HasSubstr("lies in a gap from"));
  EXPECT_THAT(offence([](Plan& plan) {
                Interval& place = plan.in_gaps[5].place;
                place = {plan.in_gaps[4].place.lower, plan.in_gaps[4].place.lower + place.length()};
              }),
              HasSubstr("share bytes"));
  EXPECT_THAT(offence([](Plan& plan) { --plan.slots[plan.in_gaps[5].slot].size; }),
              HasSubstr("lies in a gap from"));
  EXPECT_THAT(offence([](Plan& plan) { plan.stream_gap = 1000; }), HasSubstr("less than the plan's 1000"));
  EXPECT_THAT(offence([](Plan& plan) { plan.slots[plan.in_gaps[0].slot].death = 1000; }),
              HasSubstr("share bytes"));
}

TEST_F(CheckPlan, ReportsGapsThatMakeNoSense) {
  plan_ = moved_into_gaps(checked_plan(trace_, {.step_only = true}));
  const auto moved = [](Plan& plan, Bytes by) {
    plan.in_gaps[0].place.lower += by;
    plan.in_gaps[0].place.upper += by;
  };
  EXPECT_THAT(offence([](Plan& plan) { plan.in_gaps[0].slot = 1U << 30U; }),
              HasSubstr("which the plan does not have"));
  EXPECT_THAT(offence([](Plan& plan) { plan.slots[plan.in_gaps[0].slot].offset = 0; }),
              HasSubstr("in the arena and in a gap"));
  EXPECT_THAT(offence([&](Plan& plan) { moved(plan, 1); }), HasSubstr("is not aligned"));
  EXPECT_THAT(offence([&](Plan& plan) { moved(plan, -plan.in_gaps[0].place.lower - 512); }),
              HasSubstr("lies in a gap from -512"));
  EXPECT_THAT(offence([&](Plan& plan) { moved(plan, Bytes{1} << 61U); }), HasSubstr("lies in a gap from"));
}

TEST_F(CheckPlan, ReportsRecordedRequestsThatMeet) {
  // Slots that say they die early keep apart from each other, but the requests in them do not.
  Plan plan = plan_;
  plan.stream_gap = 0;
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    plan.slots[i].death = static_cast<Time>(i) + 1;
    plan.slots[i].offset = 0;
  }
  EXPECT_THAT(check_plan(plan, trace_, 10'000),
              testing::Contains(testing::AllOf(HasSubstr("request "), HasSubstr("share bytes"))));
}

}  // namespace
}  // namespace stweaver
