#include "report/curve.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job.h"

namespace stweaver {
namespace {

std::vector<std::pair<Time, Bytes>> points_of(const Curve& curve) {
  std::vector<std::pair<Time, Bytes>> points;
  for (const Reserve& point : curve) points.emplace_back(point.time, point.bytes);
  return points;
}

using Points = std::vector<std::pair<Time, Bytes>>;

TEST(RequestedCurve, FollowsAllocationsAndFrees) {
  Job job;
  job.before(100);
  const RequestId first = job.allocate(10);
  job.allocate(20);
  job.free(first);
  EXPECT_EQ(points_of(requested_curve(job.trace())), (Points{{0, 110}, {1, 130}, {2, 120}}));
}

TEST(RequestedCurve, LeavesOutEventsThatChangeNothing) {
  Job job;
  job.allocate(10);
  job.touch(0);
  job.allocate(5);
  EXPECT_EQ(points_of(requested_curve(job.trace())), (Points{{0, 10}, {3, 15}}));
}

TEST(RequestedCurve, OfNoEventsIsWhatWasThere) {
  Job job;
  EXPECT_EQ(points_of(requested_curve(job.trace())), (Points{{0, 0}}));
  job.before(7);
  EXPECT_EQ(points_of(requested_curve(job.trace())), (Points{{0, 7}}));
}

TEST(RequestedCurve, HasThePeakOfTheTrace) {
  Training training({});
  for (int i = 0; i < 3; ++i) training.step();
  const Trace trace = training.job.trace();
  EXPECT_EQ(peak_in(requested_curve(trace), {0, trace.end}), peak_requested(trace));
}

TEST(PeakIn, CountsWhatTheSpanBeginsWith) {
  const Curve curve = {{2, 50}, {4, 10}, {6, 30}, {8, 90}};
  EXPECT_EQ(peak_in(curve, {3, 8}), 50);
  EXPECT_EQ(peak_in(curve, {4, 8}), 30);
  EXPECT_EQ(peak_in(curve, {4, 9}), 90);
  EXPECT_EQ(peak_in(curve, {0, 2}), 0);
}

Curve random_curve(std::size_t points) {
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in every run
  Curve curve;
  Time time = 5;
  for (std::size_t i = 0; i < points; ++i) {
    curve.push_back({time, static_cast<Bytes>(random() % 1'000'000)});
    time += 1 + static_cast<Time>(random() % 50);
  }
  return curve;
}

TEST(Downsample, LeavesAShortCurveAlone) {
  const Curve curve = random_curve(100);
  EXPECT_EQ(points_of(downsample(curve, 100)), points_of(curve));
}

TEST(Downsample, KeepsPointsOfTheCurveInOrderAndFewOfThem) {
  const Curve curve = random_curve(10'000);
  const Points all = points_of(curve);
  const Points kept = points_of(downsample(curve, 400));
  EXPECT_LE(kept.size(), 400);
  EXPECT_GE(kept.size(), 300);
  EXPECT_TRUE(std::ranges::is_sorted(kept));
  EXPECT_TRUE(std::ranges::includes(all, kept));
  EXPECT_EQ(kept.front(), all.front());
  EXPECT_EQ(kept.back(), all.back());
}

TEST(Downsample, KeepsTheExtremesOfEveryStretch) {
  const Curve curve = random_curve(10'000);
  const std::size_t stretches = 100;
  const Curve kept = downsample(curve, 4 * stretches);
  const Time length = (curve.back().time - curve.front().time) / static_cast<Time>(stretches) + 1;
  for (Time begin = curve.front().time; begin < curve.back().time; begin += length) {
    const auto bytes_in = [&](const Curve& some) {
      std::vector<Bytes> bytes;
      for (const Reserve& point : some) {
        if (begin <= point.time && point.time < begin + length) bytes.push_back(point.bytes);
      }
      return bytes;
    };
    EXPECT_EQ(std::ranges::min(bytes_in(kept)), std::ranges::min(bytes_in(curve)));
    EXPECT_EQ(std::ranges::max(bytes_in(kept)), std::ranges::max(bytes_in(curve)));
  }
}

TEST(Downsample, TakesPointsThatAreFarApart) {
  const Curve curve = {{0, 1}, {1, 5}, {2, 2}, {1'000'000'000'000, 9}, {1'000'000'000'001, 3}};
  EXPECT_EQ(points_of(downsample(curve, 4)),
            (Points{{0, 1}, {1'000'000'000'000, 9}, {1'000'000'000'001, 3}}));
  EXPECT_TRUE(downsample({}, 4).empty());
}

}  // namespace
}  // namespace stweaver
