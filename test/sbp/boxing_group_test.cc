#include "sbp/boxing_group.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "sbp/boxing.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

std::vector<Sbp> Choices(int rank) {
  std::vector<Sbp> choices = {Sbp::Broadcast(), Sbp::Partial()};
  for (int d = 0; d < rank; ++d) choices.push_back(Sbp::Split(d));
  return choices;
}

struct Case {
  TensorType type;
  DistType from, to;
};

Case RandomCase(std::mt19937& random) {
  const auto pick = [&](int n) { return static_cast<int>(random() % n); };
  const std::vector<std::vector<Axis>> meshes = {{{"dp", 2}, {"tp", 3}}, {{"dp", 4}}, {{"a", 2}, {"b", 2}, {"c", 2}}};
  const std::vector<Axis> axes = meshes[pick(3)];
  int size = 1;
  for (const Axis& axis : axes) size *= axis.size;
  const auto placement = [&](int first) {
    std::vector<int> ranks(size);
    for (int i = 0; i < size; ++i) ranks[i] = first + i;
    return Placement(axes, ranks);
  };
  Case c{{DType::kFloat32, Shape({1 + pick(9), 1 + pick(9)})},
         {placement(0), {}},
         {placement(pick(2) == 0   ? 0
                    : pick(2) == 0 ? size
                                   : 1),
          {}}};        // the same, beside it, overlapping
  if (pick(3) == 0) {  // ranks in one another's places
    std::vector<int> ranks = c.to.placement.ranks();
    std::shuffle(ranks.begin(), ranks.end(), random);
    c.to.placement = Placement(axes, ranks);
  }
  const std::vector<Sbp> choices = Choices(2);
  for (size_t a = 0; a < axes.size(); ++a) {
    c.from.sbp.push_back(choices[pick(4)]);
    c.to.sbp.push_back(pick(2) == 0 ? c.from.sbp.back() : choices[pick(4)]);
  }
  return c;
}

// Where shard `index` begins.
std::vector<int64_t> StartOf(const Shape& shape, const DistType& dist, int index) {
  return ShardRegion(shape, dist, index).start;
}

// A piece as source rank, offset within the destination's shard, extent: what does not depend on where the tensor
// begins.
using Row = std::tuple<int, std::vector<int64_t>, std::vector<int64_t>>;

std::vector<Row> RowsOf(const Shape& shape, const BoxingStep& step, int rank) {
  std::vector<Row> rows;
  const int index = step.to.placement.IndexOf(rank);
  if (index < 0) return rows;
  const std::vector<int64_t> start = StartOf(shape, step.to, index);
  for (const BoxingPiece& piece : step.pieces[index]) {
    std::vector<int64_t> at = piece.region.start;
    for (size_t d = 0; d < at.size(); ++d) at[d] -= start[d];
    rows.push_back({step.from.placement.ranks()[piece.source], at, piece.region.extent});
  }
  return rows;
}

int SourceReaders(const BoxingStep& step, int rank) {
  int readers = 0;
  for (const std::vector<BoxingPiece>& pieces : step.pieces) {
    for (const BoxingPiece& piece : pieces) readers += step.from.placement.ranks()[piece.source] == rank;
  }
  return readers;
}

TEST(BoxingGroupTest, HasWhatItsRankDoesInTheWholeBoxing) {
  const unsigned seed = 17;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int smaller = 0;
  for (int round = 0; round < 3000; ++round) {
    const Case c = RandomCase(random);
    const Topology topology = OneHost(24, 3);
    const absl::StatusOr<BoxingStep> whole = OneBoxingStep(c.type, c.from, c.to, topology);
    if (!whole.ok()) continue;
    for (int rank = 0; rank < 24; ++rank) {
      if (c.from.placement.IndexOf(rank) < 0 && c.to.placement.IndexOf(rank) < 0) continue;
      const BoxingGroup group = GroupOf(c.type.shape, c.from, c.to, rank);
      smaller += group.to.placement.size() < c.to.placement.size();
      ASSERT_OK_AND_ASSIGN(const BoxingStep part,
                           OneBoxingStep({c.type.dtype, group.shape}, group.from, group.to, topology));
      ASSERT_EQ(RowsOf(c.type.shape, *whole, rank), RowsOf(group.shape, part, rank))
          << c.type.ToString() << " " << c.from.ToString() << " -> " << c.to.ToString() << " rank " << rank;
      ASSERT_EQ(SourceReaders(*whole, rank), SourceReaders(part, rank));
      if (!IsLocal(c.from, c.to)) continue;
      for (const Row& row : RowsOf(c.type.shape, *whole, rank)) EXPECT_EQ(std::get<0>(row), rank);
    }
  }
  EXPECT_GT(smaller, 1000);
}

TEST(BoxingGroupTest, IsOneTensorParallelGroupOfManyDataParallelOnes) {
  std::vector<int> ranks(256);
  for (int i = 0; i < 256; ++i) ranks[i] = i;
  const Placement all({{"dp", 32}, {"tp", 8}}, ranks);
  const BoxingGroup group =
      GroupOf(Shape({4096, 1024}), {all, {Sbp::Split(0), Sbp::Partial()}}, {all, {Sbp::Split(0), Sbp::Split(1)}}, 83);
  EXPECT_EQ(group.shape, Shape({128, 1024}));
  EXPECT_EQ(group.from.ToString(), "[tp=8]{80,81,82,83,84,85,86,87}(P)");
  EXPECT_EQ(group.to.ToString(), "[tp=8]{80,81,82,83,84,85,86,87}(S(1))");
}

// Parts that go on by one rank in each of two rings: a ring is a group of its own, and each rank reads one other.
TEST(BoxingGroupTest, RingsAreGroups) {
  const Shape shape({4, 6});
  const NdSbp split = {Sbp::Split(0), Sbp::Split(1)};
  const DistType from = {Placement({{"dp", 2}, {"cp", 3}}, {0, 1, 2, 3, 4, 5}), split},
                 to = {Placement({{"dp", 2}, {"cp", 3}}, {1, 2, 0, 4, 5, 3}), split};
  EXPECT_FALSE(IsLocal(from, to));
  const BoxingGroup group = GroupOf(shape, from, to, 4);
  EXPECT_EQ(group.shape, Shape({2, 6}));
  EXPECT_EQ(group.from.ToString(), "[cp=3]{3,4,5}(S(1))");
  EXPECT_EQ(group.to.ToString(), "[cp=3]{4,5,3}(S(1))");
  const Topology topology = *Topology::Create(6, 6, {{.devices = 6}});
  const TensorType type = {DType::kFloat32, shape};
  const absl::StatusOr<std::vector<DistType>> path = BoxingPath(type, from, to, topology);
  ASSERT_OK(path);
  EXPECT_EQ(*path, std::vector<DistType>{to}) << "one step";
  ASSERT_OK_AND_ASSIGN(const BoxingStep step, OneBoxingStep(type, from, to, topology));
  for (int index = 0; index < 6; ++index) {
    ASSERT_EQ(step.pieces[index].size(), 1u);
    EXPECT_EQ(step.pieces[index][0].source, index) << "who had the part that lies there now";
  }
  EXPECT_EQ(BytesMoved(type, step), 4 * 4 * 6);
  const std::optional<BoxingReach> reach = ReachOf(shape, from, to);
  ASSERT_TRUE(reach.has_value());
  EXPECT_TRUE(reach->one);
  using ::testing::ElementsAre;
  using ::testing::Pair;
  EXPECT_THAT(TurnOf(from.placement, to.placement),
              ElementsAre(Pair(0, 2), Pair(1, 0), Pair(2, 1), Pair(3, 5), Pair(4, 3), Pair(5, 4)));
  EXPECT_FALSE(ReachOf(Shape({4, 2}), from, to)->one) << "a rank has nothing, and nobody waits for it";
}

}  // namespace
}  // namespace oneflow
