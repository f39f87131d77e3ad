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

TEST(JobName, IsSafeForATerminal) {
  EXPECT_EQ(job_name("two\nlines.pickle"), "two?lines");
}

}  // namespace
}  // namespace stweaver
