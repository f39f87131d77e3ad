#include "plan/parallel_for.h"

#include <atomic>
#include <new>
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

TEST(ParallelFor, PassesOnWhatAPieceThrows) {
  EXPECT_THROW(parallel_for(8, 4,
                            [](std::size_t i) {
                              if (i % 2 == 1) throw std::bad_alloc();
                            }),
               std::bad_alloc);
}

TEST(ParallelFor, HasNothingToDoForNoPiece) {
  parallel_for(0, 4, [](std::size_t) { FAIL(); });
}

}  // namespace
}  // namespace stweaver
