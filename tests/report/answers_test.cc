#include "report/answers.h"

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job.h"

namespace stweaver {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// What every program that reads a document relies on: the fields, in order.
std::vector<std::string> fields_of(const ordered_json& object) {
  std::vector<std::string> fields;
  for (const auto& [field, value] : object.items()) fields.push_back(field);
  return fields;
}

/// JSON has no word for NaN or infinity: nlohmann writes null for them.
void expect_no_null(const ordered_json& value) {
  EXPECT_FALSE(value.is_null());
  if (value.is_number_float()) {
    EXPECT_NE(ordered_json::parse(value.dump()), ordered_json()) << "not a finite number";
  }
  if (!value.is_structured()) return;
  for (const ordered_json& part : value) expect_no_null(part);
}

void expect_integers(const ordered_json& object, const std::vector<std::string>& fields) {
  for (const std::string& field : fields) EXPECT_TRUE(object.at(field).is_number_integer()) << field;
}

// ---- names ----

TEST(JobName, IsTheFileWithoutFolderAndEndings) {
  EXPECT_EQ(job_name("examples/traces/gpt2.pickle.xz"), "gpt2");
  EXPECT_EQ(job_name("/a/b.c/rank0.pkl.gz"), "rank0");
  EXPECT_EQ(job_name("x.pickle.zst"), "x");
  EXPECT_EQ(job_name("llama.1.2b.pickle"), "llama.1.2b");
}

TEST(JobName, LeavesOtherEndingsAlone) {
  EXPECT_EQ(job_name("small.csv"), "small.csv");
  EXPECT_EQ(job_name("pickle"), "pickle");
  EXPECT_EQ(job_name("job"), "job");
}

TEST(JobName, IsNeverCutToNothing) {
  EXPECT_EQ(job_name(".pickle"), ".pickle");
  EXPECT_EQ(job_name("a/.xz"), ".xz");
  EXPECT_EQ(job_name(".pickle.xz"), ".pickle");
}

TEST(JobName, IsSafeForATerminal) {
  EXPECT_EQ(job_name("two\nlines.pickle"), "two?lines");
}

// ---- inspect ----

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

Trace trained(int steps) {
  Training training({});
  for (int i = 0; i < steps; ++i) training.step();
  Trace trace = training.job.trace();
  trace.name = "folder/my job.pickle";
  return trace;
}

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

// ---- plan ----

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
  EXPECT_THAT(fields_of(json), ElementsAre("trace", "requests", "unplanned", "lower_bound", "peak", "gap",
                                           "ratio", "seconds", "threads", "winner", "stream_gap", "stopped"));
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

// ---- check ----

TEST(CheckJson, HasItsFields) {
  EXPECT_EQ(check_json({}).dump(), R"({"ok":true,"violations":[]})");
  EXPECT_EQ(check_json({"one", "two"}).dump(), R"({"ok":false,"violations":["one","two"]})");
}

TEST(CheckText, SaysYesOrEachOffenceOnItsLine) {
  EXPECT_THAT(check_text({}), AllOf(HasSubstr("ok"), Not(HasSubstr("wrong"))));
  EXPECT_EQ(check_text({"one", "t\nwo"}), "the plan is wrong:\n  one\n  t?wo\n");
}

Serving some_serving() {
  Serving serving;
  serving.device = "host";
  serving.plan_seconds = 0.5;
  serving.replay.requested_peak = 8 * kGiB;
  serving.replay.reserved_peak = 8 * kGiB + kMiB;
  serving.replay.seconds = 2;
  serving.replay.ns_per_event = 100;
  serving.statistics.served.planned = 90;
  serving.statistics.served.reused = 9;
  serving.statistics.served.unplanned[static_cast<std::size_t>(Unplanned::kTooLarge)] = 1;
  serving.statistics.arena = 8 * kGiB;
  serving.statistics.peaks.fallback_reserved = kMiB;
  serving.statistics.plans = 1;
  return serving;
}

Serving some_life(std::int64_t steady_steps) {
  Serving serving = some_serving();
  serving.story = {.before_plan = 10 * kGiB,
                   .steady_steps = steady_steps,
                   .steady = {.requested = 6 * kGiB, .reserved = 8 * kGiB}};
  serving.log = {"stweaver[0]: recording", "stweaver[0]: two\nlines"};
  return serving;
}

// ---- replay ----

const std::vector<std::string> kServingFields = {"reserved_peak",
                                                 "efficiency",
                                                 "arena",
                                                 "fallback_reserved_peak",
                                                 "hits",
                                                 "misses",
                                                 "planned",
                                                 "reused",
                                                 "missed",
                                                 "waits",
                                                 "events",
                                                 "maps",
                                                 "unmaps",
                                                 "idle_waits",
                                                 "plans",
                                                 "plan_seconds",
                                                 "ooms",
                                                 "corrupt_blocks",
                                                 "seconds",
                                                 "ns_per_event",
                                                 "log"};

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
  EXPECT_THAT(replay_text(trained(5), 5, some_life(0)), HasSubstr("ended before a plan was adopted"));
}

// ---- compare ----

Comparison some_job() {
  Comparison job;
  job.trace = "traces/job.pickle.xz";
  job.requests = 100;
  job.steps = 4;
  job.requested_peak = 8 * kGiB;
  job.lower_bound = 8 * kGiB;
  job.native = {10 * kGiB, 0.8, true};
  job.expandable = {9 * kGiB, 8.0 / 9, false};
  job.stweaver = some_serving();
  job.planned_steps = 3;
  return job;
}

Comparison job_of_nothing() {
  Comparison job;
  job.native.efficiency = job.expandable.efficiency = 1;
  return job;
}

TEST(CompareJson, HasItsFields) {
  const ordered_json json = compare_json({some_job()});
  ASSERT_TRUE(json.is_array());
  ASSERT_EQ(json.size(), 1U);
  const ordered_json& job = json[0];
  EXPECT_THAT(fields_of(job), ElementsAre("trace", "requests", "steps", "requested_peak", "lower_bound",
                                          "allocators", "reduction"));
  expect_integers(job, {"requests", "steps", "requested_peak", "lower_bound"});
  EXPECT_THAT(fields_of(job["allocators"]), ElementsAre("native", "expandable", "stweaver"));
  for (const char* theirs : {"native", "expandable"}) {
    EXPECT_THAT(fields_of(job["allocators"][theirs]), ElementsAre("reserved_peak", "efficiency", "source"));
    expect_integers(job["allocators"][theirs], {"reserved_peak"});
  }
  EXPECT_EQ(job["allocators"]["native"]["source"], "measured");
  EXPECT_EQ(job["allocators"]["expandable"]["source"], "simulated");
  const ordered_json& ours = job["allocators"]["stweaver"];
  std::vector<std::string> fields = kServingFields;
  fields.emplace_back("planned_steps");
  EXPECT_EQ(fields_of(ours), fields);
  expect_integers(ours,
                  {"reserved_peak", "arena", "fallback_reserved_peak", "hits", "misses", "planned_steps"});
  EXPECT_THAT(fields_of(job["reduction"]), ElementsAre("native", "expandable"));
  EXPECT_NEAR(job["reduction"]["native"].get<double>(), 1 - (1 - 8192.0 / 8193) / 0.2, 1e-12);
  expect_no_null(json);
}

TEST(CompareJson, OfAJobOfNothingHasNumbersEverywhere) {
  expect_no_null(ordered_json::parse(compare_json({job_of_nothing()}).dump()));
}

TEST(CompareText, ShowsEachJobInGiB) {
  EXPECT_THAT(compare_text({some_job()}),
              AllOf(HasSubstr("job"), HasSubstr("8.00"), HasSubstr("10.00 "), HasSubstr("80.00 %"),
                    HasSubstr("9.00*"), HasSubstr("88.89 %"), HasSubstr("99.99 %"), HasSubstr("99.9 %"),
                    Not(HasSubstr("nan"))));
}

TEST(CompareText, SaysInASentenceWhatWasSaved) {
  EXPECT_THAT(
      compare_text({some_job()}),
      HasSubstr("Asking for 8.00 GiB, the job reserves 8.00 GiB with STWeaver:\n2.00 GiB less than with "
                "PyTorch's default, 1.00 GiB less than with expandable segments.\n"));
  EXPECT_THAT(
      compare_text({some_job(), some_job()}),
      HasSubstr("Asking for 16.00 GiB, these 2 jobs reserve 16.00 GiB with STWeaver:\n4.00 GiB less"));
}

TEST(CompareText, AdmitsWhereMoreIsReserved) {
  Comparison job = some_job();
  job.stweaver.replay.reserved_peak = 12 * kGiB;
  EXPECT_THAT(compare_text({job}), AllOf(HasSubstr("2.00 GiB more than with PyTorch's default"),
                                         HasSubstr("-66.7 %"), HasSubstr("66.67 %")));
}

TEST(CompareText, DoesNotCallAlmostAllAll) {
  Comparison job = some_job();
  job.stweaver.replay.reserved_peak = job.requested_peak + 512;
  EXPECT_THAT(compare_text({job}), AllOf(HasSubstr("99.99 %"), Not(HasSubstr("100.00 %"))));
  job.stweaver.replay.reserved_peak = job.requested_peak;
  EXPECT_THAT(compare_text({job}), HasSubstr("100.00 %"));
}

TEST(CompareText, ShowsJobsThatBeginWithoutAPlanInATableOfTheirOwn) {
  Comparison job = some_job();
  EXPECT_THAT(compare_text({job}), Not(HasSubstr("steady")));
  job.online = some_life(1);
  EXPECT_THAT(compare_text({job}), AllOf(HasSubstr("steady"), HasSubstr("10.00"), HasSubstr("0.50 s"),
                                         HasSubstr("75.00 %  1 of 4")));
  job.online = some_life(0);
  EXPECT_THAT(compare_text({job}), HasSubstr("-  -  0 of 4"));
}

TEST(CompareText, FitsIntoANarrowWindow) {
  Comparison job = some_job();
  job.trace = "a_job_of_18_letters";
  job.requests = 1'000'000;
  job.requested_peak = job.stweaver.replay.requested_peak = 100 * kGiB;
  job.native.peak = job.expandable.peak = job.stweaver.replay.reserved_peak = 110 * kGiB;
  job.online = job.stweaver;
  std::istringstream lines(compare_text({job, job, job}));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 110U) << line;
}

TEST(CompareText, OfAJobOfNothingIsPlain) {
  EXPECT_THAT(compare_text({job_of_nothing()}), AllOf(HasSubstr("0.00"), Not(HasSubstr("nan"))));
}

// ---- together ----

TEST(Answers, OfARealComparisonAgreeWithIt) {
  const Trace trace = trained(5);
  const Comparison comparison = compare(trace, {});
  const ordered_json job = compare_json({comparison})[0];
  const ordered_json& ours = job["allocators"]["stweaver"];
  EXPECT_EQ(job["requests"], ours["hits"].get<std::int64_t>() + ours["misses"].get<std::int64_t>());
  EXPECT_EQ(ours["efficiency"], job["requested_peak"].get<double>() / ours["reserved_peak"].get<double>());
  EXPECT_EQ(ours["planned_steps"], 4);
  expect_no_null(job);
}

}  // namespace
}  // namespace stweaver
