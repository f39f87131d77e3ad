#include "trace/file_source.h"

#include <array>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base.h"
#include "support/files.h"

namespace stweaver {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(FileSource, GivesTheFilePieceByPieceToItsEnd) {
  const TemporaryFolder folder;
  const std::string path = folder.file("some");
  std::ofstream(path) << "hello world";
  const ByteSource source = file_source(path);
  std::string content;
  std::array<std::byte, 4> buffer = {};
  for (std::size_t read = source(buffer); read > 0; read = source(buffer)) {
    EXPECT_LE(read, buffer.size());
    for (std::size_t i = 0; i < read; ++i) content += std::to_integer<char>(buffer[i]);
  }
  EXPECT_EQ(content, "hello world");
  EXPECT_EQ(source(buffer), 0U);
}

TEST(FileSource, RefusesWhatIsNoPlainFile) {
  const TemporaryFolder folder;
  EXPECT_THAT([&] { file_source(folder.file("none")); },
              ThrowsMessage<Error>(HasSubstr("none: there is no such file")));
  EXPECT_THAT([&] { file_source(folder.path().string()); },
              ThrowsMessage<Error>(HasSubstr("is not a plain file")));
  EXPECT_THAT([] { file_source("/dev/zero"); }, ThrowsMessage<Error>(HasSubstr("is not a plain file")));
}

}  // namespace
}  // namespace stweaver
