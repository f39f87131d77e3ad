#include "trace/trace_file.h"

#include <random>

#include "support/errors.h"
#include "support/sources.h"
#include "support/traces.h"
#include "trace/read.h"
#include "trace/snapshot.h"

namespace stweaver {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

ByteSink sink_to(std::string& out) {
  return [&out](std::span<const std::byte> bytes) {
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
}

std::string written(const Trace& trace) {
  std::string out;
  write_trace_file(trace, sink_to(out));
  return out;
}

Trace trace_of(const std::string& bytes) {
  return read_trace_file(source_of(bytes), "file");
}

std::string refused_file(const std::string& bytes) {
  return refusal([&] { trace_of(bytes); });
}

std::vector<Trace> every_field() {
  return read_snapshot(source_of(fixture("every_field_4.pickle")), "file");
}

TEST(TraceFile, IsRefusedBeforeItTakesMoreMemoryThanItMay) {
  const std::string bytes = written(every_field().front());
  EXPECT_EQ(read_trace_file(source_of(bytes), "file", 1 << 20).requests.size(), 6);
  EXPECT_THAT(refusal([&] { read_trace_file(source_of(bytes), "file", 1000); }),
              StartsWith("file: would take more than 0 MiB of memory to read"));
}

TEST(TraceFile, ReadsWhatItWrites) {
  for (const Trace& trace : every_field()) expect_same(trace_of(written(trace)), trace);
}

TEST(TraceFile, ReadsATraceOfNothing) {
  Trace trace;
  trace.device = 3;
  trace.settings = "expandable_segments:True";
  expect_same(trace_of(written(trace)), trace);
}

TEST(TraceFile, KeepsTheLargestNumbers) {
  Trace trace;
  trace.requests = {{INT64_MAX - 1024, {0, kForever}, kForever, UINT64_MAX, UINT32_MAX}};
  trace.end = 1;
  trace.micros = {-kLatest};
  trace.reserves = {{0, INT64_MAX}, {1, 0}};
  trace.ooms = {{1, INT64_MAX, INT64_MAX}};
  trace.marks = {{0, ""}, {1, std::string(100'000, 'x')}};
  expect_same(trace_of(written(trace)), trace);
}

/// Writes 40,000 requests, enough for several blocks, without an end.
std::string unfinished() {
  std::string out;
  TraceWriter writer(sink_to(out), {0, "", true});
  for (int i = 0; i < 40'000; ++i) {
    const RequestId request = writer.allocate(i, 0, 0, i);
    if (i % 2 == 0) writer.free(request, i);
  }
  return out;
}

TEST(TraceFile, IsGoodUpToTheLastWholeBlockOfAKilledWriter) {
  const std::string bytes = unfinished();
  const Trace trace = trace_of(bytes);
  EXPECT_FALSE(trace.complete);
  EXPECT_GT(trace.requests.size(), 10'000);
  EXPECT_LT(trace.requests.size(), 40'000) << "the last block was not written";
  const Trace cut = trace_of(bytes.substr(0, bytes.size() - 1));
  EXPECT_FALSE(cut.complete);
  EXPECT_LT(cut.requests.size(), trace.requests.size());
  EXPECT_GT(cut.requests.size(), 0);
}

TEST(TraceFile, IsReadableWhereverItIsCut) {
  const std::string bytes = written(every_field().front());
  for (std::size_t length = 8; length < bytes.size(); ++length) {
    EXPECT_FALSE(trace_of(bytes.substr(0, length)).complete) << length;
  }
}

TEST(TraceFile, HandsOutWholeBlocks) {
  std::string out;
  std::size_t pieces = 0;
  TraceWriter writer(
      [&](std::span<const std::byte> bytes) {
        sink_to(out)(bytes);
        EXPECT_EQ(trace_of(out).requests.size(), pieces++) << "of the blocks after the start, one each";
      },
      {});
  for (int i = 0; i < 3; ++i) {
    writer.allocate(i, 0, 0);
    writer.flush();
  }
  EXPECT_EQ(pieces, 4);
}

TEST(TraceFile, HasWhatWasFlushed) {
  std::string out;
  TraceWriter writer(sink_to(out), {});
  writer.allocate(100, 0, 0);
  EXPECT_EQ(trace_of(out).requests.size(), 0);
  writer.flush();
  EXPECT_EQ(trace_of(out).requests.size(), 1);
}

TEST(TraceFile, RefusesEveryFlippedBit) {
  const std::string good = written(every_field().front());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    flip_bit(bytes, bit);
    try {
      EXPECT_FALSE(trace_of(bytes).complete)
          << bit;  // a longer length looks like the end of a killed writer's file
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), StartsWith("file: ")) << bit;
    }
  }
}

TEST(TraceFile, RefusesAnotherKindOrVersion) {
  EXPECT_THAT(refused_file("STWTRACK"), HasSubstr("not a trace file of STWeaver"));
  EXPECT_THAT(refused_file(""), HasSubstr("not a trace file of STWeaver"));
  std::string bytes = written(Trace{});
  bytes[8] = 2;
  EXPECT_THAT(refused_file(bytes), HasSubstr("version 2, this program reads version 1"));
}

TEST(TraceFile, RefusesWhatFollowsTheEnd) {
  EXPECT_THAT(refused_file(written(Trace{}) + "x"), HasSubstr("goes on after its end"));
}

TEST(TraceFile, RefusesBlocksOutOfOrder) {
  const std::string bytes = unfinished();
  const std::string header = written(Trace{}).substr(0, 12);
  EXPECT_THAT(refused_file(header + bytes.substr(12 + 8 + 3)), HasSubstr("wrong checksum in block 0"));
}

/// A file with the given payload in block 1, rightly checksummed.
std::string with_payload(const std::string& payload) {
  std::string out;
  TraceWriter writer(sink_to(out), {});
  const std::uint32_t block = 1;
  const auto crc = crc32c(std::as_bytes(std::span(payload)), crc32c(std::as_bytes(std::span(&block, 1))));
  for (const std::uint32_t number : {static_cast<std::uint32_t>(payload.size()), crc}) {
    sink_to(out)(std::as_bytes(std::span(&number, 1)));
  }
  return out + payload;
}

TEST(TraceFile, RefusesRecordsThatMakeNoSense) {
  using namespace std::string_literals;
  const std::string allocation = "\x00\x10\x00\x00"s;  // of a new class: 16 bytes, stream 0, pool 0
  EXPECT_EQ(trace_of(with_payload(allocation)).requests.size(), 1);
  EXPECT_THAT(refused_file(with_payload("\x04"s)), HasSubstr("an unknown class in block 2"));
  EXPECT_THAT(refused_file(with_payload(allocation + "\x08")), HasSubstr("an unknown class"));
  EXPECT_THAT(refused_file(with_payload("\x02"s)), HasSubstr("an unknown request"));
  EXPECT_THAT(refused_file(with_payload(allocation + "\x02\x02")), HasSubstr("a second free"));
  EXPECT_THAT(refused_file(with_payload(allocation + "\x01\x01")), HasSubstr("a second drop"));
  EXPECT_THAT(refused_file(with_payload(allocation + "\x02\x01")), HasSubstr("a second free"));
  EXPECT_THAT(refused_file(with_payload("\x1b"s)), HasSubstr("an unknown record"));
  EXPECT_THAT(refused_file(with_payload("\x00\x80"s)), HasSubstr("half a number"));
  EXPECT_THAT(refused_file(with_payload(std::string(11, '\xff'))), HasSubstr("an endless number"));
  EXPECT_THAT(refused_file(with_payload("\x03\x05hi"s)), HasSubstr("half a text"));
  EXPECT_THAT(refused_file(with_payload("\x03\x03hi"s)), HasSubstr("half a text"));
  EXPECT_THAT(refused_file(with_payload("\x07\x01"s)), HasSubstr("negative reserve"));
  EXPECT_THAT(refused_file(with_payload(allocation + "\x0f\x00"s)), HasSubstr("out of order"));
  EXPECT_THAT(refused_file(with_payload("\x17\x00"s)), HasSubstr("goes on after its end"));
}

TEST(TraceFile, RefusesATextThatNoBlockHolds) {
  Trace trace;
  trace.settings = std::string(2 << 20, 'x');
  EXPECT_THAT(refusal([&] { written(trace); }), HasSubstr("too long for a trace file"));
}

TEST(Read, TellsTheKindsApart) {
  const Trace trace = every_field().back();
  for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}}) {
    const std::vector<Trace> ours = read_traces(source_of(written(trace), piece), "file");
    ASSERT_EQ(ours.size(), 1);
    expect_same(ours.front(), trace);
    EXPECT_EQ(read_traces(source_of(fixture("every_field_2.pickle"), piece), "file").size(), 2);
  }
}

TEST(Read, RefusesEverythingElse) {
  const auto refused_by_read = [](const std::string& bytes) {
    return refusal([&] { read_traces(source_of(bytes), "file"); });
  };
  EXPECT_EQ(refused_by_read(""), "file: is empty");
  EXPECT_THAT(refused_by_read("hello"), HasSubstr("neither a memory snapshot of PyTorch nor a trace file"));
  EXPECT_THAT(refused_by_read("\x80"), HasSubstr("ends early"));
}

}  // namespace
}  // namespace stweaver
