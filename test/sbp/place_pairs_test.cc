#include "sbp/place_pairs.h"

#include "gmock/gmock.h"

namespace oneflow {
namespace {

Placement Stage(int first) { return Placement({{"tp", 2}}, {first, first + 1}); }

TEST(PlacePairsTest, StagesThatFollowOneAnotherLookAlike) {
  const Topology topology = OneHost(8, 2);
  PlacePairs pairs(topology);
  std::vector<int> stages;
  for (int first = 0; first < 8; first += 2) stages.push_back(pairs.Number(Stage(first)));
  EXPECT_EQ(pairs.Number(Stage(4)), stages[2]) << "equal placements have one number";
  const int next = pairs.Pair(stages[0], stages[1]), same = pairs.Pair(stages[0], stages[0]);
  EXPECT_EQ(pairs.Pair(stages[2], stages[3]), next);
  EXPECT_EQ(pairs.Pair(stages[3], stages[3]), same);
  EXPECT_NE(next, same);
  EXPECT_EQ(pairs.from(next), Stage(0));
  EXPECT_EQ(pairs.to(next), Stage(2));
}

TEST(PlacePairsTest, LinksAndSharedRanksTellPairsApart) {
  const Topology topology = OneHost(8, 4);  // ranks 0 to 3 are one process
  PlacePairs pairs(topology);
  const auto pair = [&](int from, int to) { return pairs.Pair(pairs.Number(Stage(from)), pairs.Number(Stage(to))); };
  EXPECT_EQ(pair(0, 2), pair(4, 6));
  EXPECT_NE(pair(0, 2), pair(2, 4)) << "between processes";
  EXPECT_NE(pair(0, 2), pair(0, 1)) << "rank 1 is in both";
  const Placement renamed({{"dp", 2}}, {0, 1});
  EXPECT_NE(pairs.Pair(pairs.Number(renamed), pairs.Number(Stage(2))), pair(0, 2));
}

}  // namespace
}  // namespace oneflow
