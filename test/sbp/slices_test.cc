#include "sbp/slices.h"

#include "test/sbp/dists.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// {start, extent} along dimension 0 of every rank.
std::vector<std::pair<int64_t, int64_t>> ShardRows(const Shape& shape, const DistType& dist) {
  std::vector<std::pair<int64_t, int64_t>> rows;
  for (int i = 0; i < dist.placement.size(); ++i) {
    const Region region = ShardRegion(shape, dist, i);
    rows.push_back({region.start[0], region.extent[0]});
  }
  return rows;
}

TEST(SlicesTest, TheFirstPartsOfAnUnevenSplitHaveOneMore) {
  EXPECT_THAT(ShardRows({7}, Dist("[x=3]{0,1,2}", "(S(0))")), ElementsAre(Pair(0, 3), Pair(3, 2), Pair(5, 2)));
  EXPECT_THAT(ShardRows({2}, Dist("[x=3]{0,1,2}", "(S(0))")), ElementsAre(Pair(0, 1), Pair(1, 1), Pair(2, 0)));
}

TEST(SlicesTest, BalancedPartsTileTheIntervalAndDifferByAtMostOne) {
  for (int64_t n = 0; n <= 12; ++n) {
    for (int parts = 1; parts <= 5; ++parts) {
      int64_t end = 0;
      for (int i = 0; i < parts; ++i) {
        const auto [start, extent] = BalancedPart(n, parts, i);
        EXPECT_EQ(start, end);
        EXPECT_TRUE(extent == n / parts || extent == n / parts + 1) << n << " in " << parts;
        end = start + extent;
      }
      EXPECT_EQ(end, n);
    }
  }
}

TEST(SlicesTest, SplitsOfOneDimensionNestOutermostAxisFirst) {
  EXPECT_THAT(ShardRows({6}, Dist("[x=2,y=2]{0,1,2,3}", "(S(0),S(0))")),
              ElementsAre(Pair(0, 2), Pair(2, 1), Pair(3, 2), Pair(5, 1)));
  EXPECT_THAT(ShardRows({6}, Dist("[x=4]{0,1,2,3}", "(S(0))")),
              ElementsAre(Pair(0, 2), Pair(2, 2), Pair(4, 1), Pair(5, 1)));
}

TEST(SlicesTest, BroadcastAndPartialDoNotCut) {
  const DistType dist = Dist("[x=2,y=2]{4,5,6,7}", "(P,S(1))");
  EXPECT_EQ(ShardShape({3, 5}, dist, 1), Shape({3, 2}));
  EXPECT_EQ(ShardRegion({3, 5}, dist, 3), (Region{{0, 3}, {3, 2}}));
  EXPECT_EQ(ShardShape({}, Dist("[x=2]{0,1}", "(B)"), 1), Shape());
}

TEST(SlicesTest, BoxesThatDoNotMeetIntersectInNothing) {
  const Region a{{0, 2}, {4, 4}};
  EXPECT_EQ(Intersect(a, {{2, 0}, {9, 4}}), (Region{{2, 2}, {2, 2}}));
  EXPECT_EQ(Intersect(a, {{4, 0}, {1, 9}}).count(), 0);
  EXPECT_EQ(Intersect(WholeRegion({}), WholeRegion({})).count(), 1);
}

TEST(SlicesTest, ATypeThatDoesNotFitTheShapeIsRefusedWithBothValues) {
  EXPECT_OK(CheckDistType({3, 5}, Dist("[x=2]{0,1}", "(S(1))")));
  EXPECT_THAT(CheckDistType({3, 5}, Dist("[x=2]{0,1}", "(S(2))")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("splits dimension 2, but the tensor is [3,5]")));
  EXPECT_THAT(CheckDistType({3, 5}, Dist("[x=2]{0,1}", "(B,B)")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 entries")));
}

}  // namespace
}  // namespace oneflow
