#include "runtime/release_policy.h"

#include <gtest/gtest.h>

namespace stweaver {
namespace {

TEST(ReleasePolicy, KeepsWhatIsBearable) {
  ReleasePolicy policy;
  EXPECT_FALSE(policy.releases(100, 10, 10));
  EXPECT_TRUE(policy.releases(100, 11, 10));
}

TEST(ReleasePolicy, ReleasesAtOnceAfterEachStepThatNeededMoreThanBefore) {
  ReleasePolicy policy;
  EXPECT_TRUE(policy.releases(1000, 900, 10));
  for (int step = 0; step < 5; ++step) EXPECT_FALSE(policy.releases(100, 0, 10));
  EXPECT_TRUE(policy.releases(500, 400, 10));
}

TEST(ReleasePolicy, PutsOffWhatIsFetchedAgain) {
  ReleasePolicy policy;
  int releases = 0;
  for (int step = 0; step < 160; ++step) releases += policy.releases(1000, 900, 10) ? 1 : 0;
  EXPECT_LE(releases, 4 + 160 / 16);
  EXPECT_GE(releases, 160 / 16);  // for ever is too long
}

TEST(ReleasePolicy, IsQuickAgainOnceLessIsFetched) {
  ReleasePolicy policy;
  for (int step = 0; step < 100; ++step) policy.releases(1000, 900, 10);
  int waited = 0;
  while (!policy.releases(200, 100, 10)) ++waited;
  EXPECT_LE(waited, 16);
  EXPECT_TRUE(policy.releases(100, 100, 10));
}

}  // namespace
}  // namespace stweaver
