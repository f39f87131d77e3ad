#include "trace/snapshot.h"

#include <random>

#include "support/errors.h"
#include "support/pickles.h"
#include "support/sources.h"
#include "support/traces.h"

namespace stweaver {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::string_literals;

constexpr Bytes mib(Bytes count) {
  return count * kMiB;
}

std::vector<Trace> snapshots_of(const std::string& bytes) {
  return read_snapshot(source_of(bytes), "file");
}

Trace read_one(const std::string& bytes) {
  const std::vector<Trace> traces = snapshots_of(bytes);
  EXPECT_EQ(traces.size(), 1);
  return traces.front();
}

std::string refused_snapshot(const std::string& bytes) {
  return refusal([&] { snapshots_of(bytes); });
}

constexpr Stream kSideStream = 0x558123456780;

/// What tests/trace/data/make.py puts into every_field_*.pickle.
class EveryField : public testing::TestWithParam<int> {
 protected:
  std::vector<Trace> traces_ = snapshots_of(fixture(text("every_field_", GetParam(), ".pickle")));
};

TEST_P(EveryField, GivesATraceToEachDeviceWithAllocations) {
  ASSERT_EQ(traces_.size(), 2);
  EXPECT_EQ(traces_[0].device, 0);
  EXPECT_EQ(traces_[1].device, 1);
  EXPECT_EQ(traces_[1].name, "file (device 1)");
}

TEST_P(EveryField, GivesTheRequests) {
  expect_same(traces_[0].requests,
              {{700, {kBeforeRecording, 0}, 0},
               {1000, {kBeforeRecording, kForever}, kForever},
               {500, {kBeforeRecording, kForever}, kBeforeRecording},
               {300, {1, kForever}, kForever, 0, 1},
               {5000, {2, 5}, 3},
               {6000, {4, 6}, 6, kSideStream}},
              "request");
  expect_same(traces_[1].requests, {{256, {0, kForever}, kForever, kSideStream}}, "request");
  EXPECT_EQ(traces_[0].micros, (std::vector<std::int64_t>{10, 13, 14, 20, 21, 22, 24}));
}

TEST_P(EveryField, GivesTheReserves) {
  expect_same(traces_[0].reserves, {{0, mib(28)}, {1, mib(30)}, {7, mib(22)}}, "reserve");
  expect_same(traces_[1].reserves, {{0, 0}, {0, mib(4)}, {1, mib(6)}, {1, mib(4)}}, "reserve");
}

TEST_P(EveryField, GivesTheMarks) {
  expect_same(traces_[0].marks,
              {{0, "still open"}, {2, "step 1"}, {2, "ProfilerStep#3"}, {5, "step 2"}, {7, "after all"}},
              "mark");
  expect_same(traces_[1].marks, {{0, "of the other device"}}, "mark");
}

TEST_P(EveryField, GivesFailedAllocationsAndSettings) {
  expect_same(traces_[0].ooms, {{6, 9 * kGiB, 123456}}, "failed allocation");
  EXPECT_EQ(traces_[0].settings, "max_split_size_mb:64,expandable_segments:True");
}

INSTANTIATE_TEST_SUITE_P(Snapshot, EveryField, testing::Values(2, 3, 4, 5));

const std::vector<std::string> kOneAllocation = {pickles::entry("alloc", 4096, 100, 1)};

TEST(Snapshot, ReadsTheLeastThereCanBe) {
  const Trace trace = read_one(pickles::snapshot({pickles::dict({{"action", pickles::string("alloc")},
                                                                 {"addr", pickles::integer(512)},
                                                                 {"size", pickles::integer(3)}})}));
  expect_same(trace.requests, {{3, {0, kForever}, kForever}}, "request");
  EXPECT_TRUE(trace.micros.empty());
  EXPECT_EQ(trace.name, "file");
}

TEST(Snapshot, ReadsBlocksOfOldSnapshots) {
  const std::string history =
      pickles::list({pickles::dict({{"addr", pickles::integer(0)}, {"real_size", pickles::integer(700)}})});
  const std::string idle =
      pickles::dict({{"size", pickles::integer(512)}, {"state", pickles::string("inactive")}});
  const std::string with_history = pickles::dict({{"size", pickles::integer(1024)},
                                                  {"state", pickles::string("active_allocated")},
                                                  {"history", history}});
  const std::string without =
      pickles::dict({{"size", pickles::integer(2048)}, {"state", pickles::string("active_allocated")}});
  const std::string segment = pickles::dict({{"address", pickles::integer(8192)},
                                             {"total_size", pickles::integer(3584)},
                                             {"blocks", pickles::list({idle, with_history, without})}});
  const std::vector<std::string> entries = {pickles::entry("free_completed", 8192 + 512, 700),
                                            pickles::entry("alloc", 8192 + 512, 700)};
  const Trace trace = read_one(pickles::snapshot(entries, {segment}));
  expect_same(trace.requests,
              {{700, {kBeforeRecording, 0}, 0},
               {2048, {kBeforeRecording, kForever}, kForever},
               {700, {1, kForever}, kForever}},
              "request");
}

TEST(Snapshot, ReadsOurMarkers) {
  const std::string marker =
      pickles::tuple({pickles::integer(1), pickles::integer(0), pickles::string("iteration 0")});
  const Trace trace = read_one(pickles::snapshot(kOneAllocation, {}, {{"markers", pickles::list({marker})}}));
  expect_same(trace.marks, {{1, "iteration 0"}}, "mark");
}

TEST(Snapshot, TakesAnyHandleOfAStream) {
  for (const Stream stream : {Stream{0x7100000000000100}, Stream{0xffffffffffffffff}}) {
    const std::string entry =
        pickles::dict({{"action", pickles::string("alloc")},
                       {"addr", pickles::integer(0)},
                       {"size", pickles::integer(100)},
                       {"stream", pickles::integer(static_cast<std::int64_t>(stream))}});
    expect_same(read_one(pickles::snapshot({entry})).requests, {{100, {0, kForever}, kForever, stream}},
                "request");
  }
}

TEST(Snapshot, KeepsTheSettingsThatNameExpandableSegmentsAlready) {
  const std::string settings = pickles::dict(
      {{"PYTORCH_ALLOC_CONF", pickles::string("expandable_segments:True")}, {"expandable_segments", "\x88"}});
  EXPECT_EQ(read_one(pickles::snapshot(kOneAllocation, {}, {{"allocator_settings", settings}})).settings,
            "expandable_segments:True");
}

TEST(Snapshot, BelievesTheSwitchOfExpandableSegmentsMoreThanTheText) {
  for (const std::string before : {"expandable_segments_reserve:1.5", "expandable_segments:False"}) {
    const std::string settings =
        pickles::dict({{"PYTORCH_ALLOC_CONF", pickles::string(before)}, {"expandable_segments", "\x88"}});
    EXPECT_EQ(read_one(pickles::snapshot(kOneAllocation, {}, {{"allocator_settings", settings}})).settings,
              before + ",expandable_segments:True");
  }
}

TEST(Snapshot, BelievesTheSwitchThatIsOff) {
  const std::string settings = pickles::dict(
      {{"PYTORCH_ALLOC_CONF", pickles::string("expandable_segments:True")}, {"expandable_segments", "\x89"}});
  EXPECT_EQ(read_one(pickles::snapshot(kOneAllocation, {}, {{"allocator_settings", settings}})).settings,
            "expandable_segments:True,expandable_segments:False");
}

TEST(Snapshot, ReadsARequestAsLargeAsPyTorchWritesDown) {
  const std::int64_t size = (std::int64_t{1} << 60) - 1;
  const std::string oom = pickles::dict({{"action", pickles::string("oom")},
                                         {"size", pickles::integer(size)},
                                         {"device_free", pickles::integer(7)}});
  EXPECT_EQ(read_one(pickles::snapshot({pickles::entry("alloc", 0, 1), oom})).ooms.front().size, size);
}

TEST(Snapshot, TellsTheOrderOfEqualBlocksByASettingThatLaterReleasesWrite) {
  const std::string settings = pickles::dict({{"PYTORCH_ALLOC_CONF", pickles::string("max_split_size_mb:64")},
                                              {"max_round_threshold", pickles::integer(0)}});
  EXPECT_EQ(read_one(pickles::snapshot(kOneAllocation, {}, {{"allocator_settings", settings}})).settings,
            "max_split_size_mb:64,oldest_first:True");
}

TEST(Snapshot, SaysWhatToDoWhenNothingWasRecorded) {
  EXPECT_THAT(
      refused_snapshot(pickles::snapshot({})),
      AllOf(HasSubstr("no allocations"), HasSubstr("_record_memory_history() before the first allocation")));
  EXPECT_THAT(refused_snapshot(pickles::snapshot({pickles::entry("segment_alloc", 0, 2)})),
              HasSubstr("no allocations"));
  EXPECT_THAT(refused_snapshot(pickles::pickle(pickles::dict({{"device_traces", "]"}}))),
              HasSubstr("no allocations"));
}

TEST(Snapshot, SaysThatSomethingElseIsNoSnapshot) {
  EXPECT_THAT(refused_snapshot(pickles::pickle(pickles::dict({{"segments", "]"}}))),
              HasSubstr("no device_traces"));
  EXPECT_THAT(refused_snapshot(pickles::pickle("](K\x01\x65")),
              HasSubstr("not a memory snapshot of PyTorch"));
}

TEST(Snapshot, RefusesEntriesOfTheWrongKind) {
  const auto with = [](const std::string& key, const std::string& value) {
    return refused_snapshot(pickles::snapshot({pickles::dict({{"action", pickles::string("alloc")},
                                                              {"addr", pickles::integer(0)},
                                                              {"size", pickles::integer(1)},
                                                              {key, value}})}));
  };
  EXPECT_EQ(with("size", pickles::integer(-1)), "file: is damaged: size is negative");
  EXPECT_EQ(with("addr", pickles::integer(-1)), "file: is damaged: addr is negative");
  EXPECT_EQ(with("addr", pickles::string("x")), "file: is damaged: addr is missing or not an integer");
  EXPECT_EQ(with("size", pickles::integer(INT64_MAX)), "file: is damaged: size is out of range");
  EXPECT_EQ(with("pool_id", pickles::tuple({"N"})), "file: is damaged: a pool's id");
  EXPECT_THAT(refused_snapshot(pickles::snapshot({"N"})), HasSubstr("lacks its action or size"));
  EXPECT_THAT(refused_snapshot(pickles::snapshot({pickles::dict({})})),
              HasSubstr("lacks its action or size"));
}

TEST(Snapshot, RefusesSizesThatDoNotAddUp) {
  const std::int64_t huge = (std::int64_t{1} << 59) - 1;
  std::vector<std::string> entries;
  for (int i = 0; i < 20; ++i) {
    entries.push_back(pickles::entry("alloc", 0, huge));
    entries.push_back(pickles::entry("free_completed", 0, huge));
  }
  EXPECT_THAT(refused_snapshot(pickles::snapshot(entries)),
              HasSubstr("sum of all requested bytes is out of range"));
}

TEST(Snapshot, RefusesPartsOfTheWrongKind) {
  for (const char* key : {"segments", "markers", "external_annotations"}) {
    for (const std::string& value :
         {"K\x01"s, pickles::list({"K\x01"}), pickles::list({pickles::tuple({"K\x01"})})}) {
      const std::string bytes = pickles::pickle(
          pickles::dict({{"device_traces", pickles::list({pickles::list(kOneAllocation)})}, {key, value}}));
      EXPECT_THAT(refused_snapshot(bytes), StartsWith("file: is damaged: ")) << key;
    }
  }
  EXPECT_THAT(refused_snapshot(pickles::pickle(pickles::dict({{"device_traces", "K\x01"}}))),
              HasSubstr("not a list"));
}

TEST(Snapshot, RefusesAPickleThatWouldRunCode) {
  const std::string bomb = "cos\nsystem\n" + pickles::tuple({pickles::string("true")}) + "R";
  EXPECT_THAT(refused_snapshot(pickles::snapshot({bomb})),
              AllOf(StartsWith("file: "), HasSubstr("GLOBAL at byte")));
}

TEST(Snapshot, ReadsOrRefusesWhateverIsFlipped) {
  const std::string good = fixture("every_field_4.pickle");
  std::mt19937 random(7);
  int refusals = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (int flips = 1 + round % 4; flips > 0; --flips) {
      flip_bit(bytes, random() % (bytes.size() * 8));
    }
    try {
      for (const Trace& trace : snapshots_of(bytes)) validate(trace);
    } catch (const Error& error) {
      ++refusals;
      ASSERT_THAT(error.what(), AllOf(StartsWith("file"), testing::Not(HasSubstr("\n"))));
    }
  }
  EXPECT_GT(refusals, 1000);
}

// ---- lines of code ----

std::string frame(const std::string& file, std::int64_t line, const std::string& function) {
  return pickles::dict({{"name", pickles::string(function)},
                        {"filename", pickles::string(file)},
                        {"line", pickles::integer(line)}});
}

std::string entry_from(std::int64_t address, const std::string& frames) {
  return pickles::dict({{"action", pickles::string("alloc")},
                        {"addr", pickles::integer(address)},
                        {"size", pickles::integer(4096)},
                        {"stream", pickles::integer(0)},
                        {"frames", frames}});
}

TEST(SnapshotSites, AreTheInnermostLinesOfPythonOutsideOfPyTorch) {
  const std::string allocation = frame("??", 0, "c10::alloc");
  const std::string linear = frame("/usr/lib/python3/site-packages/torch/nn/linear.py", 7, "forward");
  const std::string model = frame("/home/me/job/model.py", 42, "attention");
  const std::string main = frame("train.py", 9, "main");
  const Trace trace = read_one(pickles::snapshot(
      {entry_from(4096, pickles::list({allocation, linear, model, main})),
       entry_from(8192, pickles::list({allocation, linear})), entry_from(12288, pickles::list({allocation})),
       entry_from(16384, pickles::list({main}))}));
  std::vector<std::string> sites;
  for (const Request& request : trace.requests) sites.push_back(trace.sites.at(request.site));
  EXPECT_THAT(sites, testing::ElementsAre("attention (job/model.py:42)", "forward (nn/linear.py:7)", "",
                                          "main (train.py:9)"));
}

TEST(SnapshotSites, AreTheSameForEntriesThatShareAStack) {
  const std::string stack = pickles::list({frame("a.py", 1, "f")});
  const Trace trace = read_one(pickles::snapshot(
      {entry_from(4096, stack + "r" + pickles::little_endian(77, 4)),
       entry_from(8192, "j" + pickles::little_endian(77, 4)), pickles::entry("alloc", 12288, 8)}));
  ASSERT_EQ(trace.sites.size(), 2);
  EXPECT_EQ(trace.requests.at(0).site, 1);
  EXPECT_EQ(trace.requests.at(1).site, 1);
  EXPECT_EQ(trace.requests.at(2).site, 0);
}

TEST(SnapshotSites, AreNotReadFromWhatIsNoStack) {
  const std::string odd = pickles::dict({{"filename", pickles::integer(1)}, {"name", pickles::string("f")}});
  for (const std::string& frames :
       {pickles::string("frames"), pickles::integer(3), pickles::list({pickles::integer(3)}),
        pickles::list({odd}), pickles::list({pickles::entry("alloc", 1, 2)})}) {
    EXPECT_EQ(read_one(pickles::snapshot({entry_from(4096, frames)})).requests.at(0).site, 0);
  }
}

}  // namespace
}  // namespace stweaver
