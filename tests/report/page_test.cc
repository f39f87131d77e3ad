#include "report/page.h"

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "report/columns.h"
#include "report/page_template.h"
#include "support/documents.h"
#include "support/job.h"

namespace stweaver {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- columns ----

std::vector<unsigned char> bytes_of(std::string_view text) {
  return {text.begin(), text.end()};
}

TEST(Base64, IsThatOfTheStandard) {
  EXPECT_EQ(base64(bytes_of("")), "");
  EXPECT_EQ(base64(bytes_of("f")), "Zg==");
  EXPECT_EQ(base64(bytes_of("fo")), "Zm8=");
  EXPECT_EQ(base64(bytes_of("foobar")), "Zm9vYmFy");
  const std::vector<unsigned char> high = {0xff, 0xfe, 0xfb};
  EXPECT_EQ(base64(high), "//77");
}

std::vector<unsigned char> decoded(std::string_view text) {
  const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes;
  unsigned word = 0;
  unsigned bits = 0;
  for (const char letter : text.substr(0, text.find('='))) {
    word = word << 6U | static_cast<unsigned>(digits.find(letter));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<unsigned char>(word >> bits));
  }
  return bytes;
}

/// What a page's script makes of it.
std::vector<unsigned char> unpacked(std::string_view text, std::size_t size) {
  const std::vector<unsigned char> packed = decoded(text);
  std::vector<unsigned char> bytes(size + 1);
  uLongf length = bytes.size();
  EXPECT_EQ(uncompress(bytes.data(), &length, packed.data(), packed.size()), Z_OK);
  bytes.resize(length);
  return bytes;
}

TEST(Columns, AreWrittenInAsManyPlanesAsTheirNumbersNeed) {
  Columns columns;
  columns.add("none", {0, 0});
  columns.add("two", {0x0102, 0x03});
  columns.add("rising", {1000, 1001, 1003}, true);
  EXPECT_EQ(columns.description().dump(), R"([{"name":"none","count":2,"planes":0,"ascending":false},)"
                                          R"({"name":"two","count":2,"planes":2,"ascending":false},)"
                                          R"({"name":"rising","count":3,"planes":2,"ascending":true}])");
  EXPECT_THAT(unpacked(columns.packed(), 10), ElementsAre(2, 3, 1, 0, 1000 % 256, 1, 2, 1000 / 256, 0, 0));
}

// ---- texts of strangers ----

constexpr const char* kMarkup =
    "</script><script>alert(1)</script><img src=x onerror='alert(\"2\")'>&{{title}}";

TEST(HtmlEscaped, LeavesNothingThatMeansSomething) {
  EXPECT_EQ(html_escaped("a<b>&\"'c"), "a&lt;b&gt;&amp;&quot;&#39;c");
}

TEST(JsonForScript, CannotEndTheScript) {
  const std::string json = json_for_script({{"text", kMarkup}, {"broken", "\xff\xfe"}, {"line", "\u2028"}});
  EXPECT_THAT(json, AllOf(Not(HasSubstr("<")), Not(HasSubstr("\u2028"))));
  EXPECT_EQ(ordered_json::parse(json).at("text"), kMarkup);
}

// ---- pages ----

JobReport reported(Trace trace) {
  return report_job(std::move(trace), {.threads = 1, .timeout = 0.1});
}

ordered_json facts_of(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="facts">)";
  const std::size_t from = page.find(begin) + begin.size();
  return ordered_json::parse(page.substr(from, page.find("</script>", from) - from));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(ReportJob, HasWhatCompareSaysOfTheJob) {
  const Trace trace = trained(5);
  const JobReport report = reported(trace);
  EXPECT_EQ(report.comparison.requested_peak, peak_requested(trace));
  EXPECT_EQ(peak_in(report.requested, {0, trace.end}), report.comparison.requested_peak);
  EXPECT_EQ(report.peak.bytes, report.comparison.requested_peak);
  EXPECT_EQ(peak_in(report.reserved[0], {0, trace.end}), report.comparison.native.peak);
  EXPECT_EQ(peak_in(report.reserved[1], {0, trace.end}), report.comparison.expandable.peak);
  EXPECT_EQ(peak_in(report.reserved[2], {0, trace.end}), report.comparison.stweaver.replay.reserved_peak);
}

TEST(ReportJob, MapsEveryRequestOfEveryAllocatorApart) {
  const Trace trace = trained(3);
  const JobReport report = reported(trace);
  for (const AddressMap& map : report.maps) {
    ASSERT_EQ(map.offsets.size(), trace.requests.size());
    for (RequestId a = 0; a < trace.requests.size(); ++a) {
      ASSERT_TRUE(map.offsets[a] || trace.requests[a].size == 0);
      if (!map.offsets[a]) continue;
      ASSERT_LE(*map.offsets[a] + trace.requests[a].size, map.extent);
      for (RequestId b = 0; b < a; ++b) {
        const bool together = trace.requests[b].life.upper > trace.requests[a].life.lower &&
                              trace.requests[a].life.upper > trace.requests[b].life.lower;
        if (!together || !map.offsets[b]) continue;
        ASSERT_TRUE(*map.offsets[a] + trace.requests[a].size <= *map.offsets[b] ||
                    *map.offsets[b] + trace.requests[b].size <= *map.offsets[a]);
      }
    }
  }
}

TEST(ReportJob, CountsTheRequestsOfItsSteps) {
  const JobReport report = reported(trained(5));
  ASSERT_FALSE(report.steps.empty());
  for (const StepReport& step : report.steps) {
    EXPECT_GT(step.requests, 0);
    EXPECT_LE(step.requested, step.reserved[2]);
    EXPECT_EQ(step.seconds, 0) << "no clock was recorded";
  }
}

TEST(RoomToGrow, IsWhatVariesUnderTheSameReserve) {
  JobReport report;
  report.summary.peak_by_class = {100, 0, 0};
  report.comparison.requested_peak = 300;
  report.comparison.stweaver.replay.reserved_peak = 300;
  EXPECT_DOUBLE_EQ(room_to_grow(report, 500), 2);
  EXPECT_DOUBLE_EQ(room_to_grow(report, 200), 1);
}

TEST(RoomToGrow, IsNotReadFromWhatNobodyAskedFor) {
  JobReport report;
  report.summary.peak_by_class = {100, 0, 0};
  report.comparison.stweaver.replay.reserved_peak = 120;
  for (const Bytes requested : {100, 105}) {
    report.comparison.requested_peak = requested;
    EXPECT_DOUBLE_EQ(room_to_grow(report, 220), 1) << requested;
  }
  report.comparison.requested_peak = 115;
  EXPECT_GT(room_to_grow(report, 220), 1);
}

TEST(PageHtml, IsOneFileThatNeedsNoOther) {
  const std::string page = page_html({reported(trained(4))});
  EXPECT_THAT(page, AllOf(HasSubstr("<!DOCTYPE html>"), HasSubstr("default-src 'none'"),
                          HasSubstr("<title>Memory report: my job</title>")));
  EXPECT_FALSE(std::regex_search(page, std::regex("(src|href)\\s*=|@import|\\burl\\(|\nimport ")));
  EXPECT_FALSE(std::regex_search(page, std::regex("\\{\\{(title|style|script|facts|data)\\}\\}")));
}

TEST(PageHtml, HasDataForEveryJob) {
  const JobReport report = reported(trained(4));
  const std::string page = page_html({report, report});
  const ordered_json facts = facts_of(page);
  ASSERT_EQ(facts.size(), 2);
  EXPECT_EQ(facts[1].at("name"), "my job");
  EXPECT_EQ(facts[1].at("drawn"), report.trace.requests.size());
  EXPECT_THAT(page, AllOf(HasSubstr("id=\"data-0\""), HasSubstr("id=\"data-1\""), HasSubstr("and 1 more")));
}

TEST(PageHtml, SaysWhatItLeavesOut) {
  const JobReport report = reported(trained(4));
  const ordered_json job = facts_of(page_html({report}, 10))[0];
  EXPECT_EQ(job.at("drawn"), 10);
  EXPECT_EQ(job.at("left_out").at("requests"), report.trace.requests.size() - 10);
  EXPECT_GT(job.at("left_out").at("share"), 0);
  EXPECT_LT(job.at("left_out").at("share"), 1);
}

TEST(PageHtml, NeverReadsATextOfTheTraceAsHtml) {
  Trace trace = trained(4);
  trace.name = kMarkup;
  trace.settings = kMarkup;
  trace.marks.push_back({trace.end, kMarkup});
  trace.sites = {"", kMarkup};
  for (Request& request : trace.requests) request.site = 1;
  const std::string harmless = page_html({reported(trained(4))});
  const std::string page = page_html({reported(std::move(trace))});
  EXPECT_EQ(count(page, "<script"), count(harmless, "<script"));
  EXPECT_EQ(count(page, "</script"), count(harmless, "</script"));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<img")), Not(HasSubstr("alert(1)</"))));
  EXPECT_EQ(facts_of(page)[0].at("sites")[0], kMarkup) << "shown as it is";
}

TEST(PageHtml, HasTheTextsThatItsRequestsReferTo) {
  Job job;
  job.touch(4096);
  for (int i = 0; i < 6000; ++i) job.mark(text("layer ", i));
  job.touch(4096);
  Trace trace = job.trace();
  trace.sites = {"", "never (used.py:1)", "forward (model.py:3)"};
  trace.requests[1].site = 2;
  const ordered_json facts = facts_of(page_html({reported(std::move(trace))}))[0];
  EXPECT_EQ(facts.at("marks"), ordered_json({"", "layer 5999"}));
  EXPECT_EQ(facts.at("sites"), ordered_json({"", "forward (model.py:3)"}));
}

TEST(PageHtml, ScriptsMakeNoHtmlOutOfTexts) {
  const std::string page = page_html({reported(trained(4))});
  for (const char* const unsafe : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                                   "new Function", "fetch(", "XMLHttpRequest", "srcdoc"}) {
    EXPECT_THAT(page, Not(HasSubstr(unsafe)));
  }
}

TEST(PageHtml, TakesATraceOfNothing) {
  EXPECT_THAT(page_html({reported(Job().trace())}), HasSubstr("<!DOCTYPE html>"));
}

}  // namespace
}  // namespace stweaver
