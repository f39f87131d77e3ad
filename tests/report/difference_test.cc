#include "report/difference.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job.h"

namespace stweaver {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Trace holding(const std::vector<Bytes>& sizes) {
  Job job;
  for (const Bytes size : sizes) job.allocate(size);
  return job.trace();
}

/// Every request made at the line of its number.
Trace at_lines(Trace trace, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    trace.sites.push_back(line);
    trace.requests.at(trace.sites.size() - 2).site = static_cast<std::uint32_t>(trace.sites.size() - 1);
  }
  return trace;
}

std::vector<std::string> what_of(const nlohmann::ordered_json& changes) {
  std::vector<std::string> what;
  for (const auto& change : changes) what.push_back(change.at("what"));
  return what;
}

TEST(Difference, SortsChangesByWhatBecameOfThem) {
  const auto json = diff_json(
      difference_of(holding({kMiB, kMiB, 300, 500, 500, 700}), holding({kMiB, kMiB, kMiB, 400, 500, 700})));
  EXPECT_EQ(json.at("peak").at("a"), 2 * kMiB + 2000);
  EXPECT_EQ(json.at("peak").at("b"), 3 * kMiB + 1600);
  EXPECT_EQ(json.at("matched_by"), "size");
  EXPECT_THAT(what_of(json.at("grown")), testing::ElementsAre("requests of 1 MiB"));
  EXPECT_THAT(what_of(json.at("shrunk")), testing::ElementsAre("requests of 500 bytes"));
  EXPECT_THAT(what_of(json.at("new")), testing::ElementsAre("requests of 400 bytes"));
  EXPECT_THAT(what_of(json.at("gone")), testing::ElementsAre("requests of 300 bytes"));
  EXPECT_EQ(json.at("grown")[0].at("requests").at("b"), 3);
}

TEST(Difference, ChangesSumUpToTheDifferenceOfThePeaks) {
  const Difference difference = difference_of(holding({100, 200, 300, 300}), holding({100, 250, 300, 1}));
  Bytes sum = 0;
  for (const Change& change : difference.changes) sum += change.bytes[1] - change.bytes[0];
  EXPECT_EQ(sum, difference.peaks[1] - difference.peaks[0]);
  EXPECT_TRUE(std::ranges::is_sorted(difference.changes, std::ranges::greater{}, [](const Change& change) {
    return std::abs(change.bytes[1] - change.bytes[0]);
  }));
}

TEST(Difference, MatchesByLineOfCodeWhereBothKnowIt) {
  const Trace a = at_lines(holding({100, 200}), {"f (a.py:1)", "g (a.py:2)"});
  const Trace b = at_lines(holding({150, 200}), {"f (a.py:1)", "g (a.py:2)"});
  const auto json = diff_json(difference_of(a, b));
  EXPECT_EQ(json.at("matched_by"), "line");
  EXPECT_THAT(what_of(json.at("grown")), testing::ElementsAre("f (a.py:1)"));
  EXPECT_TRUE(json.at("new").empty());
  EXPECT_EQ(diff_json(difference_of(a, holding({150, 200}))).at("matched_by"), "size");
}

TEST(Difference, OfAJobWithItselfIsNothing) {
  const Trace trace = holding({100, 200});
  EXPECT_TRUE(difference_of(trace, trace).changes.empty());
  EXPECT_THAT(diff_text(difference_of(trace, trace), 5), HasSubstr("the same"));
}

TEST(DiffText, ShowsTheLargestChangesAndSumsUpTheRest) {
  const Difference difference = difference_of(holding({}), holding({3 * kGiB, 2 * kGiB, kGiB}));
  EXPECT_THAT(diff_text(difference, 1),
              AllOf(HasSubstr("+6.000 GiB"), HasSubstr("requests of 3 GiB"), Not(HasSubstr("of 2 GiB")),
                    HasSubstr("and 2 smaller changes, +3.000 GiB together")));
}

TEST(DiffText, IsSafeForATerminal) {
  const Trace a = at_lines(holding({100}), {"f\x1b[31m (a.py:1)"});
  const Trace b = at_lines(holding({150}), {"f\x1b[31m (a.py:1)"});
  EXPECT_THAT(diff_text(difference_of(a, b), 5), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace stweaver
