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

Front front_of(const Space& space) {
  return search_front(space, known_constants("megatron"), static_cast<double>(space.gpu.memory), {});
}

TEST(Front, HoldsNothingThatAnotherBeatsInAll) {
  const Front front = front_of(small_space());
  ASSERT_GT(front.choices.size(), 5U);
  for (const Choice& a : front.choices)
    for (const Choice& b : front.choices)
      EXPECT_FALSE(&a != &b && a.seconds <= b.seconds && a.memory <= b.memory &&
                   a.configuration.gpus <= b.configuration.gpus);
}

TEST(Front, KeepsToMemoryAndToWhatIsFixed) {
  Space space = small_space();
  space.fixed = {{"tp", "4"}, {"recompute", "full"}, {"gpus", "8"}};
  const Front front = search_front(space, known_constants("megatron"), 40.0 * kGiB, {});
  ASSERT_FALSE(front.choices.empty());
  for (const Choice& choice : front.choices) {
    EXPECT_EQ(choice.configuration.tp, 4);
    EXPECT_EQ(choice.configuration.gpus, 8);
    EXPECT_EQ(choice.configuration.recompute, Recompute::kFull);
    EXPECT_LE(choice.memory, 40.0 * kGiB);
  }
  space.fixed = {{"speed", "1"}};
  EXPECT_THAT([&] { (void)front_of(space); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("no such parameter")));
}

TEST(Front, IsWhatWasSeenWhenItIsStopped) {
  std::stop_source stop;
  stop.request_stop();
  const Space space = small_space();
  const Front front = search_front(space, known_constants("megatron"), static_cast<double>(space.gpu.memory),
                                   stop.get_token());
  EXPECT_TRUE(front.stopped);
  EXPECT_EQ(front.evaluations, 1);
}

TEST(Choices, AreFewClearlyDifferentAndHaveTheCorners) {
  const Space space = small_space();
  const Front front = front_of(space);
  const std::vector<Choice> choices = clear_choices(front, space.gpu, 6);
  ASSERT_EQ(choices.size(), 6U);
  const auto least = [&](const auto& value) {
    double best = value(front.choices.front());
    for (const Choice& choice : front.choices) best = std::min(best, value(choice));
    return testing::Contains(testing::ResultOf(value, best));
  };
  EXPECT_THAT(choices, least([](const Choice& c) { return c.seconds; }));
  EXPECT_THAT(choices, least([](const Choice& c) { return c.memory; }));
  EXPECT_THAT(choices, least([](const Choice& c) { return 1.0 * c.configuration.gpus; }));
  EXPECT_THAT(choices, least([&](const Choice& c) { return c.cost(space.gpu); }));
}

}  // namespace
}  // namespace stweaver
