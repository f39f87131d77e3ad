#include "profile/pattern.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/profile.h"
#include "support/job.h"

namespace stweaver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A job of marked steps, each of which does what `body` says.
Pattern pattern_of(int steps, const std::function<void(Job&, int)>& body,
                   const std::function<void(Job&)>& begin = {}) {
  Job job;
  if (begin) begin(job);
  for (int step = 0; step < steps; ++step) {
    job.mark(text("step ", step));
    body(job, step);
  }
  job.mark("end");
  return profile_of(job.trace()).pattern;
}

std::size_t count(const Pattern& pattern, PositionKind kind) {
  return static_cast<std::size_t>(
      std::count_if(pattern.positions.begin(), pattern.positions.end(),
                    [kind](const Position& position) { return position.kind == kind; }));
}

TEST(Pattern, OfEqualStepsIsOneOfThem) {
  const Pattern pattern = pattern_of(5, [](Job& job, int) {
    const RequestId kept = job.allocate(100);
    job.touch(10, 3);
    job.touch(20);
    job.free(kept);
    job.touch(30);
  });
  EXPECT_EQ(pattern.prologue, 4) << "the first step";
  EXPECT_THAT(pattern.steps, testing::SizeIs(4));
  ASSERT_THAT(pattern.positions, testing::SizeIs(4));
  EXPECT_EQ(count(pattern, PositionKind::kStatic), 4);
  EXPECT_EQ(pattern.positions[0].size, 100);
  EXPECT_EQ(pattern.positions[0].death, 3);
  EXPECT_EQ(pattern.positions[1].death, 2);
  EXPECT_EQ(pattern.positions[1].stream, 3);
  EXPECT_EQ(pattern.positions[3].death, 4) << "the end of the step";
  EXPECT_THAT(pattern.before.position_of, ElementsAre(0, 1, 2, 3));
}

TEST(Pattern, HoldsEveryRequestThatAnyStepMakes) {
  // Step 2 lacks the third request, step 3 has one more.
  const Pattern pattern = pattern_of(6, [](Job& job, int step) {
    for (int i = 0; i < 30; ++i) {
      if (step == 2 && i == 3) continue;
      job.touch(100 + 16 * i);
      if (step == 3 && i == 20) job.touch(7);
    }
  });
  ASSERT_THAT(pattern.positions, testing::SizeIs(31));
  EXPECT_EQ(pattern.positions[21].size, 7);
  EXPECT_EQ(pattern.positions[3].kind, PositionKind::kVarying)
      << "a request that some step lacks is not static";
  EXPECT_EQ(pattern.positions[21].kind, PositionKind::kVarying);
  EXPECT_EQ(count(pattern, PositionKind::kStatic), 31 - 2);
  EXPECT_EQ(pattern.steps[1].position_of[3], 4) << "step 2 passes over the position it lacks";
  EXPECT_EQ(pattern.steps[0].position_of[21], 22) << "and the others over that which they lack";
}

TEST(Pattern, OfRequestsInARowAlignsThoseOfOneSize) {
  // Sizes grow with the step's length. Longer steps make a request more, beside one whose size never changes.
  constexpr Bytes kGradient = 9'000'000;
  for (const bool is_before : {false, true}) {
    const Pattern pattern = pattern_of(6, [&](Job& job, int step) {
      const Bytes length = 300 + 20 * (step * 2 % 5);
      for (int i = 0; i < 60; ++i) {
        const RequestId layer = job.allocate((1000 + 8 * i) * length);
        for (int inner = 0; inner < i % 4; ++inner) job.touch(500 * length);
        job.free(layer);
        if (i != 30) continue;
        if (length > 340 && is_before) job.touch(77);
        job.touch(kGradient);
        if (length > 340 && !is_before) job.touch(77);
      }
    });
    ASSERT_THAT(pattern.positions, testing::SizeIs(60 + 90 + 2));
    const auto is_gradient = [&](const Position& position) { return position.size == kGradient; };
    const auto gradient = std::ranges::find_if(pattern.positions, is_gradient);
    ASSERT_NE(gradient, pattern.positions.end());
    EXPECT_EQ(gradient->smallest, kGradient) << "the other request is " << (is_before ? "before" : "behind");
    EXPECT_EQ(count(pattern, PositionKind::kDynamic), 0);
  }
}

/// Steps of lengths of their own. One request lives into the next step, and in some steps another one longer.
Pattern pattern_of_lengths(int steps, const std::vector<int>& steps_with_longer = {}) {
  std::vector<RequestId> kept;
  return pattern_of(steps, [&](Job& job, int step) {
    const Bytes length = 300 + 20 * (step * 2 % 5);
    for (int i = 0; i < 60; ++i) {
      const RequestId layer = job.allocate((1000 + 8 * i) * length);
      for (int inner = 0; inner < i % 4; ++inner) job.touch(500 * length);
      const bool is_longer = i == 30 && std::ranges::count(steps_with_longer, step) > 0;
      if (is_longer) job.touch(600 * length);
      job.free(layer);
      if (i == 30 && !is_longer) job.touch(600 * length);
      if (i == 5) job.free_all(kept);
    }
    kept.push_back(job.allocate(700 * length));
    job.touch(900 * length);
  });
}

TEST(Pattern, KnowsWhatOutlivesTheRecording) {
  const Pattern pattern = pattern_of_lengths(4);
  EXPECT_THAT(pattern.steps, testing::SizeIs(3));
  EXPECT_THAT(pattern.positions, testing::SizeIs(60 + 90 + 1 + 2));
  EXPECT_FALSE(last_step_is_new(pattern))
      << "that it never saw the last of them freed makes none of them new";
}

TEST(Pattern, KnowsARequestThatLivesLongerInSomeSteps) {
  const Pattern pattern = pattern_of_lengths(6, {2, 3});
  ASSERT_THAT(pattern.positions, testing::SizeIs(60 + 90 + 1 + 2));
  EXPECT_EQ(count(pattern, PositionKind::kDynamic), 0);
}

TEST(Pattern, OfTwoKindsOfStepsServesBoth) {
  const Pattern pattern = pattern_of(8, [](Job& job, int step) {
    for (int i = 0; i < 40; ++i) job.touch(100 + 16 * i);
    for (int i = 0; i < 20; ++i)
      job.touch(step % 2 == 0 ? 5000 + 16 * i : 9000 + 16 * i, step % 2 == 0 ? 0 : 4);
  });
  EXPECT_EQ(pattern.positions.size(), 80);
  EXPECT_EQ(pattern.steps.size(), 7);
  for (const AlignedStep& step : pattern.steps) {
    EXPECT_TRUE(std::is_sorted(step.position_of.begin(), step.position_of.end()));
    EXPECT_THAT(step.position_of, testing::SizeIs(60));
  }
}

TEST(Pattern, TakesTheLargestSize) {
  const Pattern pattern = pattern_of(5, [](Job& job, int step) {
    for (int i = 0; i < 20; ++i) job.touch(512);
    job.touch(Bytes{1000} * (5 - step));
  });
  ASSERT_THAT(pattern.positions, testing::SizeIs(21));
  EXPECT_EQ(pattern.positions[20].size, 4000) << "of steps 1 to 4";
  EXPECT_EQ(pattern.positions[20].smallest, 1000);
  EXPECT_EQ(pattern.positions[20].kind, PositionKind::kVarying);
}

TEST(Pattern, TakesTheLatestDeath) {
  const Pattern pattern = pattern_of(5, [](Job& job, int step) {
    const RequestId kept = job.allocate(9999);
    for (int i = 0; i < 20; ++i) {
      if (i == (step == 3 ? 15 : 5)) job.free(kept);
      job.touch(512);
    }
  });
  ASSERT_THAT(pattern.positions, testing::SizeIs(21));
  EXPECT_EQ(pattern.positions[0].death, 16);
  EXPECT_EQ(pattern.positions[0].kind, PositionKind::kVarying);
  EXPECT_EQ(count(pattern, PositionKind::kStatic), 20);
}

TEST(Pattern, WhatDiesBeforeRequestsThatOnlyOtherStepsMakeDiesBeforeThem) {
  // Gradients are dropped at the end of each step; after that, every third step evaluates.
  const Pattern pattern = pattern_of(7, [](Job& job, int step) {
    const RequestId gradient = job.allocate(9999);
    for (int i = 0; i < 30; ++i) job.touch(100 + 16 * i);
    job.free(gradient);
    for (int i = 0; i < 10 && step % 3 == 2; ++i) job.touch(5000 + 16 * i);
  });
  ASSERT_THAT(pattern.positions, testing::SizeIs(41));
  EXPECT_EQ(pattern.positions[0].death, 31);
  EXPECT_EQ(pattern.positions[0].kind, PositionKind::kStatic);
}

TEST(Pattern, SeesWhatLivesOnIntoTheNextStep) {
  RequestId gradient = 0;
  const Pattern pattern = pattern_of(
      6,
      [&](Job& job, int) {
        job.touch(10);
        job.touch(20);
        job.free(gradient);
        job.touch(30);
        gradient = job.allocate(1000);
      },
      [&](Job& job) { gradient = job.allocate(1000); });
  ASSERT_THAT(pattern.positions, testing::SizeIs(4));
  EXPECT_EQ(pattern.positions[3].death, 4 + 2) << "dies before position 2 of the next step";
  EXPECT_THAT(pattern.before.position_of, ElementsAre(0, 1, 2, 3));
}

TEST(Pattern, SeesLeaks) {
  const Pattern pattern = pattern_of(7, [](Job& job, int) {
    for (int i = 0; i < 20; ++i) job.touch(100);
    job.allocate(50);
  });
  ASSERT_THAT(pattern.positions, testing::SizeIs(21));
  EXPECT_EQ(pattern.positions[20].death, kForever);
  EXPECT_EQ(pattern.steps.size(), 6);
}

TEST(Pattern, KnowsThatALastStepsTensorOutlivedIt) {
  // The last step keeps what every other frees at once: a checkpoint, or the end of the recording.
  const Pattern pattern = pattern_of(5, [](Job& job, int step) {
    const RequestId batch = job.allocate(768);
    if (step != 4) job.free(batch);
    for (int i = 0; i < 20; ++i) job.touch(100);
  });
  ASSERT_THAT(pattern.positions, testing::SizeIs(21));
  EXPECT_GE(pattern.positions[0].death, 21);
  EXPECT_EQ(pattern.positions[0].kind, PositionKind::kVarying);
}

TEST(Pattern, OfOneStepKnowsFromTheOneBeforeWhenItsTensorsGo) {
  std::optional<RequestId> gradient;
  const Pattern pattern = pattern_of(2, [&](Job& job, int) {
    job.touch(10);
    if (gradient) job.free(*gradient);
    job.touch(20);
    gradient = job.allocate(100);
  });
  ASSERT_THAT(pattern.steps, testing::SizeIs(1));
  ASSERT_THAT(pattern.positions, testing::SizeIs(3));
  EXPECT_EQ(pattern.positions[2].death, 4) << "behind the first of the next step";
  EXPECT_EQ(pattern.positions[2].kind, PositionKind::kStatic);
}

TEST(Pattern, OfOneStepKnowsWhatGoesBetweenTwoSteps) {
  std::optional<RequestId> gradient;
  const Pattern pattern = pattern_of(2, [&](Job& job, int) {
    if (gradient) job.free(*gradient);
    job.touch(10);
    gradient = job.allocate(100);
  });
  ASSERT_THAT(pattern.positions, testing::SizeIs(2));
  EXPECT_EQ(pattern.positions[1].death, 2) << "in front of the first of the next step";
}

TEST(Pattern, CallsSizesThatMoveTogetherVarying) {
  Training training({});
  for (const Bytes scale : {8, 8, 9, 12, 7, 10, 15, 6}) training.step(scale);
  const Pattern pattern = profile_of(training.job.trace()).pattern;
  EXPECT_GT(count(pattern, PositionKind::kVarying), 20);
  EXPECT_EQ(count(pattern, PositionKind::kDynamic), 0);
}

TEST(Pattern, CallsSizesThatMoveOnTheirOwnDynamic) {
  std::uint64_t noise = 1;
  const Pattern pattern = pattern_of(8, [&](Job& job, int) {
    for (int i = 0; i < 50; ++i) job.touch(100 + 16 * i);
    for (int expert = 0; expert < 64; ++expert) {
      noise = mix_hash(noise, 1);
      job.touch(100000 + static_cast<Bytes>(noise % 1000));
    }
    for (int i = 0; i < 50; ++i) job.touch(7000 + 16 * i);
  });
  ASSERT_THAT(pattern.positions, testing::SizeIs(164));
  EXPECT_GE(count(pattern, PositionKind::kDynamic), 48);
  EXPECT_EQ(count(pattern, PositionKind::kStatic), 100);
}

/// Experts of which one has had the same tokens in every step, and a weight's gradient behind each.
Trace job_with_a_chance() {
  Job job;
  for (int step = 0; step < 6; ++step) {
    job.mark(text("step ", step));
    for (int i = 0; i < 40; ++i) job.touch(70'000 + 1000 * i);
    std::vector<RequestId> kept;
    for (std::uint64_t e = 0; e < 40; ++e) {
      const std::uint64_t hash = mix_hash(static_cast<std::uint64_t>(step), e);
      kept.push_back(job.allocate(512 * (e == 17 ? 347 : 300 + static_cast<Bytes>(hash % 100))));
      job.touch(180'000);
    }
    for (; !kept.empty(); kept.pop_back()) {
      job.free(kept.back());
      job.touch(80'000);
    }
  }
  job.mark("end");
  return job.trace();
}

TEST(Pattern, CallsDynamicWhatHadOneSizeByChanceButNotWhatHasItForAReason) {
  const Pattern pattern = profile_of(job_with_a_chance()).pattern;
  std::size_t by_chance = 0;
  for (const Position& position : pattern.positions) {
    if (position.kind == PositionKind::kDynamic && position.size == Bytes{512} * 347) ++by_chance;
    if (position.size == 180'000 || position.size == 80'000) {
      EXPECT_NE(position.kind, PositionKind::kDynamic);
    }
  }
  EXPECT_EQ(by_chance, 1);
}

TEST(Pattern, LeavesTheStepsInWhichWeightsAreStillBornToThePrologue) {
  const Pattern pattern = pattern_of(7, [](Job& job, int step) {
    for (int i = 0; i < 20; ++i) job.touch(100);
    if (step < 3) job.allocate(5000);
  });
  EXPECT_EQ(pattern.steps.size(), 4);
  EXPECT_EQ(pattern.prologue, 3 * 21);
}

TEST(Pattern, EndsWhereAStepIsAnotherJob) {
  const Pattern pattern = pattern_of(8, [](Job& job, int step) {
    for (int i = 0; i < 40; ++i) job.touch(step < 5 ? 100 + 16 * i : 90000 + 16 * i, step < 5 ? 0 : 9);
  });
  EXPECT_EQ(pattern.steps.size(), 4);
  EXPECT_EQ(pattern.positions.size(), 40);
}

TEST(Pattern, IsEmptyWithoutSteps) {
  Job job;
  for (int i = 0; i < 5; ++i) job.touch(100);
  const Pattern pattern = profile_of(job.trace()).pattern;
  EXPECT_EQ(pattern.prologue, 5);
  EXPECT_THAT(pattern.positions, IsEmpty());
  EXPECT_THAT(pattern.steps, IsEmpty());
}

TEST(Pattern, PutsEveryRequestWhereItsLikeStands) {
  Training training({.micro_batches = 2, .zero_grad_first = true, .side_stream = 5});
  for (const Bytes scale : {8, 8, 9, 12, 7, 10}) training.step(scale);
  const Trace trace = training.job.trace();
  const Pattern pattern = profile_of(trace).pattern;
  EXPECT_EQ(pattern.steps.size(), 5);
  for (const AlignedStep& step : pattern.steps) {
    for (std::size_t i = 0; i < step.position_of.size(); ++i) {
      ASSERT_LT(step.position_of[i], pattern.positions.size());
      const Position& position = pattern.positions[step.position_of[i]];
      const Request& request = trace.requests[step.first + i];
      EXPECT_EQ(request.stream, position.stream);
      EXPECT_LE(request.size, position.size);
      EXPECT_GE(request.size, position.smallest);
    }
  }
}

/// Steps of thirty requests, and behind those of `evaluations` ten large ones.
Pattern pattern_with(int steps, const std::vector<int>& evaluations) {
  return pattern_of(steps, [&](Job& job, int step) {
    for (int i = 0; i < 30; ++i) job.touch(10'000 + i);
    if (std::ranges::find(evaluations, step) == evaluations.end()) return;
    for (int i = 0; i < 10; ++i) job.touch(50'000 + i);
  });
}

TEST(Pattern, IsThatOfTheLongestRunWithoutOddSteps) {
  const Pattern pattern = pattern_with(9, {1, 7});
  EXPECT_EQ(pattern.positions.size(), 30);
  EXPECT_THAT(pattern.steps, testing::SizeIs(5)) << "those between the two";
  EXPECT_EQ(pattern.prologue, 30 + 40) << "the first two";
  EXPECT_EQ(count(pattern, PositionKind::kStatic), 30);
}

TEST(Pattern, IsThatOfTheLongestRunWhereTheFirstStepIsSoOddThatNoOtherCanBeAlignedWithIt) {
  const Pattern pattern = pattern_of(7, [](Job& job, int step) {
    for (int i = 0; i < 30; ++i) job.touch(10'000 + i);
    for (int i = 0; step == 1 && i < 2520; ++i) job.touch(10'000 + i % 30);
  });
  EXPECT_EQ(pattern.positions.size(), 30);
  EXPECT_THAT(pattern.steps, testing::SizeIs(5));
}

TEST(Pattern, IsThatOfAllStepsWhereARunIsTooShortToTell) {
  const Pattern pattern = pattern_with(6, {1, 4});
  EXPECT_EQ(pattern.positions.size(), 40);
  EXPECT_THAT(pattern.steps, testing::SizeIs(5));
}

/// Whether the steps of a job differ whose step k allocates what `scales[k]` says.
bool differ_with(const std::vector<Bytes>& scales) {
  Job job;
  for (std::size_t step = 0; step < scales.size(); ++step) {
    job.mark(text("step ", step));
    for (int i = 1; i <= 20; ++i) job.touch(scales[step] * 1000 * i);
    for (int i = 1; i <= 20; ++i) job.touch(Bytes{100'000} + i);
  }
  job.mark("end");
  const Trace trace = job.trace();
  return steps_differ(trace, profile_of(trace).pattern);
}

TEST(LastStepIsNew, WhereItHasARequestThatNoneBeforeHad) {
  const auto steps_with_extra_in = [](int odd) {
    return pattern_of(6, [odd](Job& job, int step) {
      for (int i = 0; i < 30; ++i) job.touch(100'000 + i);
      if (step >= odd) job.touch(5000);  // so small that the steps count as alike
      for (int i = 0; i < 30; ++i) job.touch(200'000 + i);
    });
  };
  EXPECT_TRUE(last_step_is_new(steps_with_extra_in(5)));
  EXPECT_FALSE(last_step_is_new(steps_with_extra_in(4))) << "the last two have it";
  EXPECT_FALSE(last_step_is_new(steps_with_extra_in(6))) << "none has it";
  EXPECT_FALSE(last_step_is_new(Pattern()));
}

TEST(StepsDiffer, WhereSizesDo) {
  EXPECT_FALSE(differ_with({3, 3, 3, 3, 3}));
  EXPECT_TRUE(differ_with({3, 5, 2, 7, 4}));
}

TEST(StepsDiffer, WhereWhatDiffersIsMoreThanNextToNothing) {
  const auto differ_with_odd = [](Bytes odd) {
    const Pattern pattern = pattern_of(6, [odd](Job& job, int step) {
      for (int i = 0; i < 30; ++i) job.touch(10'000 + i);
      if (odd > 0) job.touch(step % 2 == 0 ? odd : odd / 2);
      for (int i = 0; i < 30; ++i) job.touch(20'000 + i);
    });
    return steps_differ(Trace(), pattern);
  };
  EXPECT_FALSE(differ_with_odd(0));
  EXPECT_FALSE(differ_with_odd(1000)) << "one of 901";
  EXPECT_TRUE(differ_with_odd(4000));
}

TEST(StepsDiffer, WhereTheOnlyStepThatWasAlignedHasSizesThatNothingBeforeHad) {
  EXPECT_FALSE(differ_with({3, 3}));
  EXPECT_TRUE(differ_with({3, 5}));
}

}  // namespace
}  // namespace stweaver
