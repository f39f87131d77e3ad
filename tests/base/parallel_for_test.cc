#include "base/parallel_for.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace stweaver {
namespace {

TEST(ParallelFor, DoesEachPieceOnce) {
  for (const int threads : {1, 3, 100}) {
    std::vector<std::atomic<int>> done(57);
    parallel_for(done.size(), threads, [&](std::size_t i) { ++done[i]; });
    for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
  }
}

TEST(ParallelFor, PassesOnWhatTheFirstPieceThatFailsThrows) {
  for (const int threads : {1, 4}) {
    const auto work = [](std::size_t i) {
      if (i == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (i % 2 == 1) throw std::out_of_range(std::to_string(i));
    };
    try {
      parallel_for(8, threads, work);
      FAIL();
    } catch (const std::out_of_range& error) {
      EXPECT_STREQ(error.what(), "1");
    }
  }
}

TEST(ParallelFor, HasNothingToDoForNoPiece) {
  parallel_for(0, 4, [](std::size_t) { FAIL(); });
}

}  // namespace
}  // namespace stweaver
