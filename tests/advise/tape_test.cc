#include "advise/tape.h"

#include <utility>

#include <gtest/gtest.h>

#include "profile/summary.h"

namespace stweaver {
namespace {

/// x -> a (keeps x) -> b (keeps a) -> x + b.
Tape residual() {
  Tape tape(10);
  const std::size_t a = tape.apply({0}, 20, {.saved = {0}, .kept = 3});
  const std::size_t b = tape.apply({a}, 10, {.saved = {a}, .backward = 7});
  tape.apply({0, b}, 10, {.passes = true});
  return tape;
}

TEST(Tape, KeepsWhatBackwardNeedsAndNothingElse) {
  Ledger ledger;
  const std::size_t x = ledger.allocate(10);
  const Tape::Kept kept = residual().forward(ledger, x, true, true);
  EXPECT_EQ(ledger.live(), 10 + 20 + 3 + 10);       // x, a, what is kept besides, the sum
  EXPECT_EQ(ledger.peak(), 10 + 20 + 3 + 10 + 10);  // and b, until it is added
  ledger.free(kept.output);
  EXPECT_EQ(ledger.live(), 33);
}

TEST(Tape, TellsWhatGoesThroughMemory) {
  const Traffic traffic = residual().traffic();
  EXPECT_EQ(traffic.forward, (10 + 20 + 3) + (20 + 10) + (10 + 10 + 10));
  // What is in use while b runs is written and read. The sum hands its gradient on; that of x is two, added.
  EXPECT_EQ(traffic.backward, (20 + 10 + 3 + 10) + (10 + 20 + 20 + 2 * 7) + 3 * 10);
}

TEST(Tape, TellsWhatMakesOperandsNarrow) {
  Tape tape(10);
  tape.apply({0}, 20, {.saved = {0}, .narrowing = {5, 7}});
  EXPECT_EQ(tape.traffic().forward, 10 + 20 + 5);
  EXPECT_EQ(tape.traffic().backward, 20 + 10 + 10 + 7);
}

TEST(Tape, KeepsNothingWithoutGradients) {
  Ledger ledger;
  const std::size_t x = ledger.allocate(10);
  const Tape::Kept kept = residual().forward(ledger, x, false, false);
  EXPECT_EQ(ledger.live(), 10 + 10);  // the caller's input, and the output
  ledger.free(kept.output);
  ledger.free(x);
  EXPECT_EQ(ledger.live(), 0);
}

TEST(Tape, BackwardLeavesTheGradientOfTheInput) {
  Ledger ledger;
  const Tape tape = residual();
  Tape::Kept kept = tape.forward(ledger, ledger.allocate(10), true, true);
  ledger.free(kept.output);
  const std::size_t gradient = ledger.allocate(10);
  ledger.forget_peak();
  const std::size_t input = tape.backward(ledger, std::move(kept), gradient);
  // Kept 33, the gradient of the sum, which both of its inputs share, that of a, and b's own while it runs.
  EXPECT_EQ(ledger.peak(), 33 + 10 + 20 + 7);
  EXPECT_EQ(ledger.live(), 10);
  ledger.free(input);
  EXPECT_EQ(ledger.live(), 0);
}

TEST(Tape, GradientsOfViewsBecomeOneOfTheWhole) {
  Tape tape(8);
  const std::size_t whole = tape.apply({0}, 16);
  const std::size_t first = tape.apply({whole}, 0, {.gradient = 8});
  const std::size_t second = tape.apply({whole}, 0, {.passes = true, .gradient = 8});
  tape.apply({first, second}, 8, {.reads = {whole}, .saved = {whole}});
  Ledger ledger;
  Tape::Kept kept = tape.forward(ledger, ledger.allocate(8), true, true);
  EXPECT_EQ(ledger.live(), 16 + 8);
  ledger.free(kept.output);
  const std::size_t gradient = ledger.allocate(8);
  ledger.forget_peak();
  ledger.free(tape.backward(ledger, std::move(kept), gradient));
  // Both halves beside what was kept; the whole comes when that is gone, and is no more.
  EXPECT_EQ(ledger.peak(), 16 + 8 + 8 + 8);
  EXPECT_EQ(ledger.live(), 0);
}

TEST(Tape, WritesATraceOfItsRequests) {
  Trace trace;
  Ledger ledger(&trace);
  const Tape::Kept kept = residual().forward(ledger, ledger.allocate(10), true, true);
  ledger.free(kept.output);
  ASSERT_EQ(trace.requests.size(), 5U);
  EXPECT_EQ(peak_requested(trace), static_cast<Bytes>(ledger.peak()));
  EXPECT_EQ(trace.requests.back().life.upper, trace.end - 1);
}

}  // namespace
}  // namespace stweaver
