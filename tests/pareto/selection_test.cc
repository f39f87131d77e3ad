#include "pareto/selection.h"

#include <cstddef>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/points.h"

namespace stweaver::pareto {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr double kOutlier = 1.5;

TEST(Select, FindsTheCornersOfALine) {
  const Points line = points_of({{0.5, 0.5}, {0.9, 0.1}, {1, 0}, {0.2, 0.8}, {0, 1}});
  const Selection selection = select(line, 4, kOutlier);
  EXPECT_THAT(selection.corners, UnorderedElementsAre(2, 4));
  const Box box = box_of(line, selection.corners);
  EXPECT_THAT(box.ideal, ElementsAre(0, 0));
  EXPECT_THAT(box.nadir, ElementsAre(1, 1));
}

TEST(Select, TakesTheCornersAndThenTheFarthestDirections) {
  const Points line = points_of({{0.5, 0.5}, {0.52, 0.48}, {0.9, 0.1}, {1, 0}, {0.8, 0.2}, {0, 1}});
  EXPECT_THAT(select(line, 4, kOutlier).members, UnorderedElementsAre(3, 5, 0, 4));
}

TEST(Select, EnlargesTheBoxByWhatIsBestInOneObjective) {
  // An inverted front: nearest to each axis is not what is worst in the objective.
  const Points front = points_of({{0.1, 0.1, 1}, {0.1, 1, 0.1}, {1, 0.1, 0.1}, {0, 0.4, 1.2}});
  const Selection selection = select(front, 6, kOutlier);
  EXPECT_THAT(selection.corners, UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_DOUBLE_EQ(box_of(front, selection.corners).nadir[2], 1.2);
}

TEST(Select, LetsNoOutlierEnlargeTheBox) {
  const Points front = points_of({{0.1, 0.1, 1}, {0.1, 1, 0.1}, {1, 0.1, 0.1}, {0, 50, 50}});
  EXPECT_THAT(select(front, 6, kOutlier).corners, UnorderedElementsAre(0, 1, 2));
}

TEST(Select, KnowsNoOutliersUnlessItIsTold) {
  // Sums of objectives that are negative would tell nothing.
  for (const double shift : {0.0, -8.0}) {
    std::vector<std::vector<double>> rows = {
        {0, 0, 1}, {1, 1, 0}, {0.7, 0.7, 0.7}, {0.38, 0.38, 0.92}, {0.92, 0.92, 0.38}};
    for (std::vector<double>& row : rows)
      for (double& value : row) value += shift;
    EXPECT_THAT(select(points_of(rows), 6, std::nullopt).corners, ElementsAre(2, 0, 1)) << shift;
  }
}

TEST(Select, DropsWhatLiesOutsideOfTheBoxFirst) {
  std::vector<std::vector<double>> rows = {{0.1, 0.1, 1}, {0.1, 1, 0.1}, {1, 0.1, 0.1}, {0, 50, 50}};
  for (const double x : {0.3, 0.4, 0.5}) rows.push_back({x, 0.7 - x, 0.3});
  EXPECT_THAT(select(points_of(rows), 6, kOutlier).members, Not(Contains(3)));
}

TEST(Select, FillsUpWithTheDominatedThatAreNearest) {
  const Points points = points_of({{9, 9}, {0, 1}, {3, 3}, {1, 0}, {2, 2}});
  EXPECT_THAT(select(points, 4, kOutlier).members, UnorderedElementsAre(1, 3, 4, 2));
}

TEST(Select, TakesAllWhereThereAreNoMore) {
  EXPECT_THAT(select(points_of({{1, 2}, {2, 3}}), 4, kOutlier).members, UnorderedElementsAre(0, 1));
}

TEST(Select, CopesWithObjectivesThatNeverDiffer) {
  std::vector<std::vector<double>> rows;
  for (int i = 0; i <= 10; ++i) rows.push_back({0.1 * i, 5, 1 - (0.1 * i)});
  const Selection selection = select(points_of(rows), 6, kOutlier);
  EXPECT_EQ(selection.members.size(), 6);
  EXPECT_THAT(selection.members, IsSupersetOf({0, 10}));
  const Selection equal = select(points_of(std::vector<std::vector<double>>(20, {1, 1, 1})), 6, kOutlier);
  EXPECT_EQ(equal.members.size(), 6);
  EXPECT_EQ(equal.corners.size(), 1);
}

}  // namespace
}  // namespace stweaver::pareto
