#include "report/wording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stweaver {
namespace {

TEST(JobName, IsTheFileWithoutFolderAndEndings) {
  EXPECT_EQ(job_name("examples/traces/gpt2.pickle.xz"), "gpt2");
  EXPECT_EQ(job_name("/a/b.c/rank0.pkl.gz"), "rank0");
  EXPECT_EQ(job_name("x.pickle.zst"), "x");
  EXPECT_EQ(job_name("llama.1.2b.pickle"), "llama.1.2b");
}

TEST(JobName, LeavesOtherEndingsAlone) {
  EXPECT_EQ(job_name("small.csv"), "small.csv");
  EXPECT_EQ(job_name("pickle"), "pickle");
  EXPECT_EQ(job_name("job"), "job");
}

TEST(JobName, IsNeverCutToNothing) {
  EXPECT_EQ(job_name(".pickle"), ".pickle");
  EXPECT_EQ(job_name("a/.xz"), ".xz");
  EXPECT_EQ(job_name(".pickle.xz"), ".pickle");
}

TEST(JobName, KeepsTheDeviceOfASnapshotOfSeveral) {
  EXPECT_EQ(job_name("a/two.pickle.xz (device 1)"), "two (device 1)");
  EXPECT_EQ(job_name("a/two (1).pickle"), "two (1)");
  EXPECT_EQ(job_name("two (1)"), "two (1)");
}

TEST(SizeText, IsAWholeNumberOfTheLargestUnit) {
  EXPECT_EQ(size_text(3 * kGiB), "3 GiB");
  EXPECT_EQ(size_text(kGiB + kMiB), "1025 MiB");
  EXPECT_EQ(size_text(kMiB / 2), "512 KiB");
  EXPECT_EQ(size_text(1025), "1025 bytes");
  EXPECT_EQ(size_text(0), "0 bytes");
}

TEST(AmountText, IsInGibUnlessThatWouldReadAsNothing) {
  EXPECT_EQ(amount_text(kGiB * 3 / 2), "1.500 GiB");
  EXPECT_EQ(amount_text(-kGiB / 8), "-0.125 GiB");
  EXPECT_EQ(amount_text(64 * kMiB), "64.0 MiB");
  EXPECT_EQ(amount_text(-1536), "-1.5 KiB");
  EXPECT_EQ(amount_text(0), "0 bytes");
}

TEST(JobName, IsSafeForATerminal) {
  EXPECT_EQ(job_name("two\nlines.pickle"), "two?lines");
}

}  // namespace
}  // namespace stweaver
