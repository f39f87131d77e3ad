#include "plan/checker.h"

#include <functional>

#include "support/checked.h"
#include "support/instances.h"
#include "support/job.h"
#include "support/naive_plan.h"

namespace stweaver {
namespace {

using testing::Contains;
using testing::Each;
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

  /// The lines that the checker gives for the plan after `change`.
  std::vector<std::string> offences(const std::function<void(Plan&)>& change) {
    Plan plan = plan_;
    change(plan);
    return check_plan(plan, trace_, 10'000);
  }

  /// The first of them.
  std::string offence(const std::function<void(Plan&)>& change) {
    const std::vector<std::string> lines = offences(change);
    return lines.empty() ? "nothing" : lines.front();
  }

  [[nodiscard]] std::size_t first_of_step() const { return plan_.prologue; }

  /// The bytes of the largest request that the slot stands for.
  [[nodiscard]] Bytes largest_in(std::size_t slot) const {
    Bytes largest = 0;
    for (const auto& [request, first, count] : plan_.runs)
      if (slot >= first && slot - first < count)
        largest = std::max(largest, trace_.requests[request + (slot - first)].size);
    return largest;
  }
};

TEST_F(CheckPlan, ReportsAPlanOfAnotherTrace) {
  EXPECT_THAT(offence([](Plan& plan) { ++plan.fingerprint; }), HasSubstr("made from another trace"));
  for (const auto& change : std::vector<std::function<void(Trace&, Request&)>>{
           [](Trace&, Request&request) { ++request.size; }, [](Trace&, Request&request) { ++request.stream; },
           [](Trace&, Request&request) { --request.life.lower; },
           [](Trace&, Request&request) { ++request.life.upper; },
           [](Trace&trace, Request&) { ++trace.end; }}) {
    Trace other = trace_;
    change(other, other.requests[trace_.requests.size() / 2]);
    EXPECT_THAT(check_plan(plan_, other), ElementsAre(HasSubstr("made from another trace")));
  }
}

TEST_F(CheckPlan, ReportsAnOffsetThatIsNotAligned) {
  for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
    const Bytes offset = plan_.slots[slot].offset + 1;
    EXPECT_THAT(offences([&](Plan& plan) { plan.slots[slot].offset = offset; }),
                Contains(text("slot ", slot, " at ", offset, " is not aligned to 512")));
  }
  EXPECT_THAT(offence([](Plan& plan) { plan.alignment = 0; }), HasSubstr("alignment is 0"));
  EXPECT_THAT(offence([](Plan& plan) { plan.alignment = -512; }), HasSubstr("alignment is -512"));
}

TEST_F(CheckPlan, ReportsASizeThatIsNoMultipleOfTheAlignment) {
  for (const Bytes offset : {plan_.slots[3].offset, kUnplanned}) {
    for (const Bytes size : {Bytes{0}, Bytes{-512}, Bytes{511}}) {
      EXPECT_THAT(offence([=](Plan& plan) {
                    plan.slots[3].size = size;
                    plan.slots[3].offset = offset;
                  }),
                  text("slot 3 has ", size, " bytes, and slots have multiples of 512"));
    }
  }
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
  for (const Bytes offset : {plan_.slots[9].offset, kUnplanned}) {
    EXPECT_THAT(offence([offset](Plan& plan) {
                  plan.slots[9].death = 9;
                  plan.slots[9].offset = offset;
                }),
                HasSubstr("slot 9 dies before it is born"));
  }
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

TEST_F(CheckPlan, ReportsARunThatGoesOnBehindTheSlots) {
  EXPECT_THAT(offences([](Plan& plan) {
                const std::size_t end = plan.slots.size();
                const auto first_to_end = std::ranges::find_if(
                    plan.runs, [&](const auto& run) { return std::size_t{run.slot} + run.count == end; });
                ASSERT_LT(first_to_end, std::prev(plan.runs.end())) << "the trace ends there, too";
                ++first_to_end->count;
              }),
              Contains(HasSubstr("the plan speaks of requests")));
}

TEST_F(CheckPlan, ReportsRunsThatDoNotAscend) {
  const auto not_ascending = Contains(HasSubstr("does not follow the one before it"));
  EXPECT_THAT(offences([](Plan& plan) { plan.runs.push_back(plan.runs.back()); }), not_ascending);
  EXPECT_THAT(offences([](Plan& plan) { std::swap(plan.runs[1], plan.runs[2]); }), not_ascending);
  EXPECT_THAT(offences([](Plan& plan) { --plan.runs[2].request; }), not_ascending);
  EXPECT_THAT(offences([](Plan& plan) { ++plan.prologue; }), not_ascending) << "its last slot comes again";
}

TEST_F(CheckPlan, ReportsSlotsThatStandForNoRequestOrForTooMany) {
  EXPECT_THAT(offence([](Plan& plan) { plan.runs.clear(); }), HasSubstr("slot 0 stands for no request"));
  EXPECT_THAT(offence([](Plan& plan) { plan.runs.resize(1); }),
              text("slot ", first_of_step(), " stands for no request"));
  EXPECT_THAT(offences([](Plan& plan) { ++plan.prologue; }),
              Contains(HasSubstr("of the prologue stands for")));
}

TEST_F(CheckPlan, ReportsStepsThatCannotBe) {
  const std::size_t length = plan_.slots.size() - plan_.prologue;
  for (const std::size_t steps : {std::size_t{0}, length - 1, length + 1})
    EXPECT_THAT(offence([steps](Plan& plan) { plan.steps = steps; }),
                text("what repeats, ", length, " slots, is no ", steps, " steps"));
  EXPECT_THAT(offence([length](Plan& plan) { plan.steps = length; }), HasSubstr("its own in the next step"));
  EXPECT_THAT(offence([](Plan& plan) { plan.prologue_steps = 3 * plan.prologue + 1; }),
              HasSubstr(text("a prologue of ", plan_.prologue, " requests has no ")));
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

TEST_F(CheckPlan, ReportsEveryRequestOnAnotherStreamThanItsSlot) {
  for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
    const auto of_slot = Contains(testing::EndsWith(text(" is on another stream than slot ", slot)));
    EXPECT_THAT(offences([slot](Plan& plan) { plan.slots[slot].stream = 99; }), of_slot);
    EXPECT_THAT(offences([slot](Plan& plan) {
                  plan.slots[slot].stream = 99;
                  plan.slots[slot].offset = kUnplanned;
                }),
                of_slot);
  }
}

TEST_F(CheckPlan, ReportsEverySizeThatIsNotItsRequests) {
  int varying = 0;
  int fixed = 0;
  for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
    const Bytes least = align_up(largest_in(slot), plan_.alignment);
    std::vector<Bytes> wrong = {least - 512};
    if (!plan_.slots[slot].varying) wrong.push_back(least + 512);
    for (const Bytes size : wrong) {
      for (const Bytes offset : {plan_.slots[slot].offset, kUnplanned}) {
        EXPECT_THAT(offences([&](Plan& plan) {
                      plan.slots[slot].size = size;
                      plan.slots[slot].offset = offset;
                    }),
                    Contains(HasSubstr(text("does not match slot ", slot, " of ", size))));
      }
    }
    (plan_.slots[slot].varying ? varying : fixed) += 1;
  }
  EXPECT_GT(varying, 20);
  EXPECT_GT(fixed, 20);
}

TEST_F(CheckPlan, ReportsALowerBoundThatCannotBe) {
  EXPECT_THAT(offence([](Plan& plan) { plan.lower_bound = plan.arena + 1; }), HasSubstr("cannot be"));
  EXPECT_THAT(offence([](Plan& plan) { plan.lower_bound = -1; }), HasSubstr("cannot be"));
}

/// The same with what lives for ever on top.
Plan turned_over(Plan plan) {
  Bytes floor = 0;
  for (const Slot& slot : plan.slots)
    if (slot.death == kForever) floor = std::max(floor, slot.offset + slot.size);
  for (Slot& slot : plan.slots) {
    if (slot.offset == kUnplanned) continue;
    const bool is_below = slot.offset < floor;
    slot.offset += slot.death == kForever ? plan.arena - floor : -floor;
    if (slot.offset < 0 || (is_below && slot.death != kForever)) slot.offset = kUnplanned;
  }
  return plan;
}

TEST_F(CheckPlan, ReportsAStepOfLengthsBelowWhatLivesForEver) {
  ASSERT_EQ(plan_.shape, StepShape::kVarying);
  plan_ = turned_over(plan_);
  const std::vector<std::string> lines = offences([](Plan&) {});
  EXPECT_GT(lines.size(), 20);
  EXPECT_THAT(lines, Each(HasSubstr("lies below what lives for ever")));
  EXPECT_THAT(offences([](Plan& plan) { plan.shape = StepShape::kFixed; }), IsEmpty());
}

class CheckPlanOfEqualSteps : public CheckPlan {
 protected:
  explicit CheckPlanOfEqualSteps(Bytes keeps = 0) {
    Training training({.layers = 4, .zero_grad_first = true, .side_stream = 7, .keeps = keeps});
    for (int i = 0; i < 5; ++i) training.step();
    trace_ = training.job.trace();
    plan_ = checked_plan(trace_);
  }
};

TEST_F(CheckPlanOfEqualSteps, ReportsEveryDeathThatIsOneTooEarly) {
  for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
    if (plan_.slots[slot].death == kForever) continue;
    EXPECT_THAT(offences([slot](Plan& plan) { --plan.slots[slot].death; }),
                Contains(HasSubstr(text("lives longer than slot ", slot))));
  }
}

TEST_F(CheckPlanOfEqualSteps, ReportsAnArenaThatIsLargerThanItsSlotsNeed) {
  EXPECT_THAT(offences([](Plan& plan) { plan.arena += 512; }),
              ElementsAre(text("the arena of ", plan_.arena + 512, " bytes goes on behind ", plan_.arena,
                               ", where the last slot ends")));
}

class CheckPlanOfTwoSteps : public CheckPlanOfEqualSteps {
 protected:
  CheckPlanOfTwoSteps() : CheckPlanOfEqualSteps(64 * kKiB) {}
};

TEST_F(CheckPlanOfTwoSteps, ReportsStepsThatAreNotAlike) {
  ASSERT_EQ(plan_.steps, 2);
  const std::size_t first = first_of_step();
  const std::size_t second = first + (plan_.slots.size() - first) / 2;
  const auto unlike =
      Contains(text("slot ", first, " is unlike slot ", second, ", its own in the next step"));
  for (const std::size_t slot : {first, second}) {
    EXPECT_THAT(offences([slot](Plan& plan) { plan.slots[slot].stream = 99; }), unlike);
    EXPECT_THAT(offences([slot](Plan& plan) { ++plan.slots[slot].death; }), unlike);
    EXPECT_THAT(offences([slot](Plan& plan) { plan.slots[slot].size += 512; }), unlike);
    EXPECT_THAT(offences([slot](Plan& plan) {
                  plan.slots[slot].size += 512;
                  plan.slots[slot].varying = true;
                }),
                Not(unlike));
  }
}

TEST(CheckPlanByHand, SeesWhatIsLeftOfAStretchThatWasPartlyReused) {
  for (const Bytes reused : {0, 512}) {
    Plan plan;
    plan.prologue = 3;
    plan.arena = 1024;
    plan.stream_gap = 2;
    plan.slots = {{.size = 1024, .offset = 0, .stream = 1, .death = 1},
                  {.size = 512, .offset = reused, .stream = 1, .death = 2},
                  {.size = 512, .offset = 512 - reused, .stream = 0, .death = 3}};
    EXPECT_THAT(check_plan(plan), ElementsAre("slot 2 takes bytes of another stream's slot 0 after 1 "
                                              "requests, less than the plan's 2"));
  }
}

TEST(CheckPlanByHand, KeepsEmptyRequestsApart) {
  Job job;
  for (int i = 0; i < 2; ++i) job.allocate(0);
  Plan plan;
  plan.fingerprint = fingerprint_of(job.trace());
  plan.prologue = 2;
  plan.arena = 512;
  plan.slots = {{.size = 512, .offset = 0, .death = 1}, {.size = 512, .offset = 0, .death = kForever}};
  plan.runs = {{0, 0, 2}};
  EXPECT_THAT(check_plan(plan, job.trace()), Contains("request 1 and request 0 share bytes at time 1"));
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
  EXPECT_THAT(offence([](Plan& plan) { plan.slots[plan.in_gaps[5].slot].size -= 512; }),
              HasSubstr("lies in a gap from"));
  EXPECT_THAT(offence([](Plan& plan) { plan.stream_gap = 1000; }), HasSubstr("less than the plan's 1000"));
  EXPECT_THAT(offence([](Plan& plan) { plan.slots[plan.in_gaps[0].slot].death = 1000; }),
              HasSubstr("share bytes"));
}

TEST_F(CheckPlan, ReportsRecordedRequestsThatMeetInAGap) {
  plan_ = moved_into_gaps(checked_plan(trace_, {.step_only = true}));
  plan_.stream_gap = 0;
  for (const auto& [slot, place] : plan_.in_gaps) plan_.slots[slot].death = Time{slot} + 1;
  EXPECT_THAT(offences([](Plan& plan) {
                for (auto& [slot, place] : plan.in_gaps) place = {0, place.length()};
              }),
              Contains(testing::AllOf(HasSubstr("request "), HasSubstr("share bytes"))));
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
              Contains(testing::AllOf(HasSubstr("request "), HasSubstr("share bytes"))));
}

}  // namespace
}  // namespace stweaver
