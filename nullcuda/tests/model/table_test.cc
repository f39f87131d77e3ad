#include "model/table.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/settings.h"

namespace nullcuda {
namespace {

constexpr const char* kLines =
    "# recorded on a GPU\n"
    "\n"
    "conv forward{x{bf16,8x16x32x32}} 4096\n"
    "rnn lstm,layers2 327680 491520\n"
    "fft 100x96,batch4 18446744073709551615\n";

Table read(const std::string& text) {
  std::istringstream lines(text);
  Table table;
  table.read(lines, "a.txt");
  return table;
}

/// A folder that is removed with what is in it.
class Folder {
 public:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void write(const std::string& name, const std::string& text) const { std::ofstream(file(name)) << text; }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) / ("nullcuda_table_test." + std::to_string(getpid()));
};

TEST(Table, FindsWhatItsLinesSay) {
  const Table table = read(kLines);
  EXPECT_EQ(table.size(), 3U);
  ASSERT_NE(table.find("conv", "forward{x{bf16,8x16x32x32}}"), nullptr);
  EXPECT_EQ((*table.find("conv", "forward{x{bf16,8x16x32x32}}"))[0], 4096U);
  EXPECT_THAT(*table.find("rnn", "lstm,layers2"), testing::ElementsAre(327680U, 491520U));
  EXPECT_EQ((*table.find("fft", "100x96,batch4"))[0], 18446744073709551615U);
}

TEST(Table, FindsNothingThatIsNotInIt) {
  EXPECT_EQ(Table().find("conv", "a"), nullptr);
  EXPECT_EQ(read(kLines).find("fft", "lstm,layers2"), nullptr);
  EXPECT_EQ(read(kLines).find("rnn", "lstm"), nullptr);
}

TEST(Table, TakesTheLaterOfTwoLines) {
  EXPECT_EQ((*read("conv a 1\nconv a 2\n").find("conv", "a"))[0], 2U);
}

TEST(TableDeathTest, NamesTheFileAndTheLineThatIsBroken) {
  for (const char* line : {"conv a", "conv a b", "conv a -1", "conv a 1 2", "rnn a 1", "pool a 1", " ",
                           "conv a 18446744073709551616", "conv a 1x", "conv"})
    EXPECT_EXIT(read("fft a 1\n" + std::string(line) + "\n"), testing::ExitedWithCode(kExitStatus),
                "nullcuda: a.txt:2: ")
        << line;
}

TEST(ReadTable, TakesAFileOrTheFileOfThatNameInAFolder) {
  const Folder folder;
  folder.write("h200-cudnn9.19.0.txt", kLines);
  EXPECT_EQ(read_table(folder.path(), "h200-cudnn9.19.0.txt", true).size(), 3U);
  EXPECT_EQ(read_table(folder.file("h200-cudnn9.19.0.txt"), "another", true).size(), 3U);
  EXPECT_EQ(read_table(folder.path(), "h100-cudnn9.19.0.txt", true).size(), 0U);
  EXPECT_EQ(read_table(folder.file("none"), "h200-cudnn9.19.0.txt", false).size(), 0U);
}

TEST(ReadTableDeathTest, RefusesAPlaceThatTheUserNamedAndThatDoesNotExist) {
  EXPECT_EXIT(read_table("/nowhere/at/all", "h200.txt", true), testing::ExitedWithCode(kExitStatus),
              "no table: /nowhere/at/all");
}

}  // namespace
}  // namespace nullcuda
