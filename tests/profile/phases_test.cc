#include "profile/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/classes.h"
#include "support/job.h"

namespace stweaver {
namespace {

using testing::ElementsAre;

TEST(Phases, BeginAtMarksAndSteps) {
  Job job;
  for (int i = 0; i < 30; ++i) job.allocate(1);
  Trace trace = job.trace();
  trace.marks = {{5, "phase F chunk 0 mb 0"}, {9, "backward"}, {12, "a note"}, {20, "optimizer"}};
  const Phases phases = find_phases(trace, {StepSource::kMarks, {{3, 25}}, ""});
  EXPECT_TRUE(phases.marked);
  EXPECT_THAT(phases.begins, ElementsAre(0, 3, 5, 9, 20, 25));
}

TEST(Phases, FollowTheRiseAndFallOfMemoryWithoutMarks) {
  Job job;
  std::vector<RequestId> kept;
  std::vector<Time> turns;
  for (int wave = 0; wave < 3; ++wave) {
    for (int i = 0; i < 20; ++i) kept.push_back(job.allocate(100));
    turns.push_back(job.now());
    job.free_all(kept);
    turns.push_back(job.now());
  }
  turns.pop_back();  // nothing rises after the last fall
  const Phases phases = find_phases(job.trace(), {});
  EXPECT_FALSE(phases.marked);
  EXPECT_THAT(phases.begins, ElementsAre(0, turns[0], turns[1], turns[2], turns[3], turns[4]));
}

TEST(Phases, AreOneWhenNothingHappens) {
  EXPECT_THAT(find_phases(Job().trace(), {}).begins, ElementsAre(0));
}

TEST(Phases, HoldEveryTime) {
  const Phases phases{true, {0, 10, 20}};
  EXPECT_EQ(phase_at(phases, kBeforeRecording), 0);
  EXPECT_EQ(phase_at(phases, 0), 0);
  EXPECT_EQ(phase_at(phases, 9), 0);
  EXPECT_EQ(phase_at(phases, 10), 1);
  EXPECT_EQ(phase_at(phases, kForever), 2);
}

TEST(Classes, TellHowLongARequestLives) {
  Job job;
  const RequestId weight = job.allocate(1);  // never freed
  const RequestId state = job.allocate(1);   // outlives a step
  const Time first = job.now();
  const RequestId activation = job.allocate(1);  // from the forward to the backward
  const RequestId scratch = job.allocate(1);
  job.free(scratch);
  job.mark("backward");
  job.touch(1);
  job.free(activation);
  const RequestId gradient = job.allocate(1);  // into the next step, but not through it
  const Time second = job.now();
  job.touch(1);
  job.free(gradient);
  const RequestId spanning = job.allocate(1);
  const Time third = job.now();
  job.allocate(1);
  const Time end = job.now();
  job.free(spanning);
  job.free(state);
  const Steps steps{StepSource::kMarks, {{first, second}, {second, third}, {third, end}}, ""};
  const Trace trace = job.trace();
  const auto classes = classify(trace, steps, find_phases(trace, steps));
  EXPECT_EQ(classes[weight], LifeClass::kPersistent);
  EXPECT_EQ(classes[state], LifeClass::kPersistent);
  EXPECT_EQ(classes[activation], LifeClass::kScoped);
  EXPECT_EQ(classes[scratch], LifeClass::kTransient);
  EXPECT_EQ(classes[gradient], LifeClass::kScoped);
  EXPECT_EQ(classes[spanning], LifeClass::kPersistent) << "the third step passes while it lives";
}

}  // namespace
}  // namespace stweaver
