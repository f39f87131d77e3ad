#include "trace/csv.h"

#include <sstream>

#include "support/errors.h"
#include "support/sources.h"

namespace stweaver {
namespace {

using testing::HasSubstr;

std::vector<CsvRow> rows_of(const std::string& lines) {
  return read_csv(source_of(lines), "file");
}

std::string refused_rows(const std::string& lines) {
  return refusal([&] { rows_of(lines); });
}

std::string refused_row(const std::string& row) {
  return refused_rows("id,lower,upper,size,offset\n" + row + "\n");
}

TEST(Csv, ReadsRows) {
  const std::vector<CsvRow> expected = {{"a", {0, 5}, 64, {}}, {"7", {3, 9}, 0, {}}};
  EXPECT_EQ(rows_of("id,lower,upper,size\na,0,5,64\n7,3,9,0\n"), expected);
}

TEST(Csv, ReadsOffsets) {
  const std::vector<CsvRow> expected = {{"a", {0, 5}, 64, 512}};
  EXPECT_EQ(rows_of("id,lower,upper,size,offset\na,0,5,64,512\n"), expected);
}

TEST(Csv, FindsColumnsByTheirName) {
  const std::vector<CsvRow> expected = {{"a", {0, 5}, 64, {}}};
  EXPECT_EQ(rows_of("size,upper,lower,id\n64,5,0,a\n"), expected);
  EXPECT_EQ(rows_of("size,end,start,buffer_id\n64,4,0,a\n"), expected);
}

TEST(Csv, ToleratesOtherLineEndsAndEmptyLines) {
  const std::vector<CsvRow> expected = {{"a", {0, 5}, 64, {}}};
  EXPECT_EQ(rows_of("id,lower,upper,size\r\na,0,5,64\r\n\r\n"), expected);
  EXPECT_EQ(rows_of("id,lower,upper,size\n\na,0,5,64"), expected);
  EXPECT_EQ(rows_of("\xEF\xBB\xBFid,lower,upper,size\na,0,5,64\n"), expected)
      << "a spreadsheet's mark in front";
}

TEST(Csv, HoldsNothingButItsHeader) {
  EXPECT_TRUE(rows_of("id,lower,upper,size\n").empty());
}

TEST(Csv, RefusesBadColumns) {
  EXPECT_THAT(refused_rows(""), HasSubstr("is empty"));
  EXPECT_THAT(refused_rows("id,lower,upper\n"), HasSubstr("line 1: the column 'size' is missing"));
  EXPECT_THAT(refused_rows("id,lower,upper,size,colour\n"), HasSubstr("the column 'colour' is unknown"));
  EXPECT_THAT(refused_rows("id,lower,start,upper,size\n"), HasSubstr("the column 'start' is there twice"));
  EXPECT_THAT(refused_rows("a,0,5,64\n"), HasSubstr("the column 'a' is unknown"));
  EXPECT_THAT(refused_rows("\x01\x02\x03\n"), testing::Not(HasSubstr("\x01")));
}

TEST(Csv, RefusesNegativeNumbers) {
  EXPECT_EQ(refused_row("a,-1,5,64,0"), "file, line 2: lower is negative: -1");
  EXPECT_EQ(refused_row("a,0,5,-64,0"), "file, line 2: size is negative: -64");
  EXPECT_EQ(refused_row("a,0,5,64,-1"), "file, line 2: offset is negative: -1");
}

TEST(Csv, RefusesHugeNumbers) {
  EXPECT_THAT(refused_row("a,0,5,9223372036854775808,0"),
              HasSubstr("size is out of range: 9223372036854775808"));
  EXPECT_THAT(refused_row("a,0,5,9223372036854775807,0"), HasSubstr("size is out of range"));
  EXPECT_THAT(refused_row("a,0,5,64,9223372036854775807"), HasSubstr("offset + size is out of range"));
  EXPECT_THAT(refused_row("a,0,5,9223372036854775000,0\nb,0,5,9223372036854775000,0"),
              HasSubstr("line 3: the sum"));
  EXPECT_THAT(refused_rows("id,lower,end,size\na,0,9223372036854775807,1\n"),
              HasSubstr("upper is out of range"));
}

TEST(Csv, IsRefusedBeforeItTakesMoreMemoryThanItMay) {
  const std::string rows = "id,lower,upper,size\na,0,5,64\nb,0,5,64\n";
  EXPECT_EQ(read_csv(source_of(rows), "file", 1000).size(), 2);
  EXPECT_THAT(refusal([&] { read_csv(source_of(rows), "file", 200); }),
              HasSubstr("file: would take more than"));
}

TEST(Csv, RefusesCrossingNumbers) {
  EXPECT_THAT(refused_row("a,5,4,64,0"),
              HasSubstr("line 2: the lifespan ends at 4, not after it begins at 5"));
  EXPECT_THAT(refused_row("a,5,5,64,0"), HasSubstr("ends at 5"));
}

TEST(Csv, RefusesWhatIsNoNumber) {
  for (const char* field : {"", "x", "1.5", "1e3", " 1", "1 ", "+1", "0x10", "1;2"}) {
    EXPECT_THAT(refused_row(std::string("a,0,5,") + field + ",0"), HasSubstr("size is not a whole number"))
        << field;
  }
}

TEST(Csv, RefusesRowsOfTheWrongLength) {
  EXPECT_THAT(refused_row("a,0,5,64"), HasSubstr("has 4 fields where the first line names 5"));
  EXPECT_THAT(refused_row("a,0,5,64,0,0"), HasSubstr("has 6 fields"));
}

TEST(Csv, RefusesIdsThatAreEmptyOrGivenTwice) {
  EXPECT_THAT(refused_row(",0,5,64,0"), HasSubstr("the id is empty"));
  EXPECT_EQ(refused_row("a,0,5,64,0\na,1,5,64,0"), "file, line 3: the id 'a' is there already");
  EXPECT_EQ(refused_row("7,0,5,64,0\n7,1,5,64,0"), "file, line 3: the id '7' is there already");
  EXPECT_EQ(refused_row("1,0,5,64,0\n10,1,5,64,0\n9,1,5,64,0\n10,1,5,64,0"),
            "file, line 5: the id '10' is there already")
      << "rows that do not count upwards";
}

TEST(Csv, RefusesALineWithoutEnd) {
  EXPECT_THAT(refused_rows(std::string(100'000, 'x')), HasSubstr("is longer than"));
}

TEST(Csv, ReadsWhatItWrites) {
  const std::vector<CsvRow> plain = {{"a", {0, 5}, 64, {}}, {"b", {1, 2}, 7, {}}};
  const std::vector<CsvRow> placed = {{"a", {0, 5}, 64, 0}, {"b", {1, 2}, 7, 64}};
  for (const auto& rows : {plain, placed}) {
    std::ostringstream out;
    write_csv(rows, out);
    EXPECT_EQ(rows_of(out.str()), rows);
  }
}

TEST(Csv, RefusesToWriteHalfASolution) {
  std::ostringstream out;
  EXPECT_THAT(refusal([&] {
                write_csv({{"a", {0, 5}, 64, 0}, {"b", {1, 2}, 7, {}}}, out);
              }),
              HasSubstr("offset"));
}

}  // namespace
}  // namespace stweaver
