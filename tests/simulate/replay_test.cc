#include "simulate/replay.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulate/caching_allocator.h"

namespace stweaver {
namespace {

static_assert(Allocator<CachingAllocator>);

using ::testing::ElementsAre;
using ::testing::FieldsAre;

Request request(Bytes size, Time lower, Time upper, Stream stream = 0) {
  return {.size = size, .life = {lower, upper}, .dropped = upper, .stream = stream, .pool = 0};
}

Trace trace_of(std::vector<Request> requests, Time end) {
  Trace trace;
  trace.name = "made by hand";
  trace.requests = std::move(requests);
  trace.end = end;
  validate(trace);
  return trace;
}

TEST(Replay, FollowsTheReserveEventByEvent) {
  const Trace trace = trace_of({request(30 * kMiB, 0, 1), request(30 * kMiB, 2, 4),
                                request(40 * kMiB, 3, kForever), request(5, 5, kForever)},
                               6);
  CachingAllocator allocator({});
  const ReplayResult result = replay(trace, allocator);
  EXPECT_THAT(result.reserves,
              ElementsAre(FieldsAre(0, 30 * kMiB), FieldsAre(3, 70 * kMiB), FieldsAre(5, 72 * kMiB)));
  EXPECT_EQ(result.reserved_peak, 72 * kMiB);
  EXPECT_EQ(result.requested_peak, peak_requested(trace));
}

TEST(Replay, BeginsWithWhatWasAliveBeforeRecording) {
  const Trace trace = trace_of({request(30 * kMiB, kBeforeRecording, 0), request(30 * kMiB, 1, kForever)}, 2);
  CachingAllocator allocator({});
  const ReplayResult result = replay(trace, allocator);
  EXPECT_THAT(result.reserves, ElementsAre(FieldsAre(0, 30 * kMiB)));
  EXPECT_EQ(result.requested_peak, 30 * kMiB);
  EXPECT_EQ(result.efficiency(), 1);
}

TEST(Replay, ReusesMemoryOnlyOnceStreamsAreDoneWithIt) {
  Request used_elsewhere = request(30 * kMiB, 0, 3);
  used_elsewhere.dropped = 1;
  const Trace trace = trace_of({used_elsewhere, request(30 * kMiB, 2, kForever)}, 4);
  CachingAllocator allocator({});
  EXPECT_EQ(replay(trace, allocator).reserved_peak, 60 * kMiB);
}

TEST(Replay, CountsWhatCouldNotBeServedAndGoesOn) {
  const Trace trace = trace_of({request(80 * kMiB, 0, 2), request(30 * kMiB, 1, 3),
                                request(30 * kMiB, 4, kForever), request(1, 5, kForever)},
                               6);
  CachingAllocator allocator({}, 100 * kMiB);
  const ReplayResult result = replay(trace, allocator);
  EXPECT_EQ(result.ooms, 1);
  EXPECT_EQ(result.retries, 1);
  EXPECT_EQ(result.requested_peak, 80 * kMiB);
  EXPECT_EQ(result.reserved_peak, 82 * kMiB);
}

TEST(Replay, OfNothingReservesNothing) {
  CachingAllocator allocator({});
  const ReplayResult result = replay(Trace{}, allocator);
  EXPECT_EQ(result.reserved_peak, 0);
  EXPECT_EQ(result.efficiency(), 1);
  EXPECT_TRUE(result.reserves.empty());
}

TEST(MeasuredReservePeak, IsTheLargestOfTheTrace) {
  Trace trace;
  EXPECT_EQ(measured_reserve_peak(trace), std::nullopt);
  trace.reserves = {{0, 5}, {1, 9}, {2, 7}};
  EXPECT_EQ(measured_reserve_peak(trace), 9);
}

}  // namespace
}  // namespace stweaver
