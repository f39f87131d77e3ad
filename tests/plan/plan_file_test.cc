#include "plan/plan_file.h"

#include <limits>
#include <sstream>

#include "support/checked.h"
#include "support/errors.h"
#include "support/instances.h"
#include "support/job.h"
#include "support/sources.h"

namespace stweaver {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

Plan busy_plan() {
  Training training({.layers = 3, .zero_grad_first = true, .side_stream = 7});
  for (const Bytes scale : {8, 8, 12, 8}) training.step(scale);
  return checked_plan(training.job.trace());
}

std::string written(const Plan& plan) {
  std::ostringstream out;
  write_plan(plan, out);
  return out.str();
}

Plan read(const std::string& bytes) {
  return read_plan(source_of(bytes), "some.plan");
}

/// `content` with the checksum that belongs to it, as a forger would set it.
std::string sealed(const std::string& content) {
  std::ostringstream out;
  out << content << "crc32c " << std::hex << crc32c(std::as_bytes(std::span(content))) << '\n';
  return out.str();
}

std::string body_of(const std::string& file) {
  return file.substr(0, file.rfind("crc32c "));
}

/// A whole plan of one slot, of which a test changes one thing.
struct Lines {
  std::string version = "stweaver-plan 6\n";
  std::string head =
      "source a\nfingerprint 000000000000000f\nalignment 512\narena 1024\nlower_bound 1024\n"
      "shape fixed\nstream_gap 0\n";
  std::string winner = "winner sweep 4\n";
  std::string prologue = "prologue 1\nprologue_steps 0\nsteps 1\n";
  std::string runs = "runs 1\n0 0 1\n";
  std::string slots = "slots 1\n1024 0 0 -1 exact\n";

  [[nodiscard]] std::string file() const { return sealed(version + head + winner + prologue + runs + slots); }
};

std::string refused(const Lines& lines) {
  return refusal([&] { read(lines.file()); });
}

TEST(PlanFile, KeepsEverything) {
  Plan plan = busy_plan();
  plan.slots.front().varying = plan.slots.back().varying = true;
  plan.slots.front().power = 1;
  plan.slots.back().power = 2;
  plan.slots[1].varying = true;
  plan.slots[1].power = 1;
  plan.slots[1].length = 3;
  plan.slots[1].tile = 512;
  const Plan copy = read(written(plan));
  EXPECT_EQ(copy.source, plan.source);
  EXPECT_EQ(copy.fingerprint, plan.fingerprint);
  EXPECT_EQ(copy.alignment, plan.alignment);
  EXPECT_EQ(copy.arena, plan.arena);
  EXPECT_EQ(copy.lower_bound, plan.lower_bound);
  EXPECT_EQ(copy.shape, plan.shape);
  EXPECT_EQ(copy.stream_gap, plan.stream_gap);
  EXPECT_EQ(copy.winner, plan.winner);
  EXPECT_EQ(copy.prologue, plan.prologue);
  EXPECT_EQ(copy.prologue_steps, plan.prologue_steps);
  EXPECT_EQ(copy.steps, plan.steps);
  ASSERT_EQ(copy.slots.size(), plan.slots.size());
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    EXPECT_EQ(copy.slots[i].size, plan.slots[i].size);
    EXPECT_EQ(copy.slots[i].offset, plan.slots[i].offset);
    EXPECT_EQ(copy.slots[i].stream, plan.slots[i].stream);
    EXPECT_EQ(copy.slots[i].death, plan.slots[i].death);
    EXPECT_EQ(copy.slots[i].varying, plan.slots[i].varying);
    EXPECT_EQ(copy.slots[i].length, plan.slots[i].length);
    EXPECT_EQ(copy.slots[i].power, plan.slots[i].power);
    EXPECT_EQ(copy.slots[i].tile, plan.slots[i].tile);
  }
  ASSERT_EQ(copy.runs.size(), plan.runs.size());
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    EXPECT_EQ(copy.runs[i].request, plan.runs[i].request);
    EXPECT_EQ(copy.runs[i].slot, plan.runs[i].slot);
    EXPECT_EQ(copy.runs[i].count, plan.runs[i].count);
  }
}

TEST(PlanFile, KeepsEveryShape) {
  for (const StepShape shape : {StepShape::kFixed, StepShape::kVarying, StepShape::kDynamic}) {
    Plan plan;
    plan.shape = shape;
    EXPECT_EQ(read(written(plan)).shape, shape);
  }
}

TEST(PlanFile, KeepsAnEmptyPlan) {
  EXPECT_EQ(written(read(written(Plan()))), written(Plan()));
}

TEST(PlanFile, KeepsOddNamesOnOneLine) {
  Plan plan;
  plan.source = "two\nlines\r, \"quotes\" and  spaces ";
  plan.winner = "";
  const Plan copy = read(written(plan));
  EXPECT_EQ(copy.source, "two lines , \"quotes\" and  spaces ");
  EXPECT_EQ(copy.winner, "");
}

TEST(PlanFile, RefusesToKeepWhatIsGoodInOneProcessAlone) {
  Plan plan = busy_plan();
  plan.in_gaps.push_back({3, {0, 512}});
  EXPECT_THAT([&] { written(plan); }, testing::ThrowsMessage<Error>(HasSubstr("make one without gaps")));
}

TEST(PlanFile, ReadsInPiecesOfAnySize) {
  const std::string file = written(busy_plan());
  for (const std::size_t piece : {1U, 7U, 1000U})
    EXPECT_EQ(written(read_plan(source_of(file, piece), "p")), file);
}

TEST(PlanFile, RefusesEveryTruncation) {
  const std::string file = Lines().file();
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THAT(refusal([&] { read(file.substr(0, size)); }), StartsWith("some.plan: ")) << size;
  }
  const std::string large = written(busy_plan());
  for (std::size_t size = 0; size < large.size(); size += 13) {
    EXPECT_THAT(refusal([&] { read(large.substr(0, size)); }), StartsWith("some.plan: ")) << size;
  }
}

TEST(PlanFile, RefusesEveryFlippedBitThatChangesIt) {
  const std::string file = written(busy_plan());
  Random random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = file;
    flip_bit(damaged,
             static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(8 * file.size()) - 1)));
    try {
      EXPECT_EQ(written(read(damaged)), file) << "the case of a hexadecimal digit says nothing";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(StartsWith("some.plan: "), testing::Not(HasSubstr("\n"))));
    }
  }
}

TEST(PlanFile, RefusesWhatFollowsTheEnd) {
  EXPECT_THAT(refusal([] { read(Lines().file() + "\n"); }), HasSubstr("something follows the end"));
  EXPECT_THAT(refusal([] { read(Lines().file() + Lines().file()); }), HasSubstr("something follows the end"));
}

TEST(PlanFile, RefusesForeignFilesAtTheirFirstBytes) {
  for (const std::string foreign : {"", "s", "STWTRACE", "id,lower,upper,size\n", "stweaver-pla"}) {
    EXPECT_THAT(refusal([&] { read(foreign); }), HasSubstr("not a plan file; make one with `stweaver plan"));
  }
  // One that never ends.
  const ByteSource zeros = [](std::span<std::byte> buffer) {
    std::fill(buffer.begin(), buffer.end(), std::byte{0});
    return buffer.size();
  };
  EXPECT_THAT(refusal([&] { read_plan(zeros, "zero"); }), StartsWith("zero: not a plan file"));
}

TEST(PlanFile, RefusesOtherVersions) {
  for (const std::string version : {"0", "1", "5", "7", "10", "-1"}) {
    Lines lines;
    lines.version = "stweaver-plan " + version + '\n';
    EXPECT_EQ(refused(lines), "some.plan: a plan file of version " + version +
                                  ", and only version 6 is known; make the plan again with `stweaver plan`");
  }
}

TEST(PlanFile, RefusesForgedCountsWithoutBelievingThem) {
  Lines lines;
  for (const std::string count : {"2", "100", "4294967295"}) {
    lines = {};
    lines.runs = "runs " + count + "\n0 0 1\n";
    EXPECT_THAT(refused(lines), HasSubstr("; make the plan again"));
    lines = {};
    lines.slots = "slots " + count + "\n1024 0 0 -1 exact\n";
    EXPECT_THAT(refused(lines), HasSubstr("; make the plan again"));
  }
  for (const std::string count :
       {"-1", "4294967296", "99999999999999999999999", "1e3", "0x1", "", " 1", "+1"}) {
    lines = {};
    lines.slots = "slots " + count + "\n1024 0 0 -1 exact\n";
    EXPECT_THAT(refused(lines), HasSubstr("line 15"));
  }
}

/// Why a file is refused in which one part is another.
std::string refused_with(std::string Lines::*part, const std::string& value) {
  Lines lines;
  lines.*part = value;
  return refused(lines);
}

TEST(PlanFile, RefusesForgedSlots) {
  for (const std::string slot : {"-1 0 0 -1 exact",
                                 "0 0 0 -1 exact",
                                 "1024 -2 0 -1 exact",
                                 "512 1 0 -1 exact",
                                 "2048 0 0 -1 exact",
                                 "1024 0 -1 -1 exact",
                                 "1024 0 0 -2 exact",
                                 "1024 0 0 0 exact",
                                 "1024 9223372036854775807 0 -1 exact",
                                 "9223372036854775807 0 0 -1 exact",
                                 "1024 0 0 9223372036854775806 exact",
                                 "1024 0 0 exact",
                                 "1024 0 0",
                                 "1024 0 0 -1",
                                 "1024 0 0 -1 ",
                                 "1024 0 0 -1 1",
                                 "1024 0 0 -1 varying",
                                 "1024 0 0 -1 upt",
                                 "1024 0 0 -1 square1",
                                 "1024 0 0 -1 upto ",
                                 "1024 0 0 -1 exact ",
                                 "1024 0 0 -1 exact 0",
                                 "1024 0 0 -1 upto",
                                 "1024 0 0 -1 upto 0 512",
                                 "1024 0 0 -1 length 16",
                                 "1024 0 0 -1 length -1",
                                 "1024 0 0 -1 length 256",
                                 "1024 0 0 -1 tiles",
                                 "1024 0 0 -1 tiles 0",
                                 "1024 0 0 -1 tiles 0 ",
                                 "1024 0 0 -1 tiles 0 0",
                                 "1024 0 0 -1 tiles 0 -512",
                                 "1024 0 0 -1 tiles 0 1025",
                                 "1024 0 0 -1 tiles 0 512 ",
                                 "1024 0 0 -1exact",
                                 "1024 0 0-1 exact",
                                 "1024 0 0 -1  exact",
                                 "1024  0 0 -1 exact",
                                 " 1024 0 0 -1 exact"}) {
    EXPECT_THAT(refused_with(&Lines::slots, "slots 1\n" + slot + '\n'), EndsWith("; make the plan again"))
        << slot;
  }
}

TEST(PlanFile, RefusesForgedRuns) {
  for (const std::string run :
       {"0 0 2", "0 1 1", "0 2 0", "0 4294967295 4294967295", "0 0", "-1 0 1", "0 0 1 1", "0 0 1 "}) {
    EXPECT_THAT(refused_with(&Lines::runs, "runs 1\n" + run + '\n'), EndsWith("; make the plan again"))
        << run;
  }
}

TEST(PlanFile, RefusesAPrologueAndStepsThatAreNotThePlans) {
  EXPECT_THAT(refused_with(&Lines::prologue, "prologue 2\nprologue_steps 0\nsteps 1\n"),
              HasSubstr("the prologue is longer than the plan"));
  for (const std::string steps : {"0", "2", "4294967295"}) {
    EXPECT_THAT(refused_with(&Lines::prologue, "prologue 0\nprologue_steps 0\nsteps " + steps + '\n'),
                HasSubstr("what repeats is no whole number of steps"))
        << steps;
  }
}

TEST(PlanFile, RefusesAForgedHead) {
  EXPECT_THAT(refused_with(&Lines::winner, "loser sweep 4\n"), HasSubstr("expected `winner ...`"));
  const std::string head = Lines().head;
  for (const auto& [key, value] : {std::pair("alignment 512", "alignment 0"),
                                   {"alignment 512", "alignment -1"},
                                   {"alignment 512", "alignment 9223372036854775296"},
                                   {"lower_bound 1024", "lower_bound -9223372036854775808"},
                                   {"lower_bound 1024", "lower_bound 1536"},
                                   {"stream_gap 0", "stream_gap 9223372036854775807"},
                                   {"arena 1024", "arena -1"},
                                   {"arena 1024", "arena 9223372036854775807"},
                                   {"arena 1024", "arena 1024 "},
                                   {"lower_bound 1024", "lower_bound 1024\nrequested 1024"},
                                   {"shape fixed\n", ""},
                                   {"shape fixed", "shape "},
                                   {"shape fixed", "shape fixed "},
                                   {"shape fixed", "shape round"},
                                   {"stream_gap 0", "stream_gap -1"},
                                   {"fingerprint 000000000000000f", "fingerprint 1000000000000000f"}}) {
    std::string changed = head;
    changed.replace(changed.find(key), std::string(key).size(), value);
    EXPECT_THAT(refused_with(&Lines::head, changed), EndsWith("; make the plan again")) << value;
  }
}

TEST(PlanFile, RefusesSlotsThatAreLargerThanAnyMemoryTogether) {
  // They have no place, so no arena bounds them; whoever follows the plan adds them up.
  const std::string large = "1000000000000000000 -1 0 -1 upto 0\n";
  const auto with = [](const std::string& slots) {
    Lines lines;
    lines.prologue = "prologue 0\nprologue_steps 0\nsteps 1\n";
    lines.runs = "runs 0\n";
    lines.slots = slots;
    return lines;
  };
  EXPECT_EQ(read(with("slots 1\n" + large).file()).slots.size(), 1);
  EXPECT_THAT(refused(with("slots 2\n" + large + large)), HasSubstr("larger than any memory"));
}

TEST(PlanFile, AcceptsTheSlotOfWhichTheTestsAboveChangeOneThing) {
  const Plan plan = read(Lines().file());
  EXPECT_EQ(plan.slots.size(), 1);
  EXPECT_EQ(plan.slots[0].death, kForever);
  EXPECT_EQ(body_of(written(plan)), body_of(Lines().file()));
}

}  // namespace
}  // namespace stweaver
