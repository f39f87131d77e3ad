#include "report/serving_answer.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/documents.h"

namespace stweaver {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ReplayJson, HasItsFields) {
  const ordered_json json = replay_json(trained(5), 5, some_serving());
  std::vector<std::string> fields = {"trace", "allocator", "device", "requests", "steps", "requested_peak"};
  fields.insert(fields.end(), kServingFields.begin(), kServingFields.end());
  EXPECT_EQ(fields_of(json), fields);
  expect_integers(json, {"requests", "steps", "requested_peak", "reserved_peak", "arena", "hits", "misses",
                         "fallback_reserved_peak", "planned", "reused", "waits", "events", "maps", "unmaps",
                         "idle_waits", "plans", "ooms", "corrupt_blocks"});
  EXPECT_EQ(json["allocator"], "stweaver");
  EXPECT_EQ(json["hits"], 99);
  EXPECT_EQ(json["missed"], ordered_json::parse(R"({"no_plan": 0, "pool": 0, "unknown": 0, "dynamic": 0,
                                                    "too_large": 1, "occupied": 0})"));
  expect_no_null(json);
}

TEST(ReplayJson, OfALifeCycleTellsOfTheSteadyState) {
  const ordered_json json = replay_json(trained(5), 5, some_life(3));
  EXPECT_EQ(json["before_plan_reserved_peak"], 10 * kGiB);
  EXPECT_EQ(json["steady_steps"], 3);
  EXPECT_EQ(json["steady_reserved_peak"], 8 * kGiB);
  EXPECT_EQ(json["steady_efficiency"], 0.75);
}

TEST(ReplayJson, OfALifeTooShortHasNoSteadyState) {
  const ordered_json json = replay_json(trained(5), 5, some_life(0));
  EXPECT_EQ(json["steady_steps"], 0);
  EXPECT_TRUE(json["steady_reserved_peak"].is_null());
  EXPECT_TRUE(json["steady_efficiency"].is_null());
}

TEST(ReplayText, SaysWhatBecameOfTheJob) {
  EXPECT_THAT(replay_text(trained(5), 5, some_serving()),
              AllOf(HasSubstr("my job: "), HasSubstr("in 5 steps served by `stweaver` on host in 2.00 s"),
                    HasSubstr("100 ns per allocation or free"), HasSubstr("efficiency 99.99 %"),
                    HasSubstr("1 plan, planned in 0.50 s"),
                    HasSubstr("90 at their planned place, 9 elsewhere in the plan's range, 1 unplanned"),
                    HasSubstr(": 1 too large\n"), HasSubstr("no two living blocks shared a byte"),
                    Not(HasSubstr("out of memory")), Not(HasSubstr("before the first plan"))));
}

TEST(ReplayText, OfPyTorchHasNoPlans) {
  Serving serving = some_serving();
  serving.allocator = AllocatorKind::kExpandable;
  EXPECT_THAT(replay_text(trained(5), 5, serving),
              AllOf(HasSubstr("`expandable`"), Not(HasSubstr("plan")), Not(HasSubstr("arena"))));
}

TEST(ReplayText, SaysWhatWentWrong) {
  Serving serving = some_serving();
  serving.replay.ooms = 2;
  serving.replay.corrupt_blocks = 3;
  serving.replay.corruption = "request 7 was overwritten";
  EXPECT_THAT(replay_text(trained(5), 5, serving),
              AllOf(HasSubstr("out of memory: 2 requests"), HasSubstr("3 blocks corrupt: request 7 was"),
                    Not(HasSubstr("no two living blocks"))));
}

TEST(ReplayText, OfALifeCycleTellsItsStory) {
  EXPECT_THAT(replay_text(trained(5), 5, some_life(3)),
              AllOf(HasSubstr("before the first plan 10.00 GiB"),
                    HasSubstr("since the last one 8.00 GiB, 75.00 %, in 3 steps"),
                    HasSubstr("\n  stweaver[0]: recording\n  stweaver[0]: two?lines\n")));
  Serving none = some_life(0);
  EXPECT_THAT(replay_text(trained(5), 5, none),
              AllOf(HasSubstr("before the first plan 10.00 GiB"),
                    Not(HasSubstr("ended before a plan was adopted")), Not(HasSubstr("since the last one"))));
  none.statistics.plans = 0;
  EXPECT_THAT(replay_text(trained(5), 5, none), HasSubstr("ended before a plan was adopted"));
}

}  // namespace
}  // namespace stweaver
