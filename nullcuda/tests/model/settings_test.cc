#include "model/settings.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nullcuda {
namespace {

TEST(Completion, IsAtOnceOrDelayedOrRandom) {
  const Completion at_once = parse_completion("at_once");
  EXPECT_EQ(at_once.calls, 0U);
  EXPECT_FALSE(at_once.random);
  const Completion delayed = parse_completion("delay:17");
  EXPECT_EQ(delayed.calls, 17U);
  EXPECT_FALSE(delayed.random);
  const Completion random = parse_completion("random:3");
  EXPECT_EQ(random.calls, 200U);
  EXPECT_TRUE(random.random);
  EXPECT_EQ(random.seed, 3U);
  EXPECT_EQ(parse_completion("random:3/9").calls, 9U);
}

TEST(CompletionDeathTest, StopsAtWhatItCannotReadWithOneLine) {
  for (const char* text :
       {"", "soon", "delay", "delay:", "delay:-1", "delay:x", "random:", "random:1/", "at_once "})
    EXPECT_EXIT(parse_completion(text), testing::ExitedWithCode(kExitStatus),
                testing::MatchesRegex("nullcuda: NULLCUDA_EVENTS: .*: write at_once, delay:CALLS or "
                                      "random:SEED\\[/CALLS\\]\n"))
        << text;
}

TEST(VisibleDevices, AreThoseThatAreNamedUpToOneThatIsNone) {
  using testing::ElementsAre;
  EXPECT_THAT(parse_visible(nullptr, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(parse_visible("2,0", 3), ElementsAre(2, 0));
  EXPECT_THAT(parse_visible(" 1,3,2", 3), ElementsAre(1));
  EXPECT_THAT(parse_visible((uuid_of(2) + "," + uuid_of(0).substr(0, 8)).c_str(), 3), ElementsAre(2, 0));
  for (const char* none : {"", "-1", "3", "x,1", "GPU-0", "1,1"})
    EXPECT_THAT(parse_visible(none, 3), testing::IsEmpty()) << none;
  EXPECT_EQ(uuid_of(1), "GPU-5b5b5b5b-5b5b-5b5b-5b5b-5b5b5b5b5b5b");
}

TEST(Failures, AreNoneByDefault) {
  EXPECT_TRUE(parse_failures("").empty());
}

TEST(Failures, AreOfTheNthCallOrFromThenOnOrRandom) {
  const std::vector<Failure> failures = parse_failures("cudaMalloc@3=2,cuMem*@5+=999,cudaFree%7/100=1,*@1=3");
  ASSERT_EQ(failures.size(), 4U);
  EXPECT_EQ(failures[0].pattern, "cudaMalloc");
  EXPECT_EQ(failures[0].nth, 3U);
  EXPECT_FALSE(failures[0].lasting);
  EXPECT_EQ(failures[0].error, 2);
  EXPECT_EQ(failures[1].pattern, "cuMem*");
  EXPECT_EQ(failures[1].nth, 5U);
  EXPECT_TRUE(failures[1].lasting);
  EXPECT_EQ(failures[1].error, 999);
  EXPECT_EQ(failures[2].nth, 0U);
  EXPECT_EQ(failures[2].seed, 7U);
  EXPECT_EQ(failures[2].one_in, 100U);
  EXPECT_EQ(failures[3].pattern, "*");
}

TEST(FailuresDeathTest, StopsAtWhatItCannotReadWithOneLine) {
  for (const char* text : {"cudaMalloc", "cudaMalloc@=2", "cudaMalloc@0=2", "cudaMalloc@-1=2",
                           "cudaMalloc@1=0", "cudaMalloc@1", "cuda*Malloc@1=2", "@1=2", "cudaMalloc%1/0=2",
                           "cudaMalloc%1=2", "cudaMalloc@1=2,,cudaFree@1=2", "cudaMalloc @1=2"})
    EXPECT_EXIT(parse_failures(text), testing::ExitedWithCode(kExitStatus),
                testing::MatchesRegex("nullcuda: NULLCUDA_FAIL: .*: write NAME@N=ERROR, NAME@N\\+=ERROR or "
                                      "NAME%SEED/ONE_IN=ERROR\n"))
        << text;
}

/// Ends with what the settings are under one variable; for a process of its own.
void read_with(const char* name, const char* value) {
  setenv(name, value, 1);
  say(std::to_string(settings().memory) + " " + std::to_string(settings().devices));
  std::exit(0);
}

class SettingsDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(SettingsDeathTest, SaysInOneLineWhatIsNotANumberOrTooMuch) {
  const auto refused = testing::ExitedWithCode(kExitStatus);
  for (const char* value : {"x", "-1", " 5", "5 ", "1e3", "99999999999999999999"})
    EXPECT_EXIT(read_with("NULLCUDA_MEMORY_MIB", value), refused,
                testing::MatchesRegex("nullcuda: NULLCUDA_MEMORY_MIB: not a number: .*\n"));
  EXPECT_EXIT(read_with("NULLCUDA_MEMORY_MIB", "4194305"), refused,
              testing::StrEq("nullcuda: NULLCUDA_MEMORY_MIB: at most 4194304\n"));
  EXPECT_EXIT(read_with("NULLCUDA_DEVICES", "17"), refused,
              testing::StrEq("nullcuda: NULLCUDA_DEVICES: at most 16\n"));
  EXPECT_EXIT(read_with("NULLCUDA_GPU", "h300"), refused,
              testing::StartsWith("nullcuda: NULLCUDA_GPU: no GPU named h300; there are: h200, "));
}

TEST_F(SettingsDeathTest, TakesWhatTheEnvironmentSays) {
  const auto taken = testing::ExitedWithCode(0);
  EXPECT_EXIT(read_with("NULLCUDA_MEMORY_MIB", "100"), taken, testing::StrEq("nullcuda: 104857600 1\n"));
  EXPECT_EXIT(read_with("NULLCUDA_MEMORY_MIB", ""), taken, testing::StrEq("nullcuda: 150109880320 1\n"));
  EXPECT_EXIT(read_with("NULLCUDA_DEVICES", "8"), taken, testing::StrEq("nullcuda: 150109880320 8\n"));
  EXPECT_EXIT(read_with("NULLCUDA_GPU", "RTX4090"), taken, testing::StrEq("nullcuda: 25386352640 1\n"));
}

}  // namespace
}  // namespace nullcuda
