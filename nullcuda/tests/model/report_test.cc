#include "model/report.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/calls.h"
#include "model/machine.h"

namespace nullcuda {
namespace {

TEST(Report, IsJsonThatSaysWhatHappened) {
  std::uint64_t address = 0;
  ASSERT_EQ(machine().memory.allocate(0, 10 * kPage, address), Outcome::kOk);
  ASSERT_EQ(machine().memory.free(address), Outcome::kOk);
  count_stub("cublasSgemm_v2");
  count_guess("a \"quoted\" name \\ with\na line");
  const auto said = nlohmann::json::parse(report());
  EXPECT_EQ(said["gpu"], "h200");
  EXPECT_EQ(said["process"], getpid());
  ASSERT_EQ(said["peak"].size(), 1U);
  EXPECT_EQ(said["peak"][0], settings().gpu->context + 10 * kPage);
  EXPECT_GE(said["stubs"]["cublasSgemm_v2"], 1);
  EXPECT_EQ(said["calls"]["cublasSgemm_v2"], said["stubs"]["cublasSgemm_v2"]);
  EXPECT_EQ(said["guesses"]["a \"quoted\" name \\ witha line"], 1);
}

/// Uses CUDA, forks a process that ends, and ends.
void end_after_a_fork(const std::string& file) {
  setenv("NULLCUDA_REPORT", file.c_str(), 1);
  machine().memory.touch(0);
  const pid_t child = fork();
  if (child == 0) std::exit(0);
  waitpid(child, nullptr, 0);
  std::exit(0);
}

TEST(ReportDeathTest, IsOneLineOfTheProcessThatUsedCudaAndNotOfThoseItForked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string file = testing::TempDir() + "/nullcuda_report_test." + std::to_string(getpid());
  // The process of a threadsafe death test runs this function again: only its file's name must be the same.
  setenv("NULLCUDA_REPORT_TEST", file.c_str(), 0);
  const std::string same = std::getenv("NULLCUDA_REPORT_TEST");
  EXPECT_EXIT(end_after_a_fork(same), testing::ExitedWithCode(0), "");
  std::ifstream lines(same);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["gpu"], "h200");
  EXPECT_FALSE(std::getline(lines, line));
  unlink(same.c_str());
}

}  // namespace
}  // namespace nullcuda
