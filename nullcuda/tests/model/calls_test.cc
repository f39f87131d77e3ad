#include "model/calls.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/helpers.h"

namespace nullcuda {
namespace {

/// A function under the rules of `failures`. It lives for ever, as functions do.
Call& function(const char* name, const std::string& failures) {
  const auto* rules = new std::vector<Failure>(parse_failures(failures));
  return *new Call(name, *rules);
}

std::vector<int> errors(Call& call, int count) {
  std::vector<int> seen(static_cast<std::size_t>(count));
  std::ranges::generate(seen, [&] { return call.happened(); });
  return seen;
}

TEST(Call, IsCountedByItsFunctionAndAmongAll) {
  Call& call = function("counted", "");
  const std::uint64_t before = Call::ticks();
  errors(call, 5);
  EXPECT_EQ(call.count(), 5U);
  EXPECT_EQ(Call::ticks(), before + 5);
  EXPECT_EQ(calls()["counted"], 5U);
}

TEST(Call, FailsAtTheNth) {
  EXPECT_THAT(errors(function("a", "a@3=2"), 5), testing::ElementsAre(0, 0, 2, 0, 0));
}

TEST(Call, FailsFromTheNthOn) {
  EXPECT_THAT(errors(function("a", "a@3+=2"), 5), testing::ElementsAre(0, 0, 2, 2, 2));
}

TEST(Call, FailsByTheFirstRuleThatHits) {
  EXPECT_THAT(errors(function("a", "a@2=5,a@2+=7"), 4), testing::ElementsAre(0, 5, 7, 7));
}

TEST(Call, DoesNotFailByTheRulesOfOthers) {
  EXPECT_THAT(errors(function("ab", "a@1+=2,abc@1+=2,b*@1+=2"), 3), testing::Each(0));
}

TEST(Call, IsCountedAmongAllByARuleForMany) {
  const std::string place = std::to_string(Call::ticks() + 4);
  Call& call = function("cuAlloc", "cu*@" + place + "=2");
  make_calls(2);
  EXPECT_THAT(errors(call, 3), testing::ElementsAre(0, 2, 0));
}

TEST(Call, FailsAtRandomAsOftenAsToldAndTheSameWithTheSameSeed) {
  const std::vector<int> seen = errors(function("a", "a%5/10=2"), 10000);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(seen, 2)), 1000, 150);
  EXPECT_EQ(seen, errors(function("a", "a%5/10=2"), 10000));
  EXPECT_NE(seen, errors(function("a", "a%6/10=2"), 10000));
}

TEST(Call, FailsOnceAtThePlaceAmongAllWhicheverThreadComesThere) {
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  const std::string place = std::to_string(Call::ticks() + kThreads * kEach / 2);
  Call& call = function("a", "*@" + place + "=2");
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads(kThreads);
  for (std::thread& thread : threads)
    thread = std::thread([&] {
      for (int made = 0; made < kEach; ++made) failed += static_cast<int>(call.happened() == 2);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 1);
}

TEST(Calls, AreOfStubsToo) {
  count_stub("stub");
  count_stub("stub");
  EXPECT_EQ(stub_calls()["stub"], 2U);
  EXPECT_EQ(calls()["stub"], 2U);
}

TEST(Guesses, AreCountedByName) {
  count_guess("a value");
  count_guess("a value");
  EXPECT_EQ(guesses()["a value"], 2U);
}

}  // namespace
}  // namespace nullcuda
