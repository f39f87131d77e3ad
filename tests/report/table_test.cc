#include "report/table.h"

#include <gtest/gtest.h>

namespace stweaver {
namespace {

TEST(Table, AlignsTextLeftAndNumbersRight) {
  Table table({"job", "GiB"}, "lr");
  table.add_row({"a", "1.00"});
  table.add_row({"longer", "12.00"});
  EXPECT_EQ(table.text(),
            "job       GiB\n"
            "a        1.00\n"
            "longer  12.00\n");
}

TEST(Table, LeavesNoBlanksAtTheEndOfALine) {
  Table table({"a", "note"}, "ll");
  table.add_row({"1", ""});
  table.add_row({"", ""});
  EXPECT_EQ(table.text(), "a  note\n1\n\n");
}

TEST(Table, WithoutRowsIsItsHeader) {
  EXPECT_EQ(Table({"job", "GiB"}, "lr").text(), "job  GiB\n");
}

TEST(Table, CountsCharactersNotBytes) {
  Table table({"job", "GiB"}, "lr");
  table.add_row({"naïve", "1"});
  table.add_row({"plain", "2"});
  EXPECT_EQ(table.text(), "job    GiB\nnaïve    1\nplain    2\n");
}

TEST(Table, ShowsTextThatIsNotUtf8) {
  Table table({"job", "GiB"}, "lr");
  table.add_row({"caf\xe9", "1"});
  EXPECT_EQ(table.text(), "job   GiB\ncaf\xe9    1\n");
}

TEST(Printable, IsOneLineThatATerminalCanShow) {
  EXPECT_EQ(printable("two\nlines\r\t\x1b[31m\x7f"), "two?lines???[31m?");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(printable("naïve job.pickle"), "naïve job.pickle");
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m\xc2\xa0\xc2"),
            "?31m\xc2\xa0\xc2")
      << "U+009B is Escape and `[` to some terminals";
}

TEST(FirstColumns, CutsBetweenCharacters) {
  EXPECT_EQ(first_columns("na\u00efve", 3), "na\u00ef");
  EXPECT_EQ(first_columns("na\u00efve", 9), "na\u00efve");
  EXPECT_EQ(first_columns("na\u00efve", 0), "");
}

}  // namespace
}  // namespace stweaver
