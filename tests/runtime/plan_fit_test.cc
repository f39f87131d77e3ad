#include "runtime/plan_fit.h"

#include <gtest/gtest.h>

namespace stweaver {
namespace {

constexpr Bytes kRange = kGiB;
constexpr std::int64_t kPlanned = 1000;

enum class Verdict : std::uint8_t { kFollow, kDistrust, kLeave };

class PlanFitTest : public testing::Test {
 protected:
  /// A step that used so many of the plan's places, and asked for so many bytes beside it.
  Verdict judge(std::int64_t used, Bytes unplanned) {
    StepStatistics step;
    step.served.planned = used;
    step.unplanned_bytes = unplanned;
    if (fit.is_lost(step, kPlanned)) return Verdict::kLeave;
    return fit.is_outdated(step, kRange) ? Verdict::kDistrust : Verdict::kFollow;
  }
  Verdict fitting() { return judge(kPlanned, kRange / policy.misfit_share); }
  Verdict misfitting() { return judge(kPlanned, kRange / policy.misfit_share + 1); }
  Verdict astray() { return judge(kPlanned / policy.astray_share - 1, kRange); }

  /// Misfits until the plan is distrusted; 100 at most.
  int misfits_borne() {
    fit.start();
    int steps = 1;
    while (steps < 100 && misfitting() == Verdict::kFollow) ++steps;
    return steps;
  }

  Policy policy;
  PlanFit fit{policy};
};

TEST_F(PlanFitTest, FollowsAPlanThatFits) {
  for (int step = 0; step < 1000; ++step) EXPECT_EQ(fitting(), Verdict::kFollow);
}

TEST_F(PlanFitTest, BearsOneOddStep) {
  fitting();
  EXPECT_EQ(misfitting(), Verdict::kFollow);
  EXPECT_EQ(fitting(), Verdict::kFollow);
}

TEST_F(PlanFitTest, StepsRepeatWhereTwoOfThreeAreLikeTheOneBefore) {
  const auto note = [&](std::int64_t requests, Bytes requested) {
    StepStatistics step;
    step.served.planned = requests;
    step.peaks.requested = requested;
    fit.note(step);
  };
  EXPECT_TRUE(fit.steps_repeat()) << "nothing is known";
  note(6400, kGiB);
  note(6400 + 100, kGiB + kGiB / 64);
  EXPECT_TRUE(fit.steps_repeat()) << "a little more is the same";
  note(6400, 2 * kGiB);
  EXPECT_FALSE(fit.steps_repeat()) << "one of two";
  note(6400, 2 * kGiB);
  EXPECT_TRUE(fit.steps_repeat()) << "two of three";
  note(9000, 2 * kGiB);
  EXPECT_FALSE(fit.steps_repeat());
  for (int step = 0; step < 2 * policy.most_steps; ++step) note(9000, 2 * kGiB);
  note(6400, kGiB);
  EXPECT_TRUE(fit.steps_repeat()) << "the rest is long ago";
}

TEST_F(PlanFitTest, DistrustsAPlanAfterTwoMisfitsInARow) {
  fitting();
  EXPECT_EQ(misfitting(), Verdict::kFollow);
  EXPECT_EQ(misfitting(), Verdict::kDistrust);
}

TEST_F(PlanFitTest, LeavesAPlanAfterTwoStepsAstrayInARow) {
  EXPECT_EQ(astray(), Verdict::kFollow);
  EXPECT_EQ(astray(), Verdict::kLeave);
}

TEST_F(PlanFitTest, ALostStepBetweenOthersIsNoReasonToLeave) {
  policy.patience = 2;
  for (int step = 0; step < 20; ++step) {
    EXPECT_EQ(judge(0, 0), Verdict::kFollow);
    EXPECT_EQ(fitting(), Verdict::kFollow);
  }
}

TEST_F(PlanFitTest, AStepThatUsedHalfOfThePlacesIsNotAstray) {
  for (int step = 0; step < 20; ++step) EXPECT_EQ(judge(kPlanned / policy.astray_share, 0), Verdict::kFollow);
}

TEST_F(PlanFitTest, BearsMoreEachTimeThatPlanningAgainDidNotHelp) {
  EXPECT_EQ(fit.patience(), 2);
  EXPECT_EQ(misfits_borne(), 2);
  EXPECT_EQ(misfits_borne(), 4);
  EXPECT_EQ(misfits_borne(), 8);
  EXPECT_EQ(misfits_borne(), 16);
  EXPECT_EQ(misfits_borne(), 32);
  EXPECT_EQ(misfits_borne(), 64);
  EXPECT_EQ(misfits_borne(), 64) << "and no more than that";
  EXPECT_EQ(fit.patience(), 64);
}

TEST_F(PlanFitTest, DoesLongerWithoutAPlanEachTimeThatOneWasLeft) {
  for (const int patience : {4, 8, 16, 32, 64, 64}) {
    fit.start();
    EXPECT_EQ(astray(), Verdict::kFollow);
    EXPECT_EQ(astray(), Verdict::kLeave) << "steps astray are never borne longer";
    EXPECT_EQ(fit.patience(), patience);
  }
}

TEST_F(PlanFitTest, AFittingStepMakesUpForMisfits) {
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(misfitting(), Verdict::kFollow);
    EXPECT_EQ(fitting(), Verdict::kFollow);
  }
}

TEST_F(PlanFitTest, ForgivesNoMisfitsInAdvance) {
  for (int step = 0; step < 100; ++step) fitting();
  EXPECT_EQ(misfits_borne(), 2);
}

TEST_F(PlanFitTest, IsAsImpatientAsAtFirstOnceAPlanHasFittedForLong) {
  misfits_borne();
  misfits_borne();
  ASSERT_EQ(fit.patience(), 8);
  fit.start();
  for (int step = 0; step < policy.most_patience - 1; ++step) fitting();
  EXPECT_EQ(fit.patience(), 8);
  fitting();
  EXPECT_EQ(fit.patience(), 2);
}

TEST_F(PlanFitTest, ForgetsThePlanBefore) {
  misfitting();
  astray();
  fit.start();
  EXPECT_EQ(misfitting(), Verdict::kFollow);
  fit.start();
  EXPECT_EQ(astray(), Verdict::kFollow);
}

TEST_F(PlanFitTest, APlanOfNothingIsNeverAstray) {
  for (int step = 0; step < 10; ++step) EXPECT_FALSE(fit.is_lost({}, 0) || fit.is_outdated({}, 0));
}

}  // namespace
}  // namespace stweaver
