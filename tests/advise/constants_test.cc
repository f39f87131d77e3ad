#include "advise/constants.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base.h"

namespace stweaver {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Constants, AreReadAsTheyWereWritten) {
  for (const char* name : {"megatron", "megatron-deepspeed", "torchtitan"}) {
    const Constants& set = known_constants(name);
    EXPECT_EQ(set.layers.empty(), std::string(name) == "megatron");  // whose rows tell nothing by them
    const Constants read = read_constants(write_constants(set), "set", {});
    EXPECT_EQ(read.layers, set.layers);
    for (const ConstantInfo& info : constant_table())
      EXPECT_EQ(read.*info.member, set.*info.member) << info.name;
  }
}

TEST(Constants, KeepWhatIsNotNamed) {
  const Constants& base = known_constants("torchtitan");
  const Constants read = read_constants(R"({"layer": 0.25})", "file", base);
  EXPECT_EQ(read.layer, 0.25);
  EXPECT_EQ(read.attention, base.attention);
  EXPECT_EQ(read.layers, base.layers);
  EXPECT_TRUE(read_constants(write_constants({}), "file", base).layers.empty());
}

TEST(Constants, RefuseLayersThatAreNone) {
  const auto read = [](const std::string& layers) {
    return [layers] { (void)read_constants(R"({"layers": )" + layers + "}", "c.json", {}); };
  };
  const std::string whole = write_constants(known_constants("torchtitan"));
  const std::size_t begin = whole.find("    {") + 4;
  const std::string layer = whole.substr(begin, whole.find('}', begin) + 1 - begin);
  const auto with = [&layer](const std::string& what, const std::string& instead) {
    std::string changed = layer;
    return changed.replace(changed.find(what), what.size(), instead);
  };
  EXPECT_NO_THROW(read("[" + layer + "]")());
  EXPECT_THAT(read("1"), ThrowsMessage<Error>(HasSubstr("c.json: layers is no list")));
  EXPECT_THAT(read("[1]"), ThrowsMessage<Error>(HasSubstr("c.json: layers[0]")));
  EXPECT_THAT(read("[" + layer + ", " + with("hidden", "height") + "]"),
              ThrowsMessage<Error>(AllOf(HasSubstr("layers[1]"), HasSubstr("it has no hidden"))));
  EXPECT_THAT(read("[" + with(R"("gpu":)", R"("gpu":1,"was":)") + "]"),
              ThrowsMessage<Error>(HasSubstr("it has no gpu, or one that is none")));
  for (const char* number : {"2.5", "-1", "1e12"})
    EXPECT_THAT(read("[" + with(R"("hidden":)", text(R"("hidden":)", number, R"(,"was":)")) + "]"),
                ThrowsMessage<Error>(HasSubstr("hidden is")));
  EXPECT_THAT(read("[" + with(R"("factor":)", R"("factor":1e9,"was":)") + "]"),
              ThrowsMessage<Error>(HasSubstr("lies between")));
}

}  // namespace
}  // namespace stweaver
