#include "runtime/backoff.h"

#include <gtest/gtest.h>

namespace stweaver {
namespace {

/// In how many of the steps it is done when each of them wants it.
int times_done(Backoff& backoff, int steps) {
  int done = 0;
  for (int step = 0; step < steps; ++step) {
    const bool allowed = backoff.allows();
    done += allowed ? 1 : 0;
    backoff.end_step(allowed);
  }
  return done;
}

TEST(Backoff, AllowsWhatIsNeededNowAndThen) {
  Backoff backoff;
  for (int round = 0; round < 5; ++round) {
    EXPECT_TRUE(backoff.allows());
    backoff.end_step(true);
    for (int step = 0; step < 3; ++step) backoff.end_step(false);
  }
}

TEST(Backoff, AllowsWhatEachStepNeedsLessAndLessOften) {
  Backoff backoff;
  EXPECT_LE(times_done(backoff, 90), 4 + 90 / 9);
  EXPECT_GE(times_done(backoff, 90), 90 / 9);  // never is too seldom
}

TEST(Backoff, ForgetsOnceAStepDoesWithout) {
  Backoff backoff;
  times_done(backoff, 90);
  for (int step = 0; step < 20; ++step) backoff.end_step(false);
  backoff.end_step(true);
  backoff.end_step(false);
  EXPECT_TRUE(backoff.allows());
}

}  // namespace
}  // namespace stweaver
