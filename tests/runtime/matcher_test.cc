#include "runtime/matcher.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stweaver {
namespace {

using testing::ElementsAre;

const Policy kPolicy;

std::optional<std::uint32_t> slot_of(const std::optional<Match>& match) {
  return match ? std::optional(match->slot) : std::nullopt;
}

/// One request, by the slot it stands for.
struct Turn {
  Bytes size = 0;
  Stream stream = 0;
};

/// A plan by hand: slots side by side, each alive until the next is born.
class Draft {
 public:
  Draft& add(Bytes size, Stream stream = 0) { return add({.size = size, .offset = 0, .stream = stream}); }
  Draft& add_varying(Bytes size, std::uint8_t length = 0) {
    return add({.size = size, .offset = 0, .varying = true, .length = length, .power = 1});
  }
  Draft& add_in_tiles(Bytes size, Bytes tile) {
    return add({.size = size, .offset = 0, .varying = true, .power = 1, .tile = tile});
  }
  Draft& add_dynamic(Bytes size) { return add({.size = size, .offset = kUnplanned, .varying = true}); }
  /// The step begins here.
  Draft& step() {
    plan_.prologue = plan_.slots.size();
    return *this;
  }
  Draft& prologue_steps(std::size_t count) {
    plan_.prologue_steps = count;
    return *this;
  }

  /// The last slot lives until the request of this one comes.
  Draft& until(std::size_t slot) {
    plan_.slots.back().death = static_cast<Time>(slot);
    return *this;
  }

  /// So many steps repeat.
  Draft& steps(std::size_t count) {
    plan_.steps = count;
    return *this;
  }

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] std::shared_ptr<const PlanIndex> index() const { return std::make_shared<PlanIndex>(plan_); }

 private:
  Draft& add(Slot slot) {
    slot.death = static_cast<Time>(plan_.slots.size()) + 1;
    if (slot.offset != kUnplanned) {
      slot.offset = plan_.arena;
      plan_.arena += slot.size;
    }
    plan_.slots.push_back(slot);
    return *this;
  }

  Plan plan_;
};

constexpr std::size_t kPrologue = 5;
constexpr std::size_t kStep = 60;

/// No two sizes alike.
Draft distinct() {
  Draft draft;
  for (std::size_t i = 0; i < kPrologue; ++i) draft.add(static_cast<Bytes>(i + 1) * kMiB);
  draft.step();
  for (std::size_t i = 0; i < kStep; ++i) draft.add(static_cast<Bytes>(i + 1) * 512);
  return draft;
}

/// Ten layers forth and ten back, alike but for their turn.
Draft layered() {
  Draft draft;
  for (std::size_t i = 0; i < kPrologue; ++i) draft.add(static_cast<Bytes>(i + 1) * kMiB);
  draft.step().add(50 * kKiB);
  for (int layer = 0; layer < 10; ++layer) draft.add(2048).add(4096).add(2048);
  draft.add(100 * kKiB);
  for (int layer = 0; layer < 9; ++layer) draft.add(4096).add(2048).add(8192);
  return draft.add(150 * kKiB);
}

/// A program whose requests the matcher is asked about. Remembers which slots it got them wrong for.
class Follower {
 public:
  explicit Follower(const Draft& draft) : plan_(draft.plan()), matcher_(draft.index(), kPolicy) {}

  /// The request that the slot was made for.
  std::optional<std::uint32_t> make(std::size_t slot) {
    const Slot& wanted = plan_.slots[slot];
    const std::optional<std::uint32_t> found = ask(wanted.size, wanted.stream);
    if (found != slot) wrong_.push_back(slot);
    return found;
  }
  void make(std::size_t begin, std::size_t end) {
    for (std::size_t slot = begin; slot < end; ++slot) make(slot);
  }
  void make_prologue() { make(0, plan_.prologue); }
  void make_step() { make(plan_.prologue, plan_.slots.size()); }

  std::optional<std::uint32_t> ask(Bytes size, Stream stream = 0, Pool pool = 0) {
    return slot_of(matcher_.match(static_cast<StreamIndex>(stream), stream, size, pool));
  }
  void begin_step() { matcher_.begin_step(); }

  /// The slots whose requests were taken for others', since the last look.
  std::vector<std::size_t> wrong() { return std::exchange(wrong_, {}); }

 private:
  Plan plan_;
  Matcher matcher_;
  std::vector<std::size_t> wrong_;
};

class Plans : public testing::TestWithParam<bool> {
 protected:
  Draft draft = GetParam() ? layered() : distinct();
  Follower job{draft};
  /// Takes so many requests at most to be sure again.
  static constexpr std::size_t kNeighbours = kAnchor;

  void expect_wrong_only_near(std::size_t slot) {
    for (const std::size_t wrong : job.wrong()) {
      EXPECT_GE(wrong + kNeighbours, slot);
      EXPECT_LE(wrong, slot + kNeighbours);
    }
  }
  /// Where layers are alike, they can be taken for each other until a size comes that the step has once.
  void expect_wrong_only_until_told_apart(std::size_t slot) {
    const std::vector<Slot>& slots = draft.plan().slots;
    std::size_t end = slot + 1;
    while (end < slots.size() && std::count_if(slots.begin(), slots.end(), [&](const Slot& other) {
                                   return other.size == slots[end].size;
                                 }) > 1) {
      ++end;
    }
    for (const std::size_t wrong : job.wrong()) {
      EXPECT_GE(wrong + kNeighbours, slot);
      EXPECT_LE(wrong, std::max(slot + kNeighbours, end));
    }
  }
  void expect_next_steps_right() {
    for (int i = 0; i < 3; ++i) {
      job.begin_step();
      job.make_step();
      EXPECT_THAT(job.wrong(), ElementsAre()) << "step " << i << " after the change";
    }
  }
  void start() {
    job.make_prologue();
    for (int i = 0; i < 2; ++i) {
      job.begin_step();
      job.make_step();
    }
    EXPECT_THAT(job.wrong(), ElementsAre());
  }
};
INSTANTIATE_TEST_SUITE_P(Matcher, Plans, testing::Bool(),
                         [](const auto& param) { return param.param ? "Layered" : "Distinct"; });

TEST_P(Plans, AreFollowedStepByStep) {
  start();
  expect_next_steps_right();
}

TEST_P(Plans, AreFollowedWithoutAnyBoundary) {
  job.make_prologue();
  for (int i = 0; i < 5; ++i) job.make_step();
  EXPECT_THAT(job.wrong(), ElementsAre());
}

TEST_P(Plans, AreFollowedWhereBoundariesComeAtAnotherPhase) {
  job.make_prologue();
  for (int i = 0; i < 3; ++i) {
    job.make(kPrologue, kPrologue + 23);
    job.begin_step();
    job.make(kPrologue + 23, draft.plan().slots.size());
    expect_wrong_only_near(kPrologue + 23);
  }
}

TEST_P(Plans, AreNotLostByAnExtraRequest) {
  start();
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{17}, std::size_t{40}, kStep}) {
    for (const Bytes size : {Bytes{123456}, Bytes{2048}, Bytes{4096}, 15 * kKiB, 150 * kKiB}) {
      SCOPED_TRACE(text(size, " bytes before request ", at));
      job.begin_step();
      job.make(kPrologue, kPrologue + at);
      job.ask(size);
      job.make(kPrologue + at, draft.plan().slots.size());
      expect_wrong_only_near(kPrologue + at);
      expect_next_steps_right();
    }
  }
}

TEST_P(Plans, AreNotLostByAMissingRequest) {
  start();
  for (const std::size_t at : {0U, 1U, 17U, 31U, 40U, 58U, 59U}) {
    SCOPED_TRACE(text("without request ", at));
    job.begin_step();
    job.make(kPrologue, kPrologue + at);
    job.make(kPrologue + at + 1, draft.plan().slots.size());
    expect_wrong_only_until_told_apart(kPrologue + at);
    expect_next_steps_right();
  }
}

TEST_P(Plans, AreNotLostByARequestOfAnotherSize) {
  start();
  for (const std::size_t at : {0U, 1U, 17U, 31U, 40U, 58U, 59U}) {
    for (const Bytes size : {Bytes{1}, Bytes{123456}, Bytes{2048}, Bytes{100 * kMiB}}) {
      SCOPED_TRACE(text(size, " bytes for request ", at));
      job.begin_step();
      job.make(kPrologue, kPrologue + at);
      job.ask(size);
      job.make(kPrologue + at + 1, draft.plan().slots.size());
      expect_wrong_only_until_told_apart(kPrologue + at);
      expect_next_steps_right();
    }
  }
}

TEST_P(Plans, AreNotLostByAPassBeforeABoundary) {
  start();
  job.make(kPrologue, kPrologue + 20);
  job.wrong();
  expect_next_steps_right();
}

TEST_P(Plans, AreNotLostByAPassBehindABoundary) {
  start();
  job.begin_step();
  job.make(kPrologue, kPrologue + 20);
  EXPECT_THAT(job.wrong(), ElementsAre()) << "it begins as a step does";
  job.make_step();
  expect_wrong_only_until_told_apart(kPrologue);
  expect_next_steps_right();
}

TEST_P(Plans, AreNotLostByAStepCutShort) {
  start();
  for (const std::size_t made : {0U, 1U, 17U, 40U, 59U}) {
    job.begin_step();
    job.make(kPrologue, kPrologue + made);
    EXPECT_THAT(job.wrong(), ElementsAre());
    expect_next_steps_right();
  }
}

TEST_P(Plans, AreNotLostByAStepOfSomethingElse) {
  start();
  job.begin_step();
  for (Bytes i = 0; i < 200; ++i) job.ask(20 * kMiB + i * 512);
  expect_next_steps_right();
}

TEST(Matcher, TellsMicroBatchesApartByWhatLives) {
  constexpr std::size_t kForth = 20;
  constexpr std::size_t kBack = 300;
  constexpr Bytes kWeights = 7 * kMiB;
  Draft draft;
  draft.add(2 * kMiB);
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    for (Bytes i = 1; i <= Bytes{kForth}; ++i) draft.add(i * 512);
    for (std::size_t i = 0; i < kBack; ++i) draft.add(kMiB).until(1 + 2 * (kForth + kBack));  // gradients
  }
  Matcher matcher(draft.index(), kPolicy);
  const auto ask = [&](Bytes size, Bytes gradients) {
    return slot_of(matcher.match(0, 0, size, 0, kWeights + gradients));
  };
  const auto last_of_forward_pass = [&](Bytes gradients) {
    for (Bytes i = 1; i < Bytes{kForth}; ++i) ask(i * 512, gradients);
    return ask(kForth * 512, gradients);
  };
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(ask(2 * kMiB, 0), 0U);
    EXPECT_EQ(last_of_forward_pass(0), kForth) << "an evaluation";
    EXPECT_EQ(last_of_forward_pass(0), kForth) << "which leaves nothing behind";
    for (std::size_t i = 0; i < kBack; ++i)
      EXPECT_EQ(ask(kMiB, static_cast<Bytes>(i) * kMiB), 1 + kForth + i);
    EXPECT_EQ(last_of_forward_pass(kBack * kMiB), 2 * kForth + kBack);
    matcher.begin_step();
  }
}

TEST(Matcher, StaysInThePrologueWhileThePlansStepsBeginInIt) {
  Draft draft;
  for (Bytes i = 1; i <= 30; ++i) draft.add(i * kMiB);
  draft.step().prologue_steps(2);
  for (Bytes i = 1; i <= 30; ++i) draft.add(i * 512);
  Follower job(draft);
  job.make(0, 10);
  job.begin_step();
  job.make(10, 20);
  job.begin_step();
  job.make(20, 30);
  job.begin_step();
  job.make_step();
  job.begin_step();
  job.make_step();
  EXPECT_THAT(job.wrong(), ElementsAre());
}

TEST(Matcher, DoesNotKnowAJobThatBeganOtherwiseUntilItsStepsRepeat) {
  Draft draft;
  for (Bytes i = 1; i <= 30; ++i) draft.add(i * kMiB);
  draft.step().prologue_steps(1);
  for (Bytes i = 1; i <= 30; ++i) draft.add(i * 512);
  Matcher matcher(draft.index(), kPolicy);
  const auto ask = [&](Bytes size) { return slot_of(matcher.match(0, 0, size, 0)); };
  for (Bytes i = 1; i <= 10; ++i) ask(100 * kMiB + i * 512);
  matcher.begin_step();
  for (Bytes i = 11; i <= 30; ++i) ask(i * kMiB);
  EXPECT_FALSE(matcher.knows(0)) << "what it left behind is elsewhere";
  matcher.begin_step();
  for (Bytes i = 1; i <= 30; ++i) EXPECT_EQ(ask(i * 512), 29 + i);
  EXPECT_TRUE(matcher.knows(0));
}

TEST(Matcher, ForgetsRequestsThatThereWasNoMemoryFor) {
  Draft draft;
  for (Bytes i = 1; i <= 30; ++i) draft.add(i * kMiB);
  Matcher matcher(draft.index(), kPolicy);
  const auto ask = [&](Bytes size) { return slot_of(matcher.match(0, 0, size, 0)); };
  matcher.forget(1, kGiB);  // a stream that nobody knows
  for (Bytes i = 1; i <= 10; ++i) ask(i * kMiB);
  matcher.forget(0, 10 * kMiB);
  ask(7 * kKiB);
  EXPECT_TRUE(matcher.knows(0)) << "one may be anything";
  for (const bool forgets : {true, false}) {
    for (Bytes i = 1; i <= 3; ++i) {
      ask(i * 100 * kGiB);
      if (forgets) matcher.forget(0, i * 100 * kGiB);
    }
    EXPECT_EQ(matcher.knows(0), forgets);
  }
  EXPECT_EQ(ask(11 * kMiB), 10);
}

TEST(Matcher, TakesTwoStepsInTurn) {
  constexpr std::size_t kLength = 30;
  for (const std::size_t prologue : {std::size_t{0}, kPrologue}) {
    Draft draft;
    for (std::size_t i = 0; i < prologue; ++i) draft.add(static_cast<Bytes>(i + 1) * kMiB);
    draft.step().steps(2);
    for (int step = 0; step < 2; ++step) {
      for (std::size_t i = 0; i < kLength; ++i) draft.add(static_cast<Bytes>(i + 1) * 512);
    }
    Follower job(draft);
    job.make_prologue();
    if (prologue > 0) job.begin_step();
    const auto make = [&](std::size_t step, std::size_t requests) {
      const std::size_t begin = prologue + step % 2 * kLength;
      job.make(begin, begin + requests);
      job.begin_step();
    };
    for (std::size_t step = 0; step < 4; ++step) make(step, kLength);
    make(4, 10);  // is cut short
    for (std::size_t step = 5; step < 8; ++step) make(step, kLength);
    EXPECT_THAT(job.wrong(), ElementsAre()) << prologue;
  }
}

TEST(Matcher, LeavesAPrologueThatWasCutShort) {
  Draft draft = distinct();
  Follower job(draft);
  job.make(0, 2);
  job.begin_step();
  job.make_step();
  EXPECT_THAT(job.wrong(), ElementsAre());
}

TEST(Matcher, HasNoSlotsBehindAPrologueWithoutAStep) {
  Draft draft;
  draft.add(512).add(1024).step();
  Follower job(draft);
  job.make(0, 2);
  EXPECT_THAT(job.wrong(), ElementsAre());
  EXPECT_EQ(job.ask(512), std::nullopt);
  job.begin_step();
  EXPECT_EQ(job.ask(512), std::nullopt);
}

TEST(Matcher, HasNoSlotsInAnEmptyPlan) {
  Follower job{Draft()};
  EXPECT_EQ(job.ask(512), std::nullopt);
  job.begin_step();
  EXPECT_EQ(job.ask(512, 3), std::nullopt);
}

TEST(Matcher, TakesSizesThatRoundUpToTheSlots) {
  Draft draft;
  draft.add(1024).add(4096);
  Follower job(draft);
  EXPECT_EQ(job.ask(513), 0U);
  EXPECT_EQ(job.ask(4000), 1U);
  EXPECT_EQ(job.ask(512), std::nullopt);
}

// ---- streams ----

/// Two side streams beside the default one, each with sizes of its own.
Draft three_streams() {
  Draft draft;
  draft.step();
  for (Bytes i = 1; i <= 20; ++i) draft.add(i * 512).add(i * 512 + 100 * kKiB, 11).add(i * 512 + kMiB, 22);
  return draft;
}

TEST(Matcher, FollowsEachStreamByItself) {
  const Draft draft = three_streams();
  Follower job(draft);
  for (int i = 0; i < 3; ++i) {
    job.begin_step();
    // One stream after the other: nothing says how streams are interleaved.
    for (std::size_t stream = 0; stream < 3; ++stream) {
      for (std::size_t slot = stream; slot < draft.plan().slots.size(); slot += 3) job.make(slot);
    }
  }
  EXPECT_THAT(job.wrong(), ElementsAre());
}

TEST(Matcher, FindsStreamsOfOtherHandlesByWhoseTurnItIs) {
  Draft draft = three_streams();
  Matcher matcher(draft.index(), kPolicy);
  const auto other = [](Stream stream) { return stream == 0 ? Stream{0} : stream == 11 ? 5555 : 4444; };
  const auto index = [](Stream stream) { return static_cast<StreamIndex>(stream / 11); };
  for (int step = 0; step < 3; ++step) {
    matcher.begin_step();
    for (std::uint32_t i = 0; i < draft.plan().slots.size(); ++i) {
      const Slot& slot = draft.plan().slots[i];
      EXPECT_EQ(slot_of(matcher.match(index(slot.stream), other(slot.stream), slot.size, 0)), i);
    }
  }
}

TEST(Matcher, NeverTakesTheDefaultStreamForAnother) {
  Draft draft;
  draft.step().add(512).add(1024);
  Matcher matcher(draft.index(), kPolicy);
  EXPECT_EQ(slot_of(matcher.match(0, 33, 512, 0)), std::nullopt);
  EXPECT_EQ(slot_of(matcher.match(1, 0, 512, 0)), 0U);
}

TEST(Matcher, LetsGoOfAStreamThatIsNothingLikeItsPlan) {
  Draft draft;
  draft.step();
  for (Bytes i = 1; i <= 10; ++i) draft.add(i * 512, 11);
  Matcher matcher(draft.index(), kPolicy);
  EXPECT_EQ(slot_of(matcher.match(0, 77, 512, 0)), 0U) << "by chance";
  for (Bytes i = 0; i < 20; ++i) matcher.match(0, 77, kMiB + i * 512, 0);
  matcher.begin_step();
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(slot_of(matcher.match(1, 78, Bytes{512} * (i + 1), 0)), i);
}

// ---- sizes that vary ----

TEST(Matcher, FollowsStepsOfOtherLengths) {
  Draft draft;
  draft.step();
  for (Bytes i = 0; i < 20; ++i) draft.add(kMiB + i * 512).add_varying((i % 4 + 1) * 16 * kMiB).add(4096);
  Follower job(draft);
  for (const double length : {1.0, 0.5, 0.75, 0.3, 0.9}) {
    job.begin_step();
    for (std::uint32_t i = 0; i < draft.plan().slots.size(); ++i) {
      const Slot& slot = draft.plan().slots[i];
      const auto size = static_cast<Bytes>(static_cast<double>(slot.size) * (slot.varying ? length : 1));
      EXPECT_EQ(job.ask(size), i) << "length " << length;
    }
  }
}

TEST(Matcher, FollowsStepsOfSeveralLengths) {
  Draft draft;
  draft.step();
  for (Bytes i = 0; i < 20; ++i)
    draft.add_varying((i + 40) * kMiB).add_varying((i + 90) * kMiB, 1).add(kMiB + i * 512);
  Follower job(draft);
  for (const auto& [first, second] : {std::pair(1.0, 0.5), {0.5, 1.0}, {0.75, 0.3}}) {
    job.begin_step();
    for (std::uint32_t i = 0; i < draft.plan().slots.size(); ++i) {
      const Slot& slot = draft.plan().slots[i];
      const double share = !slot.varying ? 1 : slot.length == 1 ? second : first;
      EXPECT_EQ(job.ask(static_cast<Bytes>(static_cast<double>(slot.size) * share)), i)
          << "lengths " << first << " and " << second;
    }
  }
}

TEST(Matcher, WhatWasOfOneSizeMayFollowALengthToo) {
  Draft draft;
  draft.step();
  for (Bytes i = 0; i < 20; ++i)
    draft.add((i % 5 + 20) * kMiB).add_varying(16 * kMiB).add_varying(26 * kMiB, 1).add(kMiB);
  Follower job(draft);
  for (const double length : {1.0, 0.75}) {
    job.begin_step();
    for (std::uint32_t i = 0; i < draft.plan().slots.size(); ++i) {
      const Slot& slot = draft.plan().slots[i];
      const double share = slot.size == kMiB ? 1 : length;
      EXPECT_EQ(job.ask(static_cast<Bytes>(static_cast<double>(slot.size) * share)), i)
          << "length " << length;
    }
  }
}

TEST(Matcher, TellsVaryingSizesApartByTheLengthOfTheStep) {
  Draft draft;
  draft.step();
  for (Bytes i = 0; i < 20; ++i) draft.add_varying((i + 20) * kMiB);
  Follower job(draft);
  for (const double length : {0.5, 0.75, 1.3}) {
    job.begin_step();
    for (std::uint32_t i = 0; i < draft.plan().slots.size(); ++i) {
      if (i == 7) continue;  // is left out
      const auto size = static_cast<double>(draft.plan().slots[i].size);
      const std::optional<std::uint32_t> slot = job.ask(static_cast<Bytes>(size * length));
      EXPECT_EQ(slot, i) << "length " << length;
    }
  }
}

TEST(Matcher, FollowsSizesThatAreRoundedUpToTiles) {
  constexpr Bytes kTile = 2 * kMiB;
  Draft draft;
  draft.step();
  for (int i = 0; i < 20; ++i)
    draft.add_varying(16 * kMiB).add_in_tiles(16 * kMiB, kTile).add_varying(20 * kMiB);
  Follower job(draft);
  for (const double length : {0.8, 0.502, 1.0}) {  // of 0.502, both 10 MiB
    job.begin_step();
    for (std::uint32_t i = 0; i < draft.plan().slots.size(); ++i) {
      const Slot& slot = draft.plan().slots[i];
      const auto size = static_cast<Bytes>(static_cast<double>(slot.size) * length);
      EXPECT_EQ(job.ask(slot.tile > 0 ? align_up(size, kTile) : size), i) << "length " << length;
    }
  }
}

TEST(Matcher, FindsTheEndOfRowsThatAreLongerOrShorter) {
  Draft draft;
  draft.step();
  for (Bytes i = 0; i < 6; ++i) {
    draft.add(kMiB + i * 512).add(2 * kMiB + i * 512);
    for (int expert = 0; expert < 8; ++expert) draft.add_dynamic(64 * kKiB);
  }
  draft.add(99 * kMiB);
  for (const std::size_t experts : {8U, 5U, 12U, 0U, 20U}) {
    Follower job(draft);
    for (int step = 0; step < 3; ++step) {
      job.begin_step();
      for (std::size_t row = 0; row < 6; ++row) {
        job.make(row * 10);
        job.make(row * 10 + 1);
        for (std::size_t expert = 0; expert < experts; ++expert)
          job.ask(static_cast<Bytes>(expert * 7919 % 60000) + 9000);
      }
      job.make(60);
    }
    EXPECT_THAT(job.wrong(), ElementsAre()) << experts << " instead of 8";
  }
}

// ---- pools ----

TEST(Matcher, GivesNoPlannedSlotToAPrivatePool) {
  Draft draft;
  draft.step().add(512).add(1024).add(2048);
  Follower job(draft);
  EXPECT_EQ(job.ask(512, 0, 1), std::nullopt);
  EXPECT_EQ(job.ask(512), 0U);
  EXPECT_EQ(job.ask(2048, 0, 1), std::nullopt);
  EXPECT_EQ(job.ask(1024), 1U);
  EXPECT_EQ(job.ask(2048), 2U);
}

TEST(Matcher, LetsAPrivatePoolTakeItsUnplannedTurn) {
  Plan plan = Draft().step().add(512).add(512).add(512).plan();
  plan.slots[1].offset = kUnplanned;  // was of a pool when it was recorded
  Matcher matcher(std::make_shared<PlanIndex>(plan), kPolicy);
  for (int step = 0; step < 3; ++step) {
    matcher.begin_step();
    EXPECT_EQ(slot_of(matcher.match(0, 0, 512, 0)), 0U);
    EXPECT_EQ(slot_of(matcher.match(0, 0, 512, 9)), 1U);
    EXPECT_EQ(slot_of(matcher.match(0, 0, 512, 0)), 2U);
  }
}

}  // namespace
}  // namespace stweaver
