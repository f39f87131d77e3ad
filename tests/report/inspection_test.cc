#include "report/inspection.h"

#include <string>
#include <utility>

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

struct Inspected {
  explicit Inspected(Trace of) : trace(std::move(of)), profile(profile_of(trace)) {
    summary = summarize(trace, profile.steps, profile.classes, profile.pattern);
    text = inspect_text(trace, profile, summary);
    json = inspect_json(trace, profile, summary);
  }

  Trace trace;
  Profile profile;
  Summary summary;
  std::string text;
  ordered_json json;
};

Trace one_request(Bytes size) {
  Job job;
  job.allocate(size);
  return job.trace();
}

TEST(InspectJson, HasItsFields) {
  const ordered_json json = Inspected(trained(5)).json;
  EXPECT_THAT(fields_of(json),
              ElementsAre("trace", "device", "requests", "steps", "step_source", "step_events", "streams",
                          "sizes", "peak_requested", "lower_bound", "classes", "prologue_requests",
                          "step_requests", "static_requests", "varying_requests", "dynamic_requests"));
  expect_integers(json, {"device", "requests", "steps", "streams", "sizes", "peak_requested", "lower_bound",
                         "prologue_requests", "step_requests", "static_requests", "varying_requests",
                         "dynamic_requests"});
  EXPECT_THAT(fields_of(json["classes"]), ElementsAre("persistent", "scoped", "transient"));
  expect_integers(json["classes"], {"persistent", "scoped", "transient"});
  expect_no_null(json);
}

TEST(InspectJson, TellsWhereEachStepIs) {
  const Inspected inspected(trained(5));
  EXPECT_EQ(inspected.json["trace"], "folder/my job.pickle");
  EXPECT_EQ(inspected.json["step_source"], "marks");
  ASSERT_EQ(inspected.json["step_events"].size(), 5U);
  EXPECT_EQ(inspected.json["step_events"][1][0], inspected.profile.steps.spans[1].lower);
  EXPECT_EQ(inspected.json["step_events"][1][1], inspected.profile.steps.spans[1].upper);
}

TEST(InspectJson, OfAJobWithoutStepsHasEmptyOnes) {
  const ordered_json json = Inspected(one_request(4096)).json;
  EXPECT_EQ(json["step_source"], "none");
  EXPECT_EQ(json["step_events"], ordered_json::array());
  EXPECT_EQ(json["step_requests"], 0);
}

TEST(InspectText, SaysWhatTheJobIsInGiB) {
  Job job;
  job.allocate(3 * kGiB / 2);
  EXPECT_THAT(Inspected(job.trace()).text,
              AllOf(HasSubstr("1 request in 1 stream, 1 of different size"),
                    HasSubstr("peak requested 1.50 GiB, lower bound 1.50 GiB"), HasSubstr("no steps: ")));
}

TEST(InspectText, SaysWhereStepsCameFrom) {
  Trace trace = trained(6);
  EXPECT_THAT(Inspected(trace).text,
              AllOf(HasSubstr("my job: device 0"), Not(HasSubstr("folder")),
                    HasSubstr("6 steps, as marked by the job"), HasSubstr("the step that repeats: ")));
  trace.marks.clear();
  EXPECT_THAT(Inspected(trace).text, HasSubstr("steps, found by repetition"));
}

TEST(InspectText, OfRequestsOfNoBytesIsPlain) {
  EXPECT_THAT(Inspected(one_request(0)).text, HasSubstr("peak requested 0.00 GiB"));
}

}  // namespace
}  // namespace stweaver
