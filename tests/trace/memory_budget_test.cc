#include "trace/memory_budget.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/base.h"

namespace stweaver {
namespace {

/// A machine with 8 GiB to spare.
class Budget : public testing::Test {
 protected:
  Budget() { write("proc/meminfo", "MemTotal: 99999999 kB\nMemAvailable: 8388608 kB\nBuffers: 1 kB\n"); }

  void write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }

  [[nodiscard]] Bytes budget() const { return static_cast<Bytes>(memory_for_reading(root_)); }

  std::filesystem::path root_ = std::filesystem::path(testing::TempDir()) /
                                testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(Budget, IsHalfOfWhatTheMachineHasToSpare) {
  EXPECT_EQ(budget(), 4 * kGiB);
}

TEST_F(Budget, IsHalfOfWhatAContainerMayHave) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", text(2 * kGiB, '\n'));
  EXPECT_EQ(budget(), kGiB);
}

TEST_F(Budget, IsThatOfTheGroupsThatAGroupLiesIn) {
  write("proc/self/cgroup", "0::/slurm/job/step\n");
  write("sys/fs/cgroup/slurm/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/job/memory.max", text(3 * kGiB, '\n'));
  write("sys/fs/cgroup/slurm/job/step/memory.max", "max\n");
  EXPECT_EQ(budget(), 3 * kGiB / 2);
}

TEST_F(Budget, IsThatOfTheContainerWhosePathIsSeenFromOutside) {
  write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/0123\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", text(kGiB, '\n'));
  EXPECT_EQ(budget(), kGiB / 2);
}

}  // namespace
}  // namespace stweaver
