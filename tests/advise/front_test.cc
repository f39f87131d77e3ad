#include "advise/front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base.h"

namespace stweaver {
namespace {

Space small_space() {
  Space space;
  space.model = known_model("llama3_8b");
  space.gpu = known_gpu("h100");
  space.gpus = 16;
  space.sequence = 8192;
  space.global_batch = 128;
  return space;
}

FrontOptions options_of(const Space& space) {
  FrontOptions options;
  options.memory = static_cast<double>(space.gpu.memory);
  options.exhaustive = true;
  return options;
}

Front front_of(const Space& space, const FrontOptions& options) {
  return search_front(space, known_constants("megatron"), options);
}

TEST(Front, HoldsNothingThatAnotherBeatsInAll) {
  const Front front = front_of(small_space(), options_of(small_space()));
  ASSERT_GT(front.choices.size(), 5U);
  for (const Choice& a : front.choices)
    for (const Choice& b : front.choices)
      EXPECT_FALSE(&a != &b && a.seconds <= b.seconds && a.memory <= b.memory &&
                   a.configuration.gpus <= b.configuration.gpus);
}

TEST(Front, KeepsToMemoryAndToWhatIsFixed) {
  Space space = small_space();
  space.fixed = {{"tp", "4"}, {"recompute", "full"}, {"gpus", "8"}};
  FrontOptions options = options_of(space);
  options.memory = 40.0 * kGiB;
  const Front front = front_of(space, options);
  ASSERT_FALSE(front.choices.empty());
  for (const Choice& choice : front.choices) {
    EXPECT_EQ(choice.configuration.tp, 4);
    EXPECT_EQ(choice.configuration.gpus, 8);
    EXPECT_EQ(choice.configuration.recompute, Recompute::kFull);
    EXPECT_LE(choice.memory, 40.0 * kGiB);
    EXPECT_GE(choice.headroom, 1);
  }
}

TEST(Front, HeadroomIsTheSequenceThatJustFits) {
  for (const char* const zero : {"1", "3"}) {
    Space space = small_space();
    space.fixed = {{"gpus", "8"}, {"recompute", "full"}, {"zero", zero}, {"pp", "1"}, {"offload", "0"}};
    const Front front = front_of(space, options_of(space));
    ASSERT_FALSE(front.choices.empty()) << zero;
    for (const Choice& choice : front.choices) {
      Job longer{.model = space.model, .gpu = space.gpu, .configuration = choice.configuration};
      longer.configuration.sequence = static_cast<int>(choice.headroom * longer.configuration.sequence);
      const double peak = fullest_rank(longer, chunk_memory(longer)).peak();
      EXPECT_NEAR(peak / static_cast<double>(space.gpu.memory), 1, 0.02) << zero << ' ' << choice.headroom;
    }
  }
}

TEST(Front, IsWhatWasSeenWhenItIsStopped) {
  std::stop_source stop;
  stop.request_stop();
  FrontOptions options = options_of(small_space());
  options.stop = stop.get_token();
  const Front front = front_of(small_space(), options);
  EXPECT_TRUE(front.stopped);
  EXPECT_EQ(front.evaluations, 1);
  options.exhaustive = false;
  EXPECT_TRUE(front_of(small_space(), options).stopped);
}

TEST(Front, OfASearchIsNearThatOfAllAndTheSameForASeed) {
  const Space space = small_space();
  FrontOptions options = options_of(space);
  const Front all = front_of(space, options);
  options.exhaustive = false;
  options.evaluations = 4000;
  const Front found = front_of(space, options);
  EXPECT_FALSE(found.exhaustive);
  EXPECT_LT(found.evaluations, all.evaluations);
  ASSERT_FALSE(found.choices.empty());
  EXPECT_LE(found.choices.front().seconds, 1.02 * all.choices.front().seconds);
  const Front again = front_of(space, options);
  ASSERT_EQ(again.choices.size(), found.choices.size());
  for (std::size_t i = 0; i < again.choices.size(); ++i)
    EXPECT_EQ(again.choices[i].memory, found.choices[i].memory);
}

TEST(Front, OfCostAndHeadroomHasTheBestOfBoth) {
  const Space space = small_space();
  FrontOptions options = options_of(space);
  const Front whole = front_of(space, options);
  options.objectives = {Objective::kCost, Objective::kHeadroom};
  const Front front = front_of(space, options);
  double cheapest = whole.choices.front().cost();
  for (const Choice& choice : whole.choices) cheapest = std::min(cheapest, choice.cost());
  const auto costs = testing::ResultOf([](const Choice& c) { return c.cost(); }, cheapest);
  EXPECT_THAT(front.choices, testing::Contains(costs));
  EXPECT_THAT(objective_named("headroom"), Objective::kHeadroom);
  EXPECT_THAT([] { (void)objective_named("speed"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("time memory gpus")));
}

TEST(Fastest, IsTheFirstThatFitsInOrderOfTime) {
  Space space = small_space();
  space.fixed = {{"gpus", "8"}, {"tp", "2"}, {"pp", "1"}, {"zero", "3"}, {"offload", "0"}};
  const FrontOptions options = options_of(space);
  const Constants& constants = known_constants("megatron");
  std::vector<Choice> asked;
  const auto refuse = [&asked](const Choice& choice) {
    asked.push_back(choice);
    return false;
  };
  EXPECT_FALSE(fastest(space, constants, options, refuse).has_value());
  // All there are, once each.
  EXPECT_GT(asked.size(), front_of(space, options).choices.size());
  for (std::size_t i = 1; i < asked.size(); ++i) EXPECT_LE(asked[i - 1].seconds, asked[i].seconds);
  EXPECT_EQ(asked.front().seconds, front_of(space, options).choices.front().seconds);
  const Choice& wanted = asked[asked.size() / 2];
  const auto found = fastest(space, constants, options,
                             [&wanted](const Choice& choice) { return choice.memory == wanted.memory; });
  ASSERT_TRUE(found.has_value());
  EXPECT_LE(found->seconds, wanted.seconds);
  EXPECT_EQ(found->memory, wanted.memory);
}

TEST(Fastest, IsNothingWhenItIsStopped) {
  std::stop_source stop;
  stop.request_stop();
  FrontOptions options = options_of(small_space());
  options.stop = stop.get_token();
  EXPECT_FALSE(fastest(small_space(), known_constants("megatron"), options, [](const Choice&) {
                 return true;
               }).has_value());
}

TEST(Choices, AreFewClearlyDifferentAndHaveTheCorners) {
  const FrontOptions options = options_of(small_space());
  const Front front = front_of(small_space(), options);
  const std::vector<Choice> choices = clear_choices(front, options.objectives, 6);
  ASSERT_EQ(choices.size(), 6U);
  const auto least = [&](const auto& value) {
    double best = value(front.choices.front());
    for (const Choice& choice : front.choices) best = std::min(best, value(choice));
    return testing::Contains(testing::ResultOf(value, best));
  };
  EXPECT_THAT(choices, least([](const Choice& c) { return c.seconds; }));
  EXPECT_THAT(choices, least([](const Choice& c) { return c.memory; }));
  EXPECT_THAT(choices, least([](const Choice& c) { return 1.0 * c.configuration.gpus; }));
  EXPECT_THAT(choices, least([](const Choice& c) { return c.cost(); }));
}

}  // namespace
}  // namespace stweaver
