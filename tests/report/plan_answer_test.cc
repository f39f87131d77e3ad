#include "report/plan_answer.h"

#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/documents.h"

namespace stweaver {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

PlanAnswer some_plan() {
  return {.name = "a/b.pickle",
          .requests = 7,
          .unplanned = 2,
          .lower_bound = 2 * kGiB,
          .peak = 3 * kGiB,
          .seconds = 0.25,
          .threads = 2,
          .winner = "sweep",
          .stream_gap = 12};
}

TEST(PlanJson, HasItsFields) {
  const ordered_json json = plan_json(some_plan());
  EXPECT_THAT(fields_of(json),
              ElementsAre("trace", "requests", "unplanned", "lower_bound", "peak", "gap", "ratio", "seconds",
                          "threads", "winner", "stream_gap", "steps_differ", "stopped"));
  expect_integers(json, {"requests", "unplanned", "lower_bound", "peak", "gap", "threads", "stream_gap"});
  EXPECT_EQ(json["gap"], kGiB);
  EXPECT_EQ(json["peak"], 3 * kGiB);
  EXPECT_EQ(json["ratio"], 1.5);
  EXPECT_EQ(json["seconds"], 0.25);
}

TEST(PlanJson, OfNothingToPlanHasARatio) {
  const ordered_json json = plan_json(PlanAnswer());
  EXPECT_EQ(json["ratio"], 1);
  expect_no_null(ordered_json::parse(json.dump()));
}

TEST(PlanText, SaysPeakBoundAndWinner) {
  EXPECT_THAT(
      plan_text(some_plan()),
      AllOf(HasSubstr("b: 7 requests, 2 of them unplanned, planned in 0.25 s on 2 threads by `sweep`"),
            HasSubstr("peak 3.00 GiB (3221225472 bytes), lower bound 2.00 GiB, ratio 1.500000"),
            HasSubstr("after 12 requests at least")));
}

TEST(PlanText, SaysThatItWasStopped) {
  PlanAnswer answer = some_plan();
  EXPECT_THAT(plan_text(answer), Not(HasSubstr("stopped")));
  answer.stopped = true;
  EXPECT_THAT(plan_text(answer), HasSubstr("stopped before its time: this is the best plan until then"));
  EXPECT_EQ(plan_json(answer)["stopped"], true);
}

TEST(PlanText, SaysThatNoPlanOfSuchStepsIsFollowed) {
  PlanAnswer answer = some_plan();
  EXPECT_THAT(plan_text(answer), Not(HasSubstr("steps differ")));
  answer.steps_differ = true;
  EXPECT_THAT(plan_text(answer), HasSubstr("its steps differ, each in sizes of its own"));
  EXPECT_EQ(plan_json(answer)["steps_differ"], true);
}

TEST(PlanText, LeavesOutWhatDoesNotApply) {
  PlanAnswer answer = some_plan();
  answer.unplanned = 0;
  answer.stream_gap = 0;
  answer.requests = 1;
  answer.threads = 1;
  EXPECT_THAT(plan_text(answer), AllOf(HasSubstr("1 request, planned"), HasSubstr("on 1 thread by"),
                                       Not(HasSubstr("fallback")), Not(HasSubstr("streams"))));
}

TEST(PlanText, OfNothingToPlanHasARatio) {
  EXPECT_THAT(plan_text(PlanAnswer()), AllOf(HasSubstr("ratio 1.000000"), Not(HasSubstr("nan"))));
}

TEST(CheckJson, HasItsFields) {
  EXPECT_EQ(check_json({3, 2, {}}).dump(), R"({"ok":true,"requests":3,"planned":2,"violations":[]})");
  EXPECT_EQ(check_json({3, 2, {"one", "two"}}).dump(),
            R"({"ok":false,"requests":3,"planned":2,"violations":["one","two"]})");
}

TEST(CheckText, SaysYesOrEachOffenceOnItsLine) {
  EXPECT_EQ(check_text({3, 2, {}}),
            "ok: 2 of 3 requests planned, and no two that live at the same time share a byte\n");
  EXPECT_EQ(check_text({3, 2, {"one", "t\nwo"}}), "the plan is wrong:\n  one\n  t?wo\n");
}

}  // namespace
}  // namespace stweaver
