#include "report/pickle_writer.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stweaver {
namespace {

using std::string_literals::operator""s;

std::string pickle_of(const auto& write) {
  PickleWriter writer;
  write(writer);
  const std::string pickle = std::move(writer).take();
  EXPECT_EQ(pickle.substr(0, 2), "\x80\x04");
  EXPECT_EQ(pickle.back(), '.');
  return pickle.substr(2, pickle.size() - 3);
}

std::string integer(std::int64_t value) {
  return pickle_of([value](PickleWriter& writer) { writer.integer(value); });
}

TEST(PickleWriter, WritesIntegersInAsFewBytesAsTheyNeed) {
  EXPECT_EQ(integer(0), "K\0"s);
  EXPECT_EQ(integer(255), "K\xff");
  EXPECT_EQ(integer(256), "M\0\x01"s);
  EXPECT_EQ(integer(-1), "J\xff\xff\xff\xff");
  EXPECT_EQ(integer(1LL << 46U), "\x8a\x08\0\0\0\0\0\x40\0\0"s);
}

TEST(PickleWriter, WritesATextOnce) {
  const std::string twice = pickle_of([](PickleWriter& writer) {
    writer.begin_list();
    writer.string("ab");
    writer.string("ab");
    writer.end_list();
  });
  EXPECT_EQ(twice, "](X\x02\0\0\0ab\x94h\0e"s);
}

TEST(PickleWriter, MakesUtf8OfEveryText) {
  const std::string broken = pickle_of([](PickleWriter& writer) { writer.string("a\xff"); });
  EXPECT_THAT(broken, ::testing::HasSubstr("a\uFFFD"));
}

TEST(PickleWriter, AppendsToLongListsInParts) {
  const std::string list = pickle_of([](PickleWriter& writer) {
    writer.begin_list();
    for (int i = 0; i < 2500; ++i) {
      writer.begin_dict();
      writer.end_dict();
    }
    writer.end_list();
  });
  EXPECT_EQ(std::ranges::count(list, 'e'), 3);
}

}  // namespace
}  // namespace stweaver
