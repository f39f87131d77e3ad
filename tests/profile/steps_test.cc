#include "profile/steps.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/timeline.h"
#include "support/examples.h"
#include "support/job.h"

namespace stweaver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- Marks
// -----------------------------------------------------------------------------------------------------

/// A trace of `events` events with the given marks.
Trace marked(int events, const std::vector<Mark>& marks) {
  Job job;
  for (int i = 0; i < events; ++i) job.allocate(512);
  Trace trace = job.trace();
  trace.marks = marks;
  return trace;
}

TEST(StepsFromMarks, RunFromMarkToMark) {
  const Steps steps = steps_from_marks(marked(30, {{2, "iteration 0"}, {12, "iteration 1"}, {22, "end"}}));
  EXPECT_EQ(steps.source, StepSource::kMarks);
  EXPECT_THAT(steps.spans, ElementsAre(Lifespan{2, 12}, Lifespan{12, 22}));
}

TEST(StepsFromMarks, KnowTheUsualWords) {
  for (const std::string label : {"iteration ", "iter ", "step ", "Step: ", "ProfilerStep#", "train_step_",
                                  "Training step ", "step=", "step"}) {
    const Steps steps = steps_from_marks(marked(9, {{1, label + "7"}, {5, label + "8"}, {9, "end"}}));
    EXPECT_EQ(steps.spans.size(), 2) << label;
  }
}

TEST(StepsFromMarks, PassOverOtherLabels) {
  for (const std::string label :
       {"phase F chunk 0 mb 1", "stepwise", "step", "iteration 1 begins", "3", "", "a step 3"}) {
    const Steps steps = steps_from_marks(marked(9, {{1, label}, {5, label}, {9, "end"}}));
    EXPECT_THAT(steps.spans, IsEmpty()) << label;
    EXPECT_EQ(steps.source, StepSource::kNone);
    EXPECT_THAT(steps.note, HasSubstr("no step marks"));
  }
}

TEST(StepsFromMarks, HoldOneStepForTwoMarksAtOneTime) {
  const Steps steps =
      steps_from_marks(marked(9, {{1, "step 0"}, {1, "ProfilerStep#0"}, {5, "step 1"}, {9, "end"}}));
  EXPECT_THAT(steps.spans, ElementsAre(Lifespan{1, 5}, Lifespan{5, 9}));
}

TEST(StepsFromMarks, DropALastStepThatWasCutShort) {
  const std::vector<Mark> marks = {{0, "step 0"}, {10, "step 1"}, {20, "step 2"}};
  EXPECT_THAT(steps_from_marks(marked(25, marks)).spans, ElementsAre(Lifespan{0, 10}, Lifespan{10, 20}));
  EXPECT_THAT(steps_from_marks(marked(30, marks)).spans,
              ElementsAre(Lifespan{0, 10}, Lifespan{10, 20}, Lifespan{20, 30}));
}

TEST(StepsFromMarks, StopAtTheEndMark) {
  const Steps steps =
      steps_from_marks(marked(40, {{0, "step 0"}, {10, "step 1"}, {20, "end"}, {30, "step 2"}}));
  EXPECT_THAT(steps.spans, ElementsAre(Lifespan{0, 10}, Lifespan{10, 20}));
}

// ---- Repetition in real jobs
// -----------------------------------------------------------------------------------

class RealSteps : public testing::TestWithParam<std::string> {};

TEST_P(RealSteps, AreFoundWithoutTheMarks) {
  Trace trace = example(GetParam());
  const Steps marks = steps_from_marks(trace);
  trace.marks.clear();
  const Steps found = find_steps(trace);
  EXPECT_EQ(found.source, StepSource::kRepetition);
  ASSERT_EQ(found.spans.size(), marks.spans.size());
  // The program lets go of the last step's leftovers just before it fetches the next batch: where the mark
  // stands after that fetch, the boundary lies a little before the mark.
  const bool marked_after_fetching = GetParam() == "hf_trainer_varlen";
  for (std::size_t i = 0; i < found.spans.size(); ++i) {
    const auto length = static_cast<double>(marks.spans[i].length());
    const Time before = marks.spans[i].lower - found.spans[i].lower;
    EXPECT_LE(std::abs(static_cast<double>(before)), 0.005 * length) << "step " << i;
    if (!marked_after_fetching) {
      EXPECT_EQ(found.spans[i].lower, marks.spans[i].lower) << "step " << i;
      EXPECT_EQ(found.spans[i].upper, marks.spans[i].upper) << "step " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, RealSteps, testing::ValuesIn(example_jobs()),
                         [](const auto& job) { return job.param; });

// ---- Repetition in made-up jobs
// --------------------------------------------------------------------------------

Trace without_marks(const Training& training) {
  Trace trace = training.job.trace();
  trace.marks.clear();
  return trace;
}

/// The beginnings that were found; the first step may begin a little earlier or later, it has neighbours of
/// its own.
std::vector<Time> found_begins(const Steps& steps) {
  std::vector<Time> begins;
  for (const Lifespan& span : steps.spans) begins.push_back(span.lower);
  return begins;
}

TEST(StepsFromRepetition, FindStepsOfOneShape) {
  Training training({});
  for (int i = 0; i < 6; ++i) training.step();
  const Steps steps = find_steps(without_marks(training));
  EXPECT_EQ(steps.source, StepSource::kRepetition);
  EXPECT_EQ(found_begins(steps), training.begins());
  EXPECT_EQ(steps.spans.back().upper, training.job.now());
}

TEST(StepsFromRepetition, FindStepsWhateverTheNumberOfLayers) {
  for (const std::size_t layers : {2U, 3U, 5U, 12U, 40U}) {
    Training training({.layers = layers});
    for (int i = 0; i < 5; ++i) training.step();
    EXPECT_EQ(found_begins(find_steps(without_marks(training))), training.begins()) << layers << " layers";
  }
}

TEST(StepsFromRepetition, DoNotTakeMicroBatchesForSteps) {
  for (const int micro_batches : {2, 3, 8}) {
    Training training({.micro_batches = micro_batches});
    for (int i = 0; i < 6; ++i) training.step();
    EXPECT_EQ(found_begins(find_steps(without_marks(training))), training.begins()) << micro_batches;
  }
}

TEST(StepsFromRepetition, FindStepsOfVaryingLengths) {
  for (const unsigned seed : {1U, 2U, 3U, 4U, 5U}) {
    std::mt19937 random(seed);
    Training training({});
    for (int i = 0; i < 10; ++i) training.step(std::uniform_int_distribution<Bytes>(3, 40)(random));
    EXPECT_EQ(found_begins(find_steps(without_marks(training))), training.begins()) << "seed " << seed;
  }
}

TEST(StepsFromRepetition, FindStepsOfTwoKindsThatAlternateAtRandom) {
  for (const unsigned seed : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
    std::mt19937 random(seed);
    Training training({.layers = 8});
    for (int i = 0; i < 12; ++i) training.step(random() % 2 == 0 ? 8 : 12);
    EXPECT_EQ(found_begins(find_steps(without_marks(training))), training.begins()) << "seed " << seed;
  }
}

/// Without a clock it cannot be seen to which step the requests between two steps belong.
constexpr Time kBetweenSteps = 8;

TEST(StepsFromRepetition, FindStepsAroundAnEvaluation) {
  for (const int before : {3, 5, 8}) {
    Training training({});
    Time evaluation = 0;
    for (int i = 0; i < 10; ++i) {
      if (i == before) {
        evaluation = training.job.now();
        for (int batch = 0; batch < 3; ++batch) training.evaluate();
      }
      training.step();
    }
    const Steps steps = find_steps(without_marks(training));
    ASSERT_EQ(steps.spans.size(), training.begins().size()) << "evaluation before step " << before;
    for (int i = 0; i < 10; ++i) {
      const Time found = steps.spans[static_cast<std::size_t>(i)].lower;
      const Time begin = training.begins()[static_cast<std::size_t>(i)];
      EXPECT_LE(found, begin + kBetweenSteps) << "step " << i;
      EXPECT_GE(found, (i == before ? evaluation : begin) - kBetweenSteps) << "step " << i;
    }
  }
}

TEST(StepsFromRepetition, EndTheLastStepBeforeAnEvaluation) {
  for (const int batches : {1, 5, 9, 14, 19}) {
    Training training({});
    for (int i = 0; i < 10; ++i) training.step();
    const Time end = training.job.now();
    for (int batch = 0; batch < batches; ++batch) training.evaluate();
    const Steps steps = find_steps(without_marks(training));
    ASSERT_EQ(steps.spans.size(), 10) << batches << " batches";
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_LE(std::abs(steps.spans[i].lower - training.begins()[i]), kBetweenSteps)
          << batches << " batches";
    }
    const Time step = end - training.begins().back();
    EXPECT_LE(steps.spans.back().upper, end + step / 3) << batches << " batches";
  }
}

TEST(StepsFromRepetition, FindStepsThatKeepTheirGradientsForTheNext) {
  Training training({.zero_grad_first = true});
  for (int i = 0; i < 6; ++i) training.step();
  const Steps steps = find_steps(without_marks(training));
  EXPECT_EQ(steps.source, StepSource::kRepetition);
  EXPECT_EQ(steps.spans.size(), training.begins().size());
}

TEST(StepsFromRepetition, LeaveOutAStepThatWasCutShort) {
  Training training({});
  for (int i = 0; i < 6; ++i) training.step();
  const Time last = training.begins().back();
  for (const Time kept : {Time{20}, Time{60}, (training.job.now() - last) / 2}) {
    const Trace trace = prefix_of(without_marks(training), last + kept);
    const Steps steps = find_steps(trace);
    EXPECT_EQ(steps.spans.size(), 5) << kept << " events kept";
    EXPECT_EQ(steps.spans.back().upper, last) << kept << " events kept";
  }
}

TEST(StepsFromRepetition, DoNotTakeAnEndThatIsLikeTheBeginningForOneLongStep) {
  const auto set_up = [](Job& job) {
    std::mt19937 random(7);
    std::vector<RequestId> alive;
    for (int i = 0; i < 40; ++i) {
      alive.push_back(job.allocate(static_cast<Bytes>(random() % 100000 + 1)));
      for (; alive.size() > random() % 8; alive.pop_back()) job.free(alive.back());
    }
    job.free_all(alive);
  };
  Training training({});
  set_up(training.job);
  for (int i = 0; i < 6; ++i) training.step();
  set_up(training.job);
  EXPECT_EQ(find_steps(without_marks(training)).spans.size(), 6);
}

TEST(StepsFromRepetition, DoNotMoveTheLastBoundaryToAPauseInAStepThatWasCutShort) {
  constexpr Time kRequests = 16;
  for (Time pause = 0; pause < kRequests; ++pause) {
    Job job;
    for (int step = 0; step < 6; ++step) {
      std::vector<RequestId> activations;
      for (Time layer = 1; layer <= kRequests; ++layer) activations.push_back(job.allocate(layer * kMiB));
      if (step < 5) job.free_all(activations);
    }
    Trace trace = job.trace();
    const Time last = trace.end - kRequests;
    for (Time t = 0; t < trace.end; ++t) trace.micros.push_back(t < last + pause ? t : t + 1000);
    const Steps steps = find_steps(trace);
    ASSERT_EQ(steps.spans.size(), 5) << "pause before request " << pause;
    EXPECT_EQ(steps.spans.back(), (Lifespan{last - 2 * kRequests, last})) << "pause before request " << pause;
  }
}

TEST(StepsFromRepetition, SaySoWhenNothingRepeats) {
  Job job;
  std::mt19937 random(7);
  std::vector<RequestId> alive;
  for (int i = 0; i < 3000; ++i) {
    alive.push_back(job.allocate(static_cast<Bytes>(random() % 100000 + 1)));
    while (alive.size() > random() % 40) {
      std::swap(alive[random() % alive.size()], alive.back());
      job.free(alive.back());
      alive.pop_back();
    }
  }
  const Steps steps = find_steps(job.trace());
  EXPECT_EQ(steps.source, StepSource::kNone);
  EXPECT_THAT(steps.spans, IsEmpty());
  EXPECT_THAT(steps.note, HasSubstr("no repetition was found"));
}

TEST(StepsFromRepetition, SaySoForOneStep) {
  Training training({});
  training.step();
  const Steps steps = find_steps(without_marks(training));
  EXPECT_EQ(steps.source, StepSource::kNone);
  EXPECT_THAT(steps.note, HasSubstr("at least three steps"));
}

TEST(StepsFromRepetition, SaySoForTinyTraces) {
  for (int requests = 0; requests < 40; ++requests) {
    Job job;
    for (int i = 0; i < requests; ++i) job.touch(512);
    const Steps steps = find_steps(job.trace());
    EXPECT_EQ(steps.source, StepSource::kNone) << requests;
    EXPECT_FALSE(steps.note.empty());
  }
}

TEST(StepsFromRepetition, SurviveATraceOfBlocksFromBeforeOnly) {
  Job job;
  for (int i = 0; i < 100; ++i) job.before(512);
  EXPECT_EQ(find_steps(job.trace()).source, StepSource::kNone);
}

// The sanitizers see sums that overflow.
TEST(StepsFromRepetition, AreFoundWhateverTheClockSays) {
  Training training({});
  for (int i = 0; i < 40; ++i) training.step();
  Trace trace = without_marks(training);
  for (Time time = 0; time < trace.end; ++time) trace.micros.push_back(time % 2 == 0 ? kLatest : -kLatest);
  validate(trace);
  EXPECT_EQ(find_steps(trace).source, StepSource::kRepetition);
}

TEST(StepsFromRepetition, DoNotOverlapAndStayInTheTrace) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    Training training({.layers = 2 + random() % 5,
                       .micro_batches = 1 + static_cast<int>(random() % 3),
                       .zero_grad_first = random() % 2 == 0});
    for (std::size_t i = 0, steps = random() % 9; i < steps; ++i) {
      if (random() % 4 == 0) training.evaluate();
      training.step(random() % 3 == 0 ? 8 : 1 + static_cast<Bytes>(random() % 20));
    }
    const Trace whole = without_marks(training);
    const Trace trace = prefix_of(whole, static_cast<Time>(random() % static_cast<unsigned>(whole.end + 1)));
    const Steps steps = find_steps(trace);
    Time last = 0;
    for (const Lifespan& span : steps.spans) {
      EXPECT_GE(span.lower, last) << "seed " << seed;
      EXPECT_LT(span.lower, span.upper) << "seed " << seed;
      last = span.upper;
    }
    EXPECT_LE(last, trace.end) << "seed " << seed;
    EXPECT_EQ(steps.spans.empty(), !steps.note.empty()) << "seed " << seed;
  }
}

/// The steps of a longest_run_alike(), by number, of a job whose step k makes `counts[k]` requests.
std::vector<std::size_t> run_of(const std::vector<int>& counts) {
  Job job;
  for (const int count : counts) {
    job.mark(text("step ", job.now()));
    for (int i = 0; i < count; ++i) job.touch(512);
  }
  job.mark("end");
  const Steps steps = find_steps(job.trace());
  std::vector<std::size_t> run;
  for (const Lifespan& span : longest_run_alike(job.trace(), steps).spans)
    run.push_back(static_cast<std::size_t>(std::ranges::find(steps.spans, span) - steps.spans.begin()));
  return run;
}

TEST(LongestRunAlike, IsAllStepsWhereNoneIsOdd) {
  EXPECT_THAT(run_of({9, 9, 9}), ElementsAre(0, 1, 2));
}

TEST(LongestRunAlike, BeginsWithTheStepBeforeIt) {
  EXPECT_THAT(run_of({30, 9, 9, 14, 9, 9, 9, 9, 14, 9}), ElementsAre(3, 4, 5, 6, 7));
}

TEST(LongestRunAlike, IsTheLastOfEqualOnes) {
  EXPECT_THAT(run_of({9, 9, 14, 9, 9, 14, 9}), ElementsAre(2, 3, 4));
}

TEST(LongestRunAlike, HasStepsThatDifferByASixtyFourthOfTheirRequests) {
  EXPECT_THAT(run_of({128, 130, 126, 200, 128, 128, 131}), ElementsAre(0, 1, 2));
}

TEST(LongestRunAlike, IsNoneWhereNotEvenMostStepsMakeAsManyRequests) {
  EXPECT_THAT(run_of({9, 9, 9, 14, 15, 16}), IsEmpty());
  EXPECT_THAT(run_of({}), IsEmpty());
}

}  // namespace
}  // namespace stweaver
