#include "trace/pickle.h"

#include <array>

#include "support/collisions.h"
#include "support/errors.h"
#include "support/pickles.h"
#include "support/sources.h"

namespace stweaver {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::array<std::string_view, 3> kKeys = {"a", "b", "list"};
enum Key : std::uint8_t { kA, kB, kList };

/// A document whose dicts with a number under "a" are collapsed into that number.
PickleDocument document() {
  return {"file", kKeys, [](const PickleDocument& all, PickleValue dict) -> std::optional<std::uint32_t> {
            const PickleValue a = all.get(dict, kA);
            if (all.kind(a) != PickleKind::kInt) return std::nullopt;
            return static_cast<std::uint32_t>(all.integer(a));
          }};
}

/// Python's repr() of what `object`, between PROTO and STOP, makes.
std::string shown(const PickleDocument& all, PickleValue value) {
  const auto joined = [&] {
    std::string out;
    for (const PickleValue& item : all.items(value)) out += text(out.empty() ? "" : ",", shown(all, item));
    return out;
  };
  switch (all.kind(value)) {
    case PickleKind::kNone:
      return "None";
    case PickleKind::kBool:
      return value.bits() != 0 ? "True" : "False";
    case PickleKind::kInt:
      return std::to_string(all.integer(value));
    case PickleKind::kHuge:
      return "huge";
    case PickleKind::kFloat:
      return "float";
    case PickleKind::kString:
      return text("'", all.string(value), "'");
    case PickleKind::kTuple:
      return text("(", joined(), ")");
    case PickleKind::kList:
      return text("[", joined(), "]");
    case PickleKind::kDict:
      return text("{", joined(), "}");
    case PickleKind::kRecord:
      return text("record ", all.record(value));
    case PickleKind::kSkipped:
      return "skipped";
  }
  return "?";
}

std::string read_shown(const std::string& bytes, std::size_t piece = 1 << 16) {
  PickleDocument all = document();
  const PickleValue root = read_pickle(source_of(bytes, piece), all);
  return shown(all, root);
}

std::string value(const std::string& opcodes) {
  return read_shown(pickles::pickle(opcodes));
}

std::string refused_pickle(const std::string& bytes) {
  return refusal([&] { read_shown(bytes); });
}

std::string refused_opcodes(const std::string& opcodes) {
  return refused_pickle(pickles::pickle(opcodes));
}

using namespace std::string_literals;

TEST(Pickle, ReadsNumbers) {
  EXPECT_EQ(value("N"), "None");
  EXPECT_EQ(value("\x88"), "True");
  EXPECT_EQ(value("\x89"), "False");
  EXPECT_EQ(value("K\xff"), "255");
  EXPECT_EQ(value("M\x01\x80"), "32769");
  EXPECT_EQ(value("J\xfe\xff\xff\xff"), "-2");
  EXPECT_EQ(value("\x8a\x00"s), "0");
  EXPECT_EQ(value("\x8a\x01\xff"), "-1");
  EXPECT_EQ(value("\x8a\x02\x00\x80"s), "-32768");
  EXPECT_EQ(value("\x8b\x02\x00\x00\x00\xff\x00"s), "255");
  EXPECT_EQ(value("G\x3f\xf0\x00\x00\x00\x00\x00\x00"s), "float");
}

TEST(Pickle, KeepsIntegersOf64BitsAndSaysWhichAreLarger) {
  for (const int bits : {58, 59, 60, 63}) {
    const auto largest = static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
    for (const std::int64_t number : {largest - 1, largest, -largest, -largest - 1})
      EXPECT_EQ(value(pickles::integer(number)), std::to_string(number));
  }
  EXPECT_EQ(value("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00"s), "huge");
}

TEST(Pickle, ReadsStringsOfBothKinds) {
  EXPECT_EQ(value("U\x02hi"), "'hi'");
  EXPECT_EQ(value("T\x02\x00\x00\x00hi"s), "'hi'");
  EXPECT_EQ(value("\x8c\x02hi"), "'hi'");
  EXPECT_EQ(value("X\x02\x00\x00\x00hi"s), "'hi'");
  EXPECT_EQ(value("\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi"s), "'hi'");
}

TEST(Pickle, SkipsBytesAndSets) {
  EXPECT_EQ(value("C\x02hi"), "skipped");
  EXPECT_EQ(value("B\x02\x00\x00\x00hi"s), "skipped");
  EXPECT_EQ(value("\x8e\x02\x00\x00\x00\x00\x00\x00\x00hi"s), "skipped");
  EXPECT_EQ(value("\x96\x02\x00\x00\x00\x00\x00\x00\x00hi"s), "skipped");
  EXPECT_EQ(value("\x8f(K\x01K\x02\x90"), "skipped");
  EXPECT_EQ(value("(K\x01K\x02\x91"), "skipped");
}

TEST(Pickle, ReadsContainersInEveryForm) {
  EXPECT_EQ(value(")"), "()");
  EXPECT_EQ(value("K\x01\x85"), "(1)");
  EXPECT_EQ(value("K\x01K\x02\x86"), "(1,2)");
  EXPECT_EQ(value("K\x01K\x02K\x03\x87"), "(1,2,3)");
  EXPECT_EQ(value("(K\x01K\x02t"), "(1,2)");
  EXPECT_EQ(value("]"), "[]");
  EXPECT_EQ(value("]K\x01\x61"), "[1]");
  EXPECT_EQ(value("](K\x01K\x02\x65"), "[1,2]");
  EXPECT_EQ(value("(K\x01K\x02l"), "[1,2]");
  EXPECT_EQ(value("}"), "{}");
  EXPECT_EQ(value("}U\x01\x62K\x01s"), "{'b',1}");
  EXPECT_EQ(value("}(U\x01\x62K\x01u"), "{'b',1}");
  EXPECT_EQ(value("(U\x01\x62K\x01\x64"), "{'b',1}");
}

TEST(Pickle, UsesTheMemoInEveryForm) {
  EXPECT_EQ(value("](U\x01xq\x05h\x05\x65"), "['x','x']");
  EXPECT_EQ(value("](U\x01xr\x05\x00\x00\x00j\x05\x00\x00\x00\x65"s), "['x','x']");
  EXPECT_EQ(value("](U\x01xp5\ng5\n\x65"), "['x','x']");
  EXPECT_EQ(value("]\x94(U\x01x\x94h\x01\x65"), "['x','x']");
}

TEST(Pickle, MovesTheStackAsPythonDoes) {
  EXPECT_EQ(value("K\x01K\x02\x30"), "1");
  EXPECT_EQ(value("K\x01(K\x02K\x03\x31"), "1");
  EXPECT_EQ(value("K\x01(0"), "1");
  EXPECT_EQ(value("K\x01\x32\x86"), "(1,1)");
}

TEST(Pickle, IgnoresWhereFramesEnd) {
  EXPECT_EQ(value("\x95\x02\x00\x00\x00\x00\x00\x00\x00K\x01"s), "1");
}

TEST(Pickle, ReadsTheSameFromPiecesOfOneByte) {
  const std::string bytes = fixture("every_field_4.pickle");
  EXPECT_EQ(read_shown(bytes, 1), read_shown(bytes));
}

TEST(Pickle, KeepsTheLastValueOfAKey) {
  EXPECT_EQ(value("}(U\x01\x62K\x01U\x01\x62K\x02u"), "{'b',2}");
}

TEST(Pickle, DropsWhatNobodyAskedFor) {
  EXPECT_EQ(value(pickles::dict({{"x", pickles::list({"K\x01"})}, {"b", "K\x02"}})), "{'b',2}");
  EXPECT_EQ(value("}K\x01K\x02s"), "{}");
}

TEST(Pickle, SaysSoWhenSomethingDroppedIsUsedAfterAll) {
  const std::string dropped = pickles::string("x") + "]q\x01(K\x01\x65";
  EXPECT_EQ(value("}(" + dropped + pickles::string("b") + "h\x01u"), "{'b',skipped}");
}

TEST(Pickle, CollapsesADictThatGoesIntoAList) {
  EXPECT_EQ(value(pickles::list({pickles::dict({{"a", "K\x07"}}), pickles::dict({{"b", "K\x07"}})})),
            "[record 7,{'b',7}]");
}

TEST(Pickle, CollapsesASharedDictOnce) {
  EXPECT_EQ(value("](" + pickles::dict({{"a", "K\x07"}}) + "q\x01h\x01\x65"), "[record 7,record 7]");
}

TEST(Pickle, RefusesEveryOpcodeThatIsMoreThanData) {
  const std::vector<std::pair<std::string, std::string>> opcodes = {
      {"cos\nsystem\n", "GLOBAL"},
      {"\x93", "STACK_GLOBAL"},
      {"R", "REDUCE"},
      {"b", "BUILD"},
      {"(ios\nsystem\n", "INST"},
      {"(o", "OBJ"},
      {"\x81", "NEWOBJ"},
      {"\x92", "NEWOBJ_EX"},
      {"P1\n", "PERSID"},
      {"Q", "BINPERSID"},
      {"\x82\x01", "EXT1"},
      {"\x83\x01\x00"s, "EXT2"},
      {"\x84\x01\x00\x00\x00"s, "EXT4"},
      {"\x97", "NEXT_BUFFER"},
      {"\x98", "READONLY_BUFFER"},
  };
  for (const auto& [bytes, name] : opcodes) {
    EXPECT_THAT(refused_opcodes(bytes), AllOf(StartsWith("file: "), HasSubstr(name + " at byte"))) << name;
  }
}

TEST(Pickle, RefusesAReducerAndSaysWhere) {
  const std::string bomb = "cos\nsystem\n" + pickles::tuple({pickles::string("true")}) + "R";
  EXPECT_THAT(refused_opcodes("]" + bomb), HasSubstr("GLOBAL at byte 3"));
}

TEST(Pickle, RefusesTheTextOfProtocol0) {
  EXPECT_THAT(refused_opcodes("I1\n"), HasSubstr("INT at byte 2 is of protocol 0"));
  EXPECT_THAT(refused_pickle("(lp0\n."), HasSubstr("not a pickle of protocol 2 to 5"));
}

TEST(Pickle, RefusesAnUnknownProtocolOrOpcode) {
  EXPECT_THAT(refused_pickle("\x80\x06N."), HasSubstr("protocol 6"));
  EXPECT_THAT(refused_pickle("\x80\x01N."), HasSubstr("protocol 1"));
  EXPECT_THAT(refused_opcodes("\xff"), HasSubstr("byte 2 (255) is no pickle opcode"));
}

TEST(Pickle, RefusesWhatEndsEarly) {
  const std::string bytes = fixture("every_field_2.pickle");
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    EXPECT_THAT(refused_pickle(bytes.substr(0, length)), HasSubstr("ends early, after")) << length;
  }
  EXPECT_THAT(refused_pickle(""), HasSubstr("is empty"));
}

TEST(Pickle, RefusesTwoPicklesInOneFile) {
  EXPECT_THAT(refused_pickle(pickles::pickle("N") + pickles::pickle("N")), HasSubstr("more than one pickle"));
}

TEST(Pickle, RefusesAStackThatDoesNotAddUp) {
  for (const char* opcodes : {"0",     "1",  "2",     "t",     "\x85", "a",      "e",    "]e",
                              "](a",   "s",  "u",     "}(Nu",  "(e",   "N(e",    "](N",  "NN",
                              "",      "](", "q\x01", "h\x01", "\x90", "N(\x90", "\x91", "K\x01K\x01\x61",
                              "(N\x86"}) {
    EXPECT_THAT(refused_opcodes(opcodes), StartsWith("file: ")) << opcodes;
  }
}

TEST(Pickle, RefusesToNestWithoutEnd) {
  EXPECT_THAT(refused_opcodes(std::string(2000, '(')), HasSubstr("nests more than 1000 levels"));
}

TEST(Pickle, AsksForNoMemoryOnTheWordOfALength) {
  EXPECT_THAT(refused_pickle("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fhi"), HasSubstr("ends early"));
  EXPECT_THAT(refused_pickle("\x80\x04\x8b\xff\xff\xff\x7fhi"), HasSubstr("ends early"));
  EXPECT_THAT(refused_pickle("\x80\x04\x8b\xff\xff\xff\xffhi"), HasSubstr("negative length"));
  EXPECT_THAT(refused_pickle("\x80\x04T\xff\xff\xff\xffhi"), HasSubstr("negative length"));
}

TEST(Pickle, AsksForNoMemoryOnTheWordOfAMemoNumber) {
  EXPECT_THAT(refused_opcodes("Nr\xff\xff\xff\xff"), HasSubstr("would take"));
  EXPECT_THAT(refused_opcodes("Np4294967295\n"), HasSubstr("would take"));
  EXPECT_THAT(refused_opcodes("Np99999999999999999999\n"), HasSubstr("a memo number is expected"));
}

TEST(Pickle, ReadsAnyNumbersAndTuplesOfThemInAboutTheSameTime) {
  for (const char* const end : {"0",
                                "\x85"
                                "0"}) {  // POP, of the number or of a tuple of it
    expect_no_collisions([&](std::int64_t step) {
      std::string numbers;
      for (std::int64_t i = 0; i < kColliding; ++i)
        numbers +=
            pickles::integer((std::int64_t{1} << 58) / kBuckets * kBuckets + i * step + kBuckets) + end;
      EXPECT_EQ(value(numbers + "N"), "None");
    });
  }
}

TEST(Pickle, BoundsTheMemoryOfManySmallObjects) {
  std::string many_dicts;
  many_dicts.resize(20'000'000, '}');
  EXPECT_THAT(refused_opcodes("](" + many_dicts + "e"), HasSubstr("would take"));
}

}  // namespace
}  // namespace stweaver
