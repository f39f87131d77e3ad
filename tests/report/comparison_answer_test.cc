#include "report/comparison_answer.h"

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/wording.h"
#include "support/documents.h"

namespace stweaver {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(CompareText, NamesJobsThatWerePlannedFromAllOfThem) {
  Comparison job = some_job();
  EXPECT_THAT(compare_text({job}), Not(HasSubstr("planned from all")));
  job.planned_steps = job.steps = 0;
  EXPECT_THAT(compare_text({some_job(), job}),
              HasSubstr("steps are to be seen in " + job_name(job.trace) + ": planned from all"));
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

TEST(CompareJson, OfARealComparisonAgreesWithIt) {
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
